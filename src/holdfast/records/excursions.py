# SPDX-License-Identifier: Apache-2.0
"""Measures of how a series of costs, by epoch or by episode, kept its limit.

    excursions      stretches above the limit, one by one
    mean_excursion  how many there are, how long and how large
    growth          p in regret ∝ steps^p: below 1 the regret is sublinear
    violations      SafeRLEval's measures: how often, and how far from the limit in units of it
    safe_from       steps until it is first kept, and until it is kept for good
    calibration     realised per predicted change of the cost

The functions take plain arrays; the report, the benchmarks and evaluations use them.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True)
class Excursion:
    """Consecutive epochs in which the cost of some constraint was above its limit."""

    first: int
    """The first epoch."""
    epochs: int
    largest: float
    """Largest cost above the limit, over constraints and epochs."""
    ended: bool
    """Whether the cost returned below its limit before training ended."""


def excursions(over: NDArray[np.float64]) -> list[Excursion]:
    """Stretches of rows [E, K] with a positive entry."""
    return [
        Excursion(int(a) + 1, int(b - a), float(over[a:b].max()), bool(b < len(over)))
        for a, b in stretches((over > 0).any(1))
    ]


@dataclass(frozen=True)
class MeanExcursion:
    """Number and mean size of the stretches above the limit."""

    number: int
    length: float
    """Mean number of entries in a stretch; 0 without a stretch."""
    area: float
    """Mean sum of cost − limit in a stretch; number · area is the regret of these costs."""


def mean_excursion(costs: ArrayLike, limit: float) -> MeanExcursion:
    values = np.asarray(costs, float)
    spans = stretches(values > limit)
    if not len(spans):
        return MeanExcursion(0, 0.0, 0.0)
    excess = np.concatenate([[0.0], np.cumsum(np.maximum(values - limit, 0.0))])
    area = excess[spans[:, 1]] - excess[spans[:, 0]]
    return MeanExcursion(len(spans), float(np.diff(spans, axis=1).mean()), float(area.mean()))


def stretches(above: ArrayLike) -> NDArray[np.intp]:
    """[n, 2] first entry of each stretch of True, and the one after its last."""
    padded = np.concatenate([[False], np.asarray(above, bool), [False]])
    return np.flatnonzero(np.diff(padded.astype(int))).reshape(-1, 2)


def growth(steps: ArrayLike, regret: ArrayLike) -> float:
    """p = log2(R(T) / R(T/2)) of a cumulative regret R: 1 is linear growth, 0 is no growth.

    0 without any regret, +inf if all of it is in the second half.
    """
    t, r = np.asarray(steps, float), np.asarray(regret, float)
    if r.size < 2 or r[-1] <= 0:
        return 0.0 if r.size and r[-1] <= 0 else float("nan")
    half = float(np.interp(t[-1] / 2, np.concatenate([[0.0], t]), np.concatenate([[0.0], r])))
    return float(np.log2(r[-1] / half)) if half > 0 else float("inf")


@dataclass(frozen=True)
class Violations:
    """SafeRLEval's measures of a set of costs against one limit."""

    rate: float
    """Share of entries above the limit."""
    distance: float
    """Mean of cost / limit − 1 over all entries; negative: a margin."""
    distance_violating: float
    """The same over entries above the limit; 0 if there are none."""


def violations(costs: ArrayLike, limit: float) -> Violations:
    values = np.asarray(costs, float)
    values = values[np.isfinite(values)]
    if not values.size:
        return Violations(*[float("nan")] * 3)
    unit = limit if limit > 0 else 1.0
    away, above = (values - limit) / unit, values > limit
    worst = float(away[above].mean()) if above.any() else 0.0
    return Violations(float(above.mean()), float(away.mean()), worst)


def safe_from(steps: ArrayLike, costs: ArrayLike, limit: float) -> tuple[float, float]:
    """(steps to the first entry within the limit, steps after which all are within it); NaN:
    never.
    """
    t, kept = np.asarray(steps, float), np.asarray(costs, float) <= limit
    first = float(t[np.argmax(kept)]) if kept.any() else float("nan")
    if not kept.size or not kept[-1]:
        return first, float("nan")
    broken = np.flatnonzero(~kept)
    return first, float(t[broken[-1] + 1] if broken.size else t[0])


def calibration(predicted: ArrayLike, realised: ArrayLike) -> float:
    """Slope of realised on predicted changes, through 0; NaN without a prediction."""
    p, r = np.asarray(predicted, float), np.asarray(realised, float)
    known = np.isfinite(p) & np.isfinite(r)
    square = float(p[known] @ p[known])
    return float(p[known] @ r[known]) / square if square > 0 else float("nan")
