# SPDX-License-Identifier: Apache-2.0
"""Bounds on a mean if the tail is as observed (Student, Hall), and on a probability (exact)."""

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy import special  # scipy.stats would cost half a second at every start

from holdfast.records.statistics import Array, Estimate


def seen_upper_bound(costs: ArrayLike, level: float = 0.95) -> float:
    """Upper bound on the mean of `costs` [n] if the tail is as observed; infinite without
    spread.
    """
    x = finite(costs)
    n, spread = x.size, 0.0 if x.size < 2 else float(x.std(ddof=1))
    if n < 2 or spread <= 1e-12 * float(np.abs(x).max()):
        return math.inf
    quantile = float(special.stdtrit(n - 1, checked(level))) / math.sqrt(n)
    centred = (x - x.mean()) / spread
    skew = float((centred**3).mean())
    if abs(skew) < 1e-6:  # Hall's formula tends to Student's there
        return float(x.mean()) + spread * quantile
    shift = 1.0 - skew * (quantile + skew / (6.0 * n))
    hall = -3.0 / skew * (float(np.cbrt(shift)) - 1.0)
    return float(x.mean()) + spread * max(quantile, hall)


def seen_lower_bound(costs: ArrayLike, level: float = 0.95) -> float:
    """Lower bound on the mean of `costs` [n] if the tail is as observed."""
    return -seen_upper_bound(-finite(costs), level)


def binomial_interval(successes: int, trials: int, level: float = 0.95) -> Estimate:
    """Exact (Clopper-Pearson) interval for a probability, e.g. that an episode breaks the limit."""
    if not 0 <= successes <= trials or trials < 1:
        raise ValueError(
            f"{successes} of {trials} is not a valid count: pass 0 <= successes <= trials and 1 "
            "<= trials."
        )
    tail = (1.0 - checked(level)) / 2.0
    low = special.betaincinv(successes, trials - successes + 1, tail) if successes else 0.0
    high = (
        special.betainccinv(successes + 1, trials - successes, tail) if successes < trials else 1.0
    )
    return Estimate(successes / trials, float(low), float(high))


def finite(costs: ArrayLike) -> Array:
    """Costs as an array; ValueError if one is not finite, or there is none."""
    x = np.array(costs, np.float64)
    if x.size == 0 or not np.isfinite(x).all():
        raise ValueError(f"{x.size} episode costs, not all finite: pass at least one finite cost.")
    return x


def checked(level: float) -> float:
    """A confidence level; ValueError if it is none."""
    if not 0.5 < level < 1:
        raise ValueError(f"level={level} must lie in (0.5, 1); 0.95 is customary.")
    return level
