# SPDX-License-Identifier: Apache-2.0
"""Barrier generators φ on the slack x = b − V_c, in float64, for the exact solvers.

    entropy  φ(x) = x log x    φ'' = 1/x      finite at the boundary
    log      φ(x) = −log x     φ'' = 1/x²     infinite there; β is dimension-free

The Bregman divergence of φ, written in the spent budget u = (slack − new slack)/slack, is

    D_φ(slack − spent ‖ slack):  entropy  slack ((1−u) log(1−u) + u),   log  −log(1−u) − u

which loses no digits near u = 0, where the textbook form cancels.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from holdfast.tabular.cmdp import Floats

Map = Callable[[Floats], Floats]


@dataclass(frozen=True)
class Potential:
    """A generator φ and the maps derived from it."""

    value: Map
    """φ(x)."""
    slope: Map
    """φ'(x); tends to −∞ at the boundary."""
    curvature: Map
    """φ''(x)."""
    softness: Map
    """1/φ''(x), which tends to 0 at the boundary instead of overflowing."""
    unit: Callable[[Floats, Floats], Floats]
    """D_φ as a function of (slack, u); u < 1."""
    at_limit: Map
    """D_φ when the whole slack is spent."""
    unit_reversed: Callable[[Floats, Floats], Floats]
    """D_φ(slack ‖ slack − spent) as a function of (slack, u)."""
    shifted: Callable[[Floats, Floats], Floats]
    """(y0, κ) ↦ y with φ'(y) = φ'(y0) − κ."""
    conjugate: Callable[[Floats, Floats], Floats]
    """(y0, κ) ↦ max_y [−κ y − D_φ(y ‖ y0)], attained at `shifted(y0, κ)`."""


POTENTIALS = {
    "entropy": Potential(
        value=lambda x: x * np.log(x),
        slope=lambda x: np.log(x) + 1.0,
        curvature=lambda x: 1.0 / x,
        softness=lambda x: x,
        unit=lambda slack, u: slack * ((1.0 - u) * np.log1p(-u) + u),
        at_limit=lambda slack: slack,
        unit_reversed=lambda slack, u: slack * (-np.log1p(-u) - u),
        shifted=lambda y0, kappa: y0 * np.exp(-kappa),
        conjugate=lambda y0, kappa: y0 * np.expm1(-kappa),
    ),
    "log": Potential(
        value=lambda x: -np.log(x),
        slope=lambda x: -1.0 / x,
        curvature=lambda x: 1.0 / x**2,
        softness=lambda x: x**2,
        unit=lambda slack, u: -np.log1p(-u) - u,
        at_limit=lambda slack: np.full_like(slack, np.inf),
        unit_reversed=lambda slack, u: np.log1p(-u) + u / (1.0 - u),
        shifted=lambda y0, kappa: y0 / (1.0 + kappa * y0),
        conjugate=lambda y0, kappa: -np.log1p(kappa * y0),
    ),
}
"""Barriers of flows and exact updates; those of the algorithms are `core.barrier.BARRIERS`."""


def psi(potential: Potential, slack: ArrayLike, spent: ArrayLike) -> Floats:
    """Ψ(x) = D_φ(slack − x ‖ slack), the divergence of spending x; +inf beyond the slack."""
    room = np.asarray(slack, float)
    return _within(potential.unit, room, np.asarray(spent, float), potential.at_limit(room))


def psi_reversed(potential: Potential, slack: ArrayLike, spent: ArrayLike) -> Floats:
    """D_φ(slack ‖ slack − x), the order of the ideal update; +inf from the slack on."""
    used = np.asarray(spent, float)
    return _within(potential.unit_reversed, np.asarray(slack, float), used, np.array(np.inf))


def _within(
    unit: Callable[[Floats, Floats], Floats], slack: Floats, spent: Floats, at_limit: Floats
) -> Floats:
    share = np.asarray(spent / slack)
    inside = unit(slack, np.where(share < 1.0, share, 0.0))
    return np.where(share < 1.0, inside, np.where(share == 1.0, at_limit, np.inf))
