# SPDX-License-Identifier: Apache-2.0
"""Is this policy safe? A verdict from the costs of a few episodes, with its confidence.

A mean episode cost below the limit proves little: five lucky episodes do that for an unsafe policy.
The verdict therefore compares the limit b with confidence bounds on the mean cost:

    upper bound ≤ b  →  yes      lower bound > b  →  no      otherwise  →  undecided

Episode costs are skewed (many cheap episodes, few terrible ones), and Student's t then promises too
much: its "95 %" bound on exponential costs from 20 episodes holds in 90 % of cases only. Hall's
cubic transformation (1992) removes the leading effect of skewness; we use the wider of the two.
"""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy import special  # scipy.stats would cost half a second at every start

from holdfast.core.stats import Array, Estimate

FEWEST = 10  # episodes below which no verdict is given: neither spread nor skewness is known


def upper_bound(costs: ArrayLike, level: float = 0.95) -> float:
    """One-sided upper confidence bound on the mean of `costs` [n]; infinite for one episode."""
    x = _finite(costs)
    n, spread = x.size, 0.0 if x.size < 2 else float(x.std(ddof=1))
    if n < 2:
        return math.inf
    if spread == 0.0:
        return float(x[0])
    quantile = float(special.stdtrit(n - 1, _checked(level))) / math.sqrt(n)
    centred = (x - x.mean()) / spread
    skew = float((centred**3).mean())
    if abs(skew) < 1e-6:  # Hall's formula tends to Student's there
        return float(x.mean()) + spread * quantile
    shift = 1.0 - skew * (quantile + skew / (6.0 * n))
    hall = -3.0 / skew * (float(np.cbrt(shift)) - 1.0)
    return float(x.mean()) + spread * max(quantile, hall)


def lower_bound(costs: ArrayLike, level: float = 0.95) -> float:
    """One-sided lower confidence bound on the mean of `costs` [n]."""
    return -upper_bound(-_finite(costs), level)


def binomial_interval(successes: int, trials: int, level: float = 0.95) -> Estimate:
    """Exact (Clopper-Pearson) interval for a probability, e.g. that an episode breaks the limit."""
    if not 0 <= successes <= trials or trials < 1:
        raise ValueError(
            f"{successes} of {trials} is no count: need 0 <= successes <= trials, 1 <= trials."
        )
    tail = (1.0 - _checked(level)) / 2.0
    low = special.betaincinv(successes, trials - successes + 1, tail) if successes else 0.0
    high = (
        special.betainccinv(successes + 1, trials - successes, tail) if successes < trials else 1.0
    )
    return Estimate(successes / trials, float(low), float(high))


@dataclass(frozen=True)
class Verdict:
    """What `episodes` evaluation episodes say about safety; one entry per constraint."""

    safe: Literal["yes", "no", "undecided"]
    mean: tuple[float, ...]
    lower: tuple[float, ...]
    upper: tuple[float, ...]
    limits: tuple[float, ...]
    episodes: int
    violating: Estimate
    """Probability that a single episode exceeds some limit: a mean can hide rare disasters."""
    level: float

    def __str__(self) -> str:
        worst = int(np.argmax(np.subtract(self.upper, self.limits)))
        return (
            f"safe at {self.level:.0%}: {self.safe} (mean cost {self.mean[worst]:.2f}, upper bound "
            f"{self.upper[worst]:.2f}, limit {self.limits[worst]:g}, {self.episodes} episodes)"
        )


def verdict(costs: ArrayLike, limits: ArrayLike, level: float = 0.95) -> Verdict:
    """Judge episode costs [n] against a limit, or [n, m] against m limits, all to be kept at once.

    "yes" needs every constraint below its limit, so each may be tested at the full level
    (intersection-union); "no" needs only one above, so the error is shared among them (Bonferroni).
    """
    table, bounds = _finite(costs), np.atleast_1d(np.asarray(limits, np.float64))
    table = table[:, None] if table.ndim == 1 else table
    if table.ndim != 2 or bounds.shape != table.shape[1:]:
        raise ValueError(
            f"costs of shape {np.shape(costs)} do not fit {bounds.size} limit(s): pass one row per "
            "episode and one column per limit."
        )
    shared = 1.0 - (1.0 - _checked(level)) / bounds.size
    upper = [upper_bound(column, level) for column in table.T]
    lower = [lower_bound(column, shared) for column in table.T]
    answer: Literal["yes", "no", "undecided"] = "undecided"
    if table.shape[0] >= FEWEST:
        if all(high <= b for high, b in zip(upper, bounds, strict=True)):
            answer = "yes"
        elif any(low > b for low, b in zip(lower, bounds, strict=True)):
            answer = "no"
    broken = int((table > bounds).any(axis=1).sum())
    return Verdict(
        answer,
        mean=tuple(float(value) for value in table.mean(axis=0)),
        lower=tuple(lower),
        upper=tuple(upper),
        limits=tuple(float(b) for b in bounds),
        episodes=table.shape[0],
        violating=binomial_interval(broken, table.shape[0], level),
        level=level,
    )


def _finite(costs: ArrayLike) -> Array:
    x = np.asarray(costs, np.float64)
    if x.size == 0 or not np.isfinite(x).all():
        raise ValueError(f"{x.size} episode costs, not all finite: pass at least one finite cost.")
    return x


def _checked(level: float) -> float:
    if not 0.5 < level < 1:
        raise ValueError(f"level={level} must lie in (0.5, 1); 0.95 is customary.")
    return level
