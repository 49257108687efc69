# SPDX-License-Identifier: Apache-2.0
"""User-defined barriers, by object or by name, for training and for the exact toolkit.

A name is `file.py:name` or `module:name` of a `Generator`; a generator that is passed as an object
is recorded as `<its name>`. Loading a name runs code, so a name in a run folder needs the user's
consent, as with environments.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from holdfast.algorithms import HasBarrier
from holdfast.core.barrier import BARRIERS, unknown_barrier
from holdfast.core.generator import QUADRATURE_BELOW, Generator, by_quadrature, register
from holdfast.envs.foreign.references import load, refuse_untrusted, split
from holdfast.tabular.cmdp import Floats
from holdfast.tabular.potentials import POTENTIALS, Potential

DEEP = 600.0
"""Slacks between e^−600 and e^600 are searched."""


def use_barrier(given: Generator | str) -> str:
    """Register a barrier, by object or by name; returns the name that run.json records."""
    if isinstance(given, Generator):
        return _register(given, None)
    if given in BARRIERS or given in POTENTIALS:
        return given
    if split(given) is None:
        raise unknown_barrier(given)
    found: Any = load(given)
    if not isinstance(found, Generator):
        raise ValueError(
            f"'{given}' is a {type(found).__name__}, not a barrier: make it "
            "holdfast.Generator(name, value, slope, curvature)."
        )
    return _register(found, given)


def settled(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings with a barrier's name in place of the barrier, which is registered."""
    given = settings.get("barrier")
    if isinstance(given, Generator) or (isinstance(given, str) and ":" in given):
        return settings | {"barrier": use_barrier(given)}
    return settings


def barrier_name(algorithm: object) -> str:
    """The name of the algorithm's user-defined barrier, if it must be loaded; else ""."""
    name = algorithm.barrier if isinstance(algorithm, HasBarrier) else ""
    return "" if name in BARRIERS else name


def ensure_barrier(algorithm: object, trusted: bool) -> None:
    """Load the barrier that a run names, with the user's consent."""
    if name := barrier_name(algorithm):
        if name.startswith("<"):
            raise unknown_barrier(name)
        refuse_untrusted((name,), {}, trusted)
        use_barrier(name)


def _register(generator: Generator, name: str | None) -> str:
    known = register(generator, name)
    POTENTIALS[known] = potential_of(generator)
    return known


def potential_of(generator: Generator) -> Potential:
    """The functions of a generator that flows and exact updates need, in float64."""
    exact = lambda f: _in_float64(jax.jit(f))
    return Potential(
        value=exact(generator.value),
        slope=exact(generator.slope),
        curvature=exact(generator.curvature),
        softness=exact(lambda x: 1.0 / generator.curvature(x)),
        unit=exact(lambda slack, u: _divergence(generator, slack, u, reverse=False)),
        at_limit=lambda slack: _at_limit(generator, slack),
        unit_reversed=exact(lambda slack, u: _divergence(generator, slack, u, reverse=True)),
        shifted=exact(lambda y0, kappa: _shifted(generator, y0, kappa)),
        conjugate=exact(lambda y0, kappa: _conjugate(generator, y0, kappa)),
    )


def _in_float64(compiled: Any) -> Any:
    def call(*given: Floats) -> Floats:
        with jax.enable_x64(True):
            return np.asarray(compiled(*(jnp.asarray(x, jnp.float64) for x in given)))

    return call


def _divergence(generator: Generator, slack: Array, u: Array, reverse: bool) -> Array:
    """D_φ((1 − u) slack ‖ slack), or the other order, for u < 1."""
    small = jnp.abs(u) < QUADRATURE_BELOW
    near = by_quadrature(generator, slack, jnp.where(small, u, 0.0) * slack, reverse)
    left = slack * (1.0 - jnp.where(small, 0.5, u))
    first, second = (slack, left) if reverse else (left, slack)
    far = generator.value(first) - generator.value(second)
    return jnp.where(small, near, far - generator.slope(second) * (first - second))


def _at_limit(generator: Generator, slack: Floats) -> Floats:
    """D_φ(0 ‖ slack): infinite unless φ has a limit at 0."""
    value, slope = (_in_float64(f) for f in (generator.value, generator.slope))
    deep, deeper = value(np.array([1e-150, 1e-300]))
    if not np.isfinite(deeper) or abs(deeper - deep) > 1e-9 * (1.0 + abs(deep)):
        return np.full_like(slack, np.inf)
    return deeper - value(slack) + slope(slack) * slack


def _shifted(generator: Generator, y0: Array, kappa: Array) -> Array:
    """y with φ'(y) = φ'(y0) − κ, by bisection in log y; +inf if φ' does not rise that far."""
    target = generator.slope(y0) - kappa
    low, high = jnp.broadcast_to(-DEEP, target.shape), jnp.broadcast_to(DEEP, target.shape)

    def halve(_: int, ends: tuple[Array, Array]) -> tuple[Array, Array]:
        middle = 0.5 * (ends[0] + ends[1])
        below = generator.slope(jnp.exp(middle)) < target
        return jnp.where(below, middle, ends[0]), jnp.where(below, ends[1], middle)

    low, high = jax.lax.fori_loop(0, 64, halve, (low, high))
    y = jnp.exp(0.5 * (low + high))
    for _ in range(2):  # Newton's steps correct the rounding of the logarithm
        better = y - (generator.slope(y) - target) / generator.curvature(y)
        y = jnp.where((better > 0.5 * y) & (better < 2.0 * y), better, y)
    return jnp.where(generator.slope(jnp.exp(DEEP)) < target, jnp.inf, y)


def _conjugate(generator: Generator, y0: Array, kappa: Array) -> Array:
    """max_y −κ y − D_φ(y ‖ y0)."""
    y = _shifted(generator, y0, kappa)
    inside = jnp.isfinite(y)
    u = 1.0 - jnp.where(inside, y, y0) / y0
    price = _divergence(generator, y0, u, reverse=False)
    return jnp.where(inside, -kappa * y - price, jnp.inf)
