# SPDX-License-Identifier: Apache-2.0
"""Newton's method for the small, smooth, convex duals of this package.

They have one variable for each constraint, may be +inf outside their domain and nearly linear where
a policy is nearly deterministic; capped steps and backtracking take care of both.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from holdfast.tabular.cmdp import Floats

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Point(Generic[T]):
    """A convex function at one place; `height` may be inf, then the rest is not looked at."""

    height: float
    gradient: Floats
    hessian: Floats
    primal: T
    """What belongs to this place in the problem that the function is the dual of."""


def minimise(
    function: Callable[[Floats], Point[T]], start: Floats, tolerance: float = 1e-13
) -> tuple[Floats, Point[T]]:
    """The minimiser and the function there; stops when the gradient, or the step, is rounding."""
    x, here = start, function(start)
    for _ in range(300):
        if np.max(np.abs(here.gradient), initial=0.0) <= tolerance:
            break
        step = np.asarray(np.linalg.lstsq(here.hessian, -here.gradient, rcond=1e-15)[0], np.float64)
        reach = max(1.0, float(np.max(np.abs(x))))
        if not np.all(np.isfinite(step)):
            step = -here.gradient / np.max(np.abs(here.gradient))
        step = step * min(1.0, reach / max(float(np.max(np.abs(step))), 1e-300))
        moved = _backtrack(function, x, step, here)
        if moved is None:
            break
        stalled = np.max(np.abs(moved[0] - x)) <= 1e-14 * reach
        x, here = moved
        if stalled:
            break
    return x, here


def _backtrack(
    function: Callable[[Floats], Point[T]], x: Floats, step: Floats, here: Point[T]
) -> tuple[Floats, Point[T]] | None:
    """Halve the step until the function decreases enough, rounding of its value allowed for."""
    slope = float(here.gradient @ step)
    rounding = 1e-14 * max(1.0, abs(here.height))
    for halvings in range(60):
        scale = 0.5**halvings
        tried = function(x + scale * step)
        if tried.height <= here.height + 1e-4 * scale * slope + rounding:
            return x + scale * step, tried
    return None
