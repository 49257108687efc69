# SPDX-License-Identifier: Apache-2.0
"""Barriers: divergences that grow as an update uses up the slack below a cost limit.

A convex generator φ with φ'(x) → −∞ at 0 induces the Bregman divergence

    D_φ(slack − spent ‖ slack) = φ(slack − spent) − φ(slack) + φ'(slack) · spent

which is 0 at spent = 0, convex, and +∞ beyond the limit. With u = spent / slack:

    entropy           φ = x log x      slack · ((1 − u) log(1 − u) + u)     φ'' = 1 / slack
    log               φ = −log x       −log(1 − u) − u                      φ'' = 1 / slack²
    reversed-entropy  D_φ(slack ‖ slack − spent), φ = x log x = slack · log φ'' = 1 / slack

The textbook difference of two φ loses all digits in float32 if little is spent. These forms use
log1p and, for small |u|, the power series, so every one is exact to rounding.

Without slack there is no barrier; the update then repairs the costs with `recovery_weights`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import jax.numpy as jnp
from jax import Array

SERIES_BELOW = 0.03
"""Largest |u| for which ten terms of the series are exact in float64."""


def _series(u: Array, coefficients: list[float]) -> Array:
    """u² · (c_0 + c_1 u + c_2 u² + ...), by Horner."""
    total = jnp.zeros_like(u)
    for c in reversed(coefficients):
        total = total * u + c
    return u * u * total


def _log_left(u: Array) -> Array:
    """log(1 − u) for u ≤ 1. XLA's log1p loses two digits about −0.4, where log does as well."""
    near = jnp.abs(u) < 0.3
    return jnp.where(near, jnp.log1p(jnp.where(near, -u, 0.0)), jnp.log(1 - u))


def _entropy(u: Array) -> Array:
    """(1 − u) log(1 − u) + u = Σ_{k≥2} u^k / (k (k − 1))."""
    inside = jnp.minimum(u, 1.0)
    small = jnp.abs(u) < SERIES_BELOW
    series = _series(jnp.where(small, u, 0.0), [1 / (k * (k - 1)) for k in range(2, 12)])
    some = jnp.where(inside < 1.0, inside, 0.0)  # 0 log 0 = 0
    left = jnp.where(inside < 1.0, (1 - some) * _log_left(some), 0.0)
    return jnp.where(small, series, left + inside)


def _log(u: Array) -> Array:
    """−log(1 − u) − u = Σ_{k≥2} u^k / k."""
    inside = jnp.where(u < 1.0, u, 0.0)
    small = jnp.abs(u) < SERIES_BELOW
    series = _series(jnp.where(small, u, 0.0), [1 / k for k in range(2, 12)])
    return jnp.where(u < 1.0, jnp.where(small, series, -_log_left(inside) - inside), jnp.inf)


@dataclass(frozen=True)
class Barrier:
    """A barrier as two functions of the slack (> 0)."""

    divergence: Callable[[Array, Array], Array]
    """(slack, spent) → D_φ, +inf where more than the slack is spent."""
    curvature: Callable[[Array], Array]
    """slack → φ''(slack), the second derivative of the divergence at spent = 0."""


def _within(u: Array, value: Array) -> Array:
    return jnp.where(u > 1.0, jnp.inf, value)


BARRIERS: dict[str, Barrier] = {
    "entropy": Barrier(
        lambda slack, spent: _within(spent / slack, slack * _entropy(spent / slack)),
        lambda slack: 1 / slack,
    ),
    "log": Barrier(lambda slack, spent: _log(spent / slack), lambda slack: 1 / slack**2),
    "reversed-entropy": Barrier(
        lambda slack, spent: slack * _log(spent / slack), lambda slack: 1 / slack
    ),
}


def check_name(name: str) -> None:
    """A key of the table, or a name that becomes one when it is loaded: file.py:name, or <name>."""
    if name not in BARRIERS and ":" not in name and not name.startswith("<"):
        raise unknown_barrier(name)


def unknown_barrier(name: str) -> ValueError:
    if name.startswith("<"):
        return ValueError(
            f"barrier={name} was passed as an object, which run.json cannot store: register it "
            "again with holdfast.use_barrier(generator), or write it into a file and name it, "
            "barrier=file.py:name."
        )
    return ValueError(
        f"barrier={name!r} must be one of {', '.join(BARRIERS)}, or one of your own, file.py:name."
    )


def barrier_of(name: str) -> Barrier:
    """A registered barrier; ValueError for one that has not been loaded."""
    if name not in BARRIERS:
        raise unknown_barrier(name)
    return BARRIERS[name]


def check_interior(limits: Mapping[str, float]) -> None:
    """Refuse limits of 0, which leave no interior for a barrier."""
    for name, limit in limits.items():
        if limit == 0:
            raise ValueError(
                f"the limit {name}=0 leaves no interior for a barrier; use a small positive one, "
                "such as 1."
            )


@dataclass(frozen=True)
class Barriers:
    """The barrier terms of a divergence, one for each constraint."""

    kind: str
    """A name in `BARRIERS`."""
    slack: Array
    """[K] b − J_c, positive where beta is."""
    beta: Array
    """[K] β; 0 switches a constraint's barrier off."""
    confidence: float = 0.0
    """z: the accept test adds z standard errors, blocked by episode, to the predicted cost
    change.
    """

    def curvature(self) -> Array:
        """[K] β φ''(slack), 0 where the barrier is off."""
        return jnp.where(self.beta > 0, self.beta * barrier_of(self.kind).curvature(self.safe), 0.0)

    def divergence(self, spent: Array) -> Array:
        """Σ_i β_i D_φ, +inf if any active slack is exhausted."""
        each = self.beta * barrier_of(self.kind).divergence(self.safe, spent)
        exhausted = (self.beta > 0) & (spent >= self.slack)
        return jnp.where(exhausted, jnp.inf, jnp.where(self.beta > 0, each, 0.0)).sum()

    @property
    def safe(self) -> Array:
        return jnp.where(self.beta > 0, self.slack, 1.0)


def recovery_weights(violated: Array, excess: Array, limit: Array) -> Array:
    """[K] weights of the violated costs' advantages in a repair, summing to 1.

    Each cost enters as A_i / b_i, in proportion to its excess / b_i, so the unit of a cost does not
    matter. Σ_i w_i A_i keeps its direction if a cost and its limit are both rescaled.
    """
    unit = jnp.maximum(jnp.abs(limit), 1e-6)
    weight = jnp.where(violated, jnp.maximum(excess / unit, 1e-6), 0.0) / unit
    total = weight.sum()
    return weight / jnp.where(total > 0, total, 1.0)
