# SPDX-License-Identifier: Apache-2.0
"""A barrier from a user-defined generator: φ, φ' and φ'' as JAX functions of the slack x > 0.

    cubic = Generator("cubic", lambda x: x**-2, lambda x: -2 * x**-3, lambda x: 6 * x**-4)

Its divergence is computed without the cancellation of the textbook difference. With y = slack −
spent, and little spent, Gauss's rule is applied to

    D_φ(y ‖ slack) = ∫ (s − y) φ''(s) ds = spent² ∫₀¹ t φ''(y + t · spent) dt
"""

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from holdfast.core.barrier import BARRIERS, Barrier

Map = Callable[[Array], Array]
QUADRATURE_BELOW = 0.3
"""Largest share of the slack for which Gauss's rule is exact to rounding."""
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(12)
NODES, WEIGHTS = (0.5 + 0.5 * _NODES).tolist(), (0.5 * _WEIGHTS).tolist()


@dataclass(frozen=True)
class Generator:
    """The functions that define a barrier; checked when it is registered."""

    name: str
    """Its name in run.json."""
    value: Map
    """φ(x)."""
    slope: Map
    """φ'(x), which tends to −∞ at 0."""
    curvature: Map
    """φ''(x) > 0."""


def register(generator: Generator, name: str | None = None) -> str:
    """Check and register a generator for all algorithms; returns its name."""
    check(generator)
    known = name or f"<{generator.name}>"
    BARRIERS[known] = Barrier(divergence_of(generator), generator.curvature)
    return known


def divergence_of(generator: Generator) -> Callable[[Array, Array], Array]:
    """(slack, spent) → D_φ(slack − spent ‖ slack), +inf from the limit on."""

    def divergence(slack: Array, spent: Array) -> Array:
        share = spent / slack
        inside = share < 1.0
        used = jnp.where(inside, spent, 0.0)  # so that no gradient is NaN
        small = jnp.abs(share) < QUADRATURE_BELOW
        far = jnp.where(small, 0.5 * slack, used)
        left = slack - far
        direct = generator.value(left) - generator.value(slack) + generator.slope(slack) * far
        price = jnp.where(small, by_quadrature(generator, slack, used), direct)
        return jnp.where(inside, price, jnp.inf)

    return divergence


def by_quadrature(generator: Generator, slack: Array, spent: Array, reverse: bool = False) -> Array:
    """D_φ(slack − spent ‖ slack), or with `reverse` the other order, for small shares."""
    begin, step = (slack, -spent) if reverse else (slack - spent, spent)
    total = jnp.zeros_like(spent * slack)
    for node, weight in zip(NODES, WEIGHTS, strict=True):
        total = total + weight * node * generator.curvature(begin + node * step)
    return spent * spent * total


def check(generator: Generator) -> None:
    """ValueError unless φ is convex with φ' → −∞ at 0, and φ', φ'' are its derivatives."""
    x = np.logspace(-6.0, 3.0, 181)
    with jax.enable_x64(True):
        try:
            value, slope, curvature = (_at(f, x) for f in _parts(generator))
            of_value = np.asarray(jax.vmap(jax.grad(generator.value))(jnp.asarray(x)))
            of_slope = np.asarray(jax.vmap(jax.grad(generator.slope))(jnp.asarray(x)))
            near = _at(generator.slope, np.array([1e-3, 1e-30, 1e-150]))
        except (TypeError, ValueError, AttributeError) as error:
            raise ValueError(
                f"barrier '{generator.name}' cannot be evaluated ({error}); value, slope and "
                "curvature must be JAX functions of one number, such as lambda x: -jnp.log(x)."
            ) from error
    _refuse_not_finite(generator, x, value, slope, curvature)
    _refuse_differing(generator, "slope", "value", x, slope, of_value)
    _refuse_differing(generator, "curvature", "slope", x, curvature, of_slope)
    if not np.all(curvature > 0.0):
        at = x[~(curvature > 0.0)][0]
        raise ValueError(
            f"barrier '{generator.name}' is not convex: its curvature is "
            f"{curvature[~(curvature > 0.0)][0]:.3g} at x = {at:.3g}, and must be positive on "
            "(0, ∞); -jnp.log(x) is an example."
        )
    if not (near[1] < near[0] - 1.0 and near[2] < near[1] - 1.0):
        raise ValueError(
            f"barrier '{generator.name}' is not a barrier: its slope is {near[0]:.3g} at x = 1e-3 "
            "and "
            f"{near[2]:.3g} at 1e-150, and must tend to −∞ at 0; x log x and −log x do."
        )


def _parts(generator: Generator) -> tuple[Map, Map, Map]:
    return generator.value, generator.slope, generator.curvature


def _at(f: Map, x: np.ndarray) -> np.ndarray:
    """f on a grid, in float64."""
    return np.broadcast_to(np.asarray(f(jnp.asarray(x)), np.float64), x.shape)


def _refuse_not_finite(generator: Generator, x: np.ndarray, *columns: np.ndarray) -> None:
    for name, column in zip(("value", "slope", "curvature"), columns, strict=True):
        if not np.all(np.isfinite(column)):
            raise ValueError(
                f"barrier '{generator.name}' has a {name} that is not finite at "
                f"x = {x[~np.isfinite(column)][0]:.3g}; it must be finite for every x > 0."
            )


def _refuse_differing(
    generator: Generator, name: str, of: str, x: np.ndarray, given: np.ndarray, true: np.ndarray
) -> None:
    """Compare the given derivatives with those by automatic differentiation."""
    error = np.abs(given - true) > 1e-6 * (1.0 + np.abs(true))
    if np.any(error):
        raise ValueError(
            f"barrier '{generator.name}' has a {name} of {given[error][0]:.6g} at "
            f"x = {x[error][0]:.3g}, but the derivative of its {of} there is "
            f"{true[error][0]:.6g}; correct one of them."
        )
