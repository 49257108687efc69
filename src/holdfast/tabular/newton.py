# SPDX-License-Identifier: Apache-2.0
"""Newton's method for the small, smooth, convex duals of this package.

They have one variable for each constraint. They may be +inf outside their domain, and nearly linear
for nearly deterministic policies; capped steps and backtracking handle both. Prices of hard limits
are not negative: variables at the bound that would become negative are fixed.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from holdfast.tabular.cmdp import Floats

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Point(Generic[T]):
    """A convex function at one point; if `height` is inf, the rest is ignored."""

    height: float
    gradient: Floats
    hessian: Floats
    primal: T
    """The primal value at this point."""


def minimise(
    function: Callable[[Floats], Point[T]], start: Floats, lowest: float = -np.inf
) -> tuple[Floats, Point[T]]:
    """The minimiser over x ≥ lowest and the function there; stops at rounding precision."""
    x, here = start, function(start)
    for _ in range(300):
        held = (x <= lowest + 1e-9) & (here.gradient > 0.0)
        gradient = np.where(held, 0.0, here.gradient)
        if np.max(np.abs(gradient), initial=0.0) <= 1e-13 and np.all(x[held] == lowest):
            break
        reach = max(1.0, float(np.max(np.abs(x))))
        downhill = -gradient * (reach / max(float(np.max(np.abs(gradient))), 1e-300))
        moved = None
        for step in (_newton_step(here.hessian, gradient, reach, downhill), downhill):
            moved = moved or _backtrack(function, x, np.where(held, lowest - x, step), here, lowest)
        if moved is None:
            break
        stalled = np.max(np.abs(moved[0] - x)) <= 1e-14 * reach
        x, here = moved
        if stalled:
            break
    return x, here


def _newton_step(hessian: Floats, gradient: Floats, reach: float, downhill: Floats) -> Floats:
    """−H⁻¹ g in the free variables, no longer than `reach`.

    If g is in the kernel of H (two limits on one cost, a deterministic policy) the function is
    linear there, and the step is `downhill`, as long as allowed.
    """
    free = gradient != 0.0
    metric = np.where(np.outer(free, free), hessian, 0.0)
    step = np.asarray(np.linalg.lstsq(metric, -gradient, rcond=1e-15)[0], np.float64)
    if not np.all(np.isfinite(step)):
        return downhill
    unseen = gradient + metric @ step
    lost = float(np.max(np.abs(unseen)))
    if lost > 1e-6 * float(np.max(np.abs(gradient))):
        return -unseen * (reach / lost)
    return step * min(1.0, reach / max(float(np.max(np.abs(step))), 1e-300))


def _backtrack(
    function: Callable[[Floats], Point[T]], x: Floats, step: Floats, here: Point[T], lowest: float
) -> tuple[Floats, Point[T]] | None:
    """Halve the step until the function decreases enough, rounding of its value allowed for."""
    rounding = 1e-14 * max(1.0, abs(here.height))
    for halvings in range(30):
        moved = np.maximum(x + 0.5**halvings * step, lowest)
        slope = float(here.gradient @ (moved - x))
        if slope >= 0.0:  # the bound has bent the step away from downhill
            continue
        tried = function(moved)
        if tried.height <= here.height + 1e-4 * slope + rounding:
            return moved, tried
    return None
