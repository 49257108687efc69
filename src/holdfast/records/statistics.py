# SPDX-License-Identifier: Apache-2.0
"""Statistics for few seeds: which method is safe, and what return does it reach?

Five seeds per task are too few for means and standard errors. So all functions pool the runs of all
tasks and take a robust average, the interquartile mean (IQM). Resampling seeds *within* each task
(the stratified bootstrap) measures its variation by chance.

    IQM(x)     = mean of the middle half of x
    CostReg_+  = Σ_i Σ_k max(0, V_{c_i}(π_k) − b_i)          cumulative over epochs k
    P(X > Y)   = mean over tasks of Pr(x > y) + ½ Pr(x = y)   (Mann-Whitney)

*Strata* are one 1-d array of final scores per task, so tasks may have different numbers of seeds;
an array [tasks, runs] is a valid value. A metric maps pooled scores [..., n] to [...].
`holdfast.judge.verdict` judges the safety of a *single* policy from its episodes.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]
Strata = Sequence[ArrayLike] | Array
Metric = Callable[[Array], Array]

CHUNK = 4_000_000  # scores per block of resamples: bounds memory at 32 MB, whatever the input


@dataclass(frozen=True)
class Estimate:
    """A point estimate with its confidence interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.3g} [{self.low:.3g}, {self.high:.3g}]"


# --- metrics: pooled scores [..., n] -> [...] -------------------------------------------------


def iqm(scores: ArrayLike) -> Array:
    """Mean after cutting floor(n/4) scores at each end: 5 -> the middle 3, 40 -> the middle 20."""
    ordered = np.sort(np.asarray(scores, np.float64), axis=-1)
    cut = ordered.shape[-1] // 4
    return ordered[..., cut : ordered.shape[-1] - cut].mean(axis=-1)


def mean(scores: ArrayLike) -> Array:
    return np.asarray(scores, np.float64).mean(axis=-1)


def median(scores: ArrayLike) -> Array:
    return np.median(np.asarray(scores, np.float64), axis=-1)


def optimality_gap(scores: ArrayLike, target: float = 1.0) -> Array:
    """Mean shortfall below `target`; scores above it count as the target."""
    return np.maximum(0.0, target - np.asarray(scores, np.float64)).mean(axis=-1)


# --- scores from raw values -------------------------------------------------------------------


def cost_regret(costs: ArrayLike, limits: ArrayLike) -> Array:
    """Cumulative cost regret after each epoch.

    One constraint: costs [..., K], scalar limit. Several: costs [..., K, m], limits [m]; the
    regrets of the constraints add up. The result is [..., K]; its last entry is the total.
    """
    costs, limits = np.asarray(costs, np.float64), np.asarray(limits, np.float64)
    if limits.ndim > 1 or (limits.ndim == 1 and limits.size != costs.shape[-1]):
        raise ValueError(
            f"limits of shape {limits.shape} do not fit costs of shape {costs.shape}: "
            "pass a number for costs [..., epochs], or one limit per last axis of [..., epochs, m]."
        )
    excess = np.maximum(0.0, costs - limits)
    return np.cumsum(excess.sum(axis=-1) if limits.ndim else excess, axis=-1)


def excess_cost(costs: ArrayLike, limits: ArrayLike) -> Array:
    """Relative excess over the limit, c/b − 1: zero at the limit, negative when safe.

    With several constraints (costs [..., m], limits [m]) it is the largest excess: a policy that
    keeps all limits but one is not safe. A limit of 0 has no scale, so there the excess is the cost
    itself.
    """
    costs, limits = np.asarray(costs, np.float64), np.asarray(limits, np.float64)
    if np.any(limits < 0):
        raise ValueError(f"cost limits {limits} must not be negative: a limit bounds a cost sum.")
    excess = (costs - limits) / np.where(limits > 0, limits, 1.0)
    return excess.max(axis=-1) if limits.ndim else excess


def normalise(scores: ArrayLike, baseline: float) -> Array:
    """Scores in units of a baseline, e.g. PPO's mean return or CPO's regret on the same task."""
    if not math.isfinite(baseline) or baseline == 0:
        raise ValueError(
            f"a baseline of {baseline} cannot normalise scores: choose a baseline algorithm whose "
            "result on this task is finite and not zero."
        )
    return np.asarray(scores, np.float64) / baseline


# --- the stratified bootstrap -----------------------------------------------------------------


def bootstrap(
    strata: Strata,
    metric: Metric = iqm,
    *,
    resamples: int = 50_000,
    level: float = 0.95,
    seed: int = 0,
) -> Estimate:
    """`metric` of the pooled scores with its percentile interval, resampling within each stratum.

    Small problems are exact: if the data have fewer than `resamples` different resamples (5 seeds
    of one task have 5⁵ = 3125), each is used once, without random draws.
    """
    arrays = _checked(strata)
    values = np.concatenate(arrays)
    draws = _blocks([a.size for a in arrays], resamples, seed)
    low, high = _interval(np.concatenate([metric(values[index]) for index in draws]), level)
    return Estimate(float(metric(values)), float(low), float(high))


def probability_of_improvement(
    ours: Strata, theirs: Strata, *, resamples: int = 10_000, level: float = 0.95, seed: int = 0
) -> Estimate:
    """The probability that a random run of `ours` scores higher than one of `theirs` on a random
    task.
    """
    xs, ys = _checked(ours), _checked(theirs)
    if len(xs) != len(ys):
        raise ValueError(
            f"{len(xs)} tasks cannot be compared with {len(ys)}: pass the scores of common tasks."
        )
    rng = np.random.default_rng(seed)
    value, samples = 0.0, np.zeros(resamples)
    for x, y in zip(xs, ys, strict=True):
        wins = (np.sign(x[:, None] - y[None, :]) + 1) / 2  # 1 win, ½ tie, 0 loss
        value += float(wins.mean()) / len(xs)
        # Only how often each run was drawn matters: multinomial counts replace index gathers.
        a = rng.multinomial(x.size, np.full(x.size, 1 / x.size), resamples) / x.size
        b = rng.multinomial(y.size, np.full(y.size, 1 / y.size), resamples) / y.size
        samples += np.einsum("bi,ij,bj->b", a, wins, b, optimize=True) / len(xs)
    low, high = _interval(samples, level)
    return Estimate(value, float(low), float(high))


@dataclass(frozen=True)
class Profile:
    """Share of runs that score above each threshold, with a pointwise interval; all [T]."""

    thresholds: Array
    share: Array
    low: Array
    high: Array


def performance_profile(
    strata: Strata,
    thresholds: ArrayLike,
    *,
    resamples: int = 2_000,
    level: float = 0.95,
    seed: int = 0,
) -> Profile:
    """The run-score distribution: for each threshold τ, the share of pooled runs with score > τ."""
    arrays, taus = _checked(strata), np.asarray(thresholds, np.float64)
    above = (np.concatenate(arrays)[:, None] > taus).astype(np.float64)
    rng = np.random.default_rng(seed)
    counts = [rng.multinomial(a.size, np.full(a.size, 1 / a.size), resamples) for a in arrays]
    shares = np.concatenate(counts, axis=1) @ above / above.shape[0]
    low, high = _interval(shares, level)
    return Profile(taus, above.mean(axis=0), low, high)


# --- grouping ---------------------------------------------------------------------------------


def group_by_safety(
    excess: Mapping[str, Estimate], seeds: Mapping[str, int]
) -> tuple[list[str], list[str], list[str]]:
    """Split names into (probably safe, undecided, probably unsafe), each ordered, safest first.

    Probably safe: the whole interval of the normalised excess cost is at most 0. Probably unsafe:
    the whole interval is above 0. `seeds` is the smallest number of runs of a task. With one run
    the interval is a point without information on chance, so the method is undecided.
    """
    ordered = sorted(excess, key=lambda name: (excess[name].value, name))
    several = [name for name in ordered if seeds[name] > 1]
    safe = [name for name in several if excess[name].high <= 0.0]
    unsafe = [name for name in several if excess[name].low > 0.0]
    return safe, [name for name in ordered if name not in safe and name not in unsafe], unsafe


# --- parts ------------------------------------------------------------------------------------


def _checked(strata: Strata) -> list[Array]:
    arrays = [np.asarray(scores, np.float64).ravel() for scores in strata]
    if not arrays or any(a.size == 0 for a in arrays):
        raise ValueError("every task needs at least one run: leave out tasks without scores.")
    if not all(np.isfinite(a).all() for a in arrays):
        raise ValueError("scores must be finite: leave out runs that diverged or did not finish.")
    return arrays


def _blocks(sizes: Sequence[int], resamples: int, seed: int) -> list[NDArray[np.intp]]:
    """Index blocks [b, n] into the pooled scores, each row drawing every stratum anew."""
    if resamples < 1:
        raise ValueError(f"resamples={resamples} must be at least 1; 10000 is a good number.")
    offsets = np.cumsum([0, *sizes[:-1]])
    total = sum(sizes)
    width, start = np.repeat(sizes, sizes), np.repeat(offsets, sizes)
    if total <= 32 and float(np.log(width).sum()) < math.log(resamples):
        return [start + np.indices(tuple(width)).reshape(total, -1).T]
    rng = np.random.default_rng(seed)
    block = max(1, CHUNK // total)
    counts = [min(block, resamples - done) for done in range(0, resamples, block)]
    return [start + (rng.random((count, total)) * width).astype(np.intp) for count in counts]


def _interval(samples: Array, level: float) -> tuple[Array, Array]:
    if not 0 < level < 1:
        raise ValueError(f"level={level} must lie in (0, 1); 0.95 is customary.")
    tail = 50.0 * (1.0 - level)
    low, high = np.percentile(samples, [tail, 100.0 - tail], axis=0)
    return low, high
