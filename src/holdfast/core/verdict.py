# SPDX-License-Identifier: Apache-2.0
"""Is this policy safe? A verdict from the costs of episodes, with what it rests on.

A mean episode cost below the limit proves little: a few lucky episodes do that for an unsafe
policy. The verdict therefore compares the limit b with confidence bounds on the mean cost:

    upper bound ≤ b  →  yes      lower bound > b  →  no      otherwise  →  undecided

It is given twice.
    safe        *proved*: from `betting`, for any law of costs in [0, B], after any number of
                episodes, also if one stops as soon as the answer is there
    indicated   *if the tail is as seen*: from Student's t, or Hall's (1992) transformation for
                skewed costs where that is wider. It needs far fewer episodes, and is wrong where a
                cost that matters has not occurred yet: with a cost of 500 in one episode of 20, an
                unsafe policy is called safe from 20 episodes in a third of all cases.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy import special  # scipy.stats would cost half a second at every start

from holdfast.core import betting
from holdfast.core.stats import Array, Estimate

Answer = Literal["yes", "no", "undecided"]
FEWEST = 10  # episodes below which nothing is indicated: neither spread nor skewness is known


@dataclass(frozen=True)
class Bounds:
    """One-sided confidence bounds on the mean cost, and what they say; one entry a constraint."""

    answer: Answer
    lower: tuple[float, ...]
    upper: tuple[float, ...]


@dataclass(frozen=True)
class Verdict:
    """What `episodes` evaluation episodes say about safety; tuples have one entry a constraint.

    A policy is either safe or not, so only one of the two answers can be wrong, and that happens
    with probability 1 − level at most: nothing is split between "yes" and "no".
    """

    proved: Bounds
    """For any law of costs in [0, B]; without B no cost is too large to be excluded."""
    seen: Bounds
    """If the tail is as seen; infinite where all episodes cost the same."""
    mean: tuple[float, ...]
    limits: tuple[float, ...]
    cost_bounds: tuple[float, ...] | None
    """B: the most that one episode can cost."""
    episodes: int
    more: float
    """Episodes still expected until the answer is proved; 0 if it is, infinite if it never will."""
    violating: Estimate
    """Probability that a single episode exceeds some limit: a mean can hide rare disasters."""
    level: float
    names: tuple[str, ...] = ()
    """Of the constraints, where a sentence must say which one it speaks of."""

    @property
    def safe(self) -> Answer:
        """The proved answer."""
        return self.proved.answer

    @property
    def indicated(self) -> Answer:
        """The answer if the tail is as seen."""
        return self.seen.answer

    def __str__(self) -> str:
        return f"{self.proved_sentence} {self.seen_sentence}"

    @property
    def _worst(self) -> int:
        """The constraint to speak of: the one that decides, else the one furthest from proof."""
        reach = self.proved.lower if self.safe == "no" else self.proved.upper
        reach = reach if np.isfinite(reach).all() else self.mean
        return int(np.argmax(np.subtract(reach, self.limits) / np.maximum(self.limits, 1e-9)))

    @property
    def _cost(self) -> str:
        return f"mean cost of {self.names[self._worst]}" if self.names else "mean cost"

    @property
    def proved_sentence(self) -> str:
        """What is proved, in plain words."""
        i, b, cost = self._worst, self.limits[self._worst], self._cost
        start = f"Safe, proved at {self.level:.0%}: {self.safe}"
        given = f"({self.episodes} episodes, mean cost {self.mean[i]:.2f}, limit {b:g})."
        low, high = self.proved.lower[i], self.proved.upper[i]
        if self.safe == "no":
            return f"{start}; the {cost} is above {low:.2f} {given}"
        if self.cost_bounds is None:
            return (
                f"{start}, as no bound on the cost of an episode is known: pass the most that one "
                f"can cost as cost_bound= (--cost-bound) {given.replace('mean cost', cost)}"
            )
        law = f"whatever the law of costs in [0, {self.cost_bounds[i]:g}]"
        if self.safe == "yes":
            return f"{start}; the {cost} is below {high:.2f}, {law} {given}"
        more = f"; about {self.more:,.0f} more should decide" if math.isfinite(self.more) else ""
        return f"{start}; the {cost} is in [{low:.2f}, {high:.2f}], {law} {given[:-2]}{more})."

    @property
    def seen_sentence(self) -> str:
        """What holds if the tail is as seen, in plain words."""
        i = self._worst
        if self.episodes < FEWEST:
            return f"If the tail is as seen: undecided, {FEWEST} episodes are the fewest to tell."
        if not math.isfinite(self.seen.upper[i]):
            return "If the tail is as seen: undecided, all episodes cost the same, none shows one."
        interval = f"[{self.seen.lower[i]:.2f}, {self.seen.upper[i]:.2f}]"
        return f"If the tail is as seen: {self.indicated}; the {self._cost} is in {interval}."


def verdict(
    costs: ArrayLike,
    limits: ArrayLike,
    cost_bounds: ArrayLike | None = None,
    level: float = 0.95,
    names: Sequence[str] = (),
) -> Verdict:
    """Judge episode costs [n] against a limit, or [n, m] against m limits, all to be kept at once.

    `cost_bounds`: the most that one episode can cost, a number or [m]; without it nothing can be
    proved safe, only unsafe. "yes" needs every constraint below its limit, so each may be tested at
    the full level (intersection-union); "no" needs only one above, so the error is shared among
    them (Bonferroni). `names` of several constraints tell which one a sentence speaks of.
    """
    table, wanted = _finite(costs), np.atleast_1d(np.asarray(limits, np.float64))
    table = table[:, None] if table.ndim == 1 else table
    if table.ndim != 2 or wanted.shape != table.shape[1:]:
        raise ValueError(
            f"costs of shape {np.shape(costs)} do not fit {wanted.size} limit(s): pass one row per "
            "episode and one column per limit."
        )
    shared = 1.0 - (1.0 - _checked(level)) / wanted.size
    most = None if cost_bounds is None else _bounded(table, cost_bounds)
    proved = _judged(
        [betting.lower_bound(c, shared) if c.min() >= 0 else -math.inf for c in table.T],
        [math.inf] * wanted.size
        if most is None
        else [betting.upper_bound(c, at_most, level) for c, at_most in zip(table.T, most)],  # noqa: B905
        wanted,
    )
    seen = _judged(
        # Costs that are never negative have no negative mean.
        [max(seen_lower_bound(c, shared), 0.0 if c.min() >= 0 else -math.inf) for c in table.T],
        [seen_upper_bound(column, level) for column in table.T],
        wanted,
    )
    broken = int((table > wanted).any(axis=1).sum())
    plain = lambda values: tuple(float(value) for value in values)
    return Verdict(
        proved,
        seen if len(table) >= FEWEST else Bounds("undecided", seen.lower, seen.upper),
        mean=plain(table.mean(axis=0)),
        limits=plain(wanted),
        cost_bounds=None if most is None else plain(most),
        episodes=len(table),
        more=_more(table, wanted, most, level) if proved.answer == "undecided" else 0.0,
        violating=binomial_interval(broken, len(table), level),
        level=level,
        names=tuple(names),
    )


def _judged(lower: list[float], upper: list[float], limits: Array) -> Bounds:
    answer: Answer = "undecided"
    if any(low > b for low, b in zip(lower, limits, strict=True)):
        answer = "no"
    elif all(high <= b for high, b in zip(upper, limits, strict=True)):
        answer = "yes"
    return Bounds(answer, tuple(lower), tuple(upper))


def _more(table: Array, limits: Array, most: Array | None, level: float) -> float:
    """Episodes still expected: all constraints for "yes", the first for "no", what comes first."""
    shared = 1.0 - (1.0 - level) / limits.size
    columns = list(zip(table.T, limits, strict=True))
    no = [
        betting.episodes_left(betting.above_gain(c, b), shared) for c, b in columns if c.min() >= 0
    ]
    yes = [math.inf]
    if most is not None:
        tight = [(c, b, top) for (c, b), top in zip(columns, most, strict=True) if b < top]
        gains = [betting.below_gain(c, b, top) for c, b, top in tight]
        yes = [betting.episodes_left(gain, level) for gain in gains]
    return min(max(yes), *no) if no else max(yes)


def seen_upper_bound(costs: ArrayLike, level: float = 0.95) -> float:
    """Upper bound on the mean of `costs` [n] if the tail is as seen; infinite without spread."""
    x = _finite(costs)
    n, spread = x.size, 0.0 if x.size < 2 else float(x.std(ddof=1))
    if n < 2 or spread <= 1e-12 * float(np.abs(x).max()):
        return math.inf
    quantile = float(special.stdtrit(n - 1, _checked(level))) / math.sqrt(n)
    centred = (x - x.mean()) / spread
    skew = float((centred**3).mean())
    if abs(skew) < 1e-6:  # Hall's formula tends to Student's there
        return float(x.mean()) + spread * quantile
    shift = 1.0 - skew * (quantile + skew / (6.0 * n))
    hall = -3.0 / skew * (float(np.cbrt(shift)) - 1.0)
    return float(x.mean()) + spread * max(quantile, hall)


def seen_lower_bound(costs: ArrayLike, level: float = 0.95) -> float:
    """Lower bound on the mean of `costs` [n] if the tail is as seen."""
    return -seen_upper_bound(-_finite(costs), level)


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


def _bounded(table: Array, cost_bounds: ArrayLike) -> Array:
    """[m] the bounds; refused where an episode lies outside [0, B]."""
    most = np.broadcast_to(np.asarray(cost_bounds, np.float64), table.shape[1:])
    if not (np.isfinite(most) & (most > 0)).all():
        raise ValueError(f"cost_bound={cost_bounds} must be finite and positive.")
    rounding = 1e-6 * most
    if (table > most + rounding).any() or (table < -rounding).any():
        worst = np.unravel_index(np.argmax(np.maximum(table - most, -table)), table.shape)
        raise ValueError(
            f"an episode cost {table[worst]:g}, which is outside [0, {most[worst[1]]:g}], so a "
            "verdict from this bound would prove nothing: pass the most that one episode can cost "
            "as cost_bound= (--cost-bound); costs must not be negative."
        )
    np.clip(table, 0.0, most, out=table)
    return most


def _finite(costs: ArrayLike) -> Array:
    x = np.array(costs, np.float64)
    if x.size == 0 or not np.isfinite(x).all():
        raise ValueError(f"{x.size} episode costs, not all finite: pass at least one finite cost.")
    return x


def _checked(level: float) -> float:
    if not 0.5 < level < 1:
        raise ValueError(f"level={level} must lie in (0.5, 1); 0.95 is customary.")
    return level
