# SPDX-License-Identifier: Apache-2.0
"""The verdict on a policy's safety from the costs of episodes, with its assumptions.

A mean episode cost below the limit proves little: it also occurs by chance for an unsafe policy.
The verdict therefore compares the limit b with confidence bounds on the mean cost:

    upper bound ≤ b  →  yes      lower bound > b  →  no      otherwise  →  undecided

There are two verdicts.

    safe        *proved*: from `betting`, for any distribution of costs in [0, B], after any number
                of episodes, also if the evaluation stops as soon as it is decided
    indicated   *if the tail is as seen*: from Student's t, or Hall's (1992) transformation for
                skewed costs where that is wider. It needs far fewer episodes, and is wrong if rare
                high costs have not occurred yet. With a cost of 500 in one episode of 20, an unsafe
                policy is called safe after 20 episodes in a third of all cases.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from holdfast.console import counted
from holdfast.core.limits import Limit, parse_limit
from holdfast.core.tails import above, quantile
from holdfast.judge import betting, tail_bounds
from holdfast.judge.seen_bounds import (
    binomial_interval,
    checked,
    finite,
    seen_lower_bound,
    seen_upper_bound,
)
from holdfast.records.statistics import Array, Estimate

Answer = Literal["yes", "no", "undecided"]
COLOURS: dict[Answer, str] = {"yes": "green", "no": "red", "undecided": "yellow"}
"""Colours of the answers in a terminal."""
FEWEST = 10  # episodes below which nothing is indicated: neither spread nor skewness is known


@dataclass(frozen=True)
class Bounds:
    """One-sided confidence bounds on the limited quantity (the mean, the tail, the chance) and the
    answers; one entry for each constraint.
    """

    answer: Answer
    lower: tuple[float, ...]
    upper: tuple[float, ...]


@dataclass(frozen=True)
class Verdict:
    """The verdict of `episodes` evaluation episodes; tuples have one entry for each constraint.

    A policy is either safe or not, so only one of the two answers can be wrong, with probability at
    most 1 − level. So the error need not be divided between "yes" and "no".
    """

    proved: Bounds
    """Bounds for any distribution of costs in [0, B]; without B the upper bound is infinite."""
    seen: Bounds
    """Bounds if the tail is as observed; infinite if all episodes cost the same."""
    mean: tuple[float, ...]
    """Mean of the costs, for every kind of limit."""
    value: tuple[float, ...]
    """Estimate of the limited quantity."""
    claims: tuple[Limit, ...]
    cost_bounds: tuple[float, ...] | None
    """B: the largest possible cost of one episode."""
    episodes: int
    more: float
    """Expected further episodes until the answer is proved; 0: it is proved; infinite: it never
    will be.
    """
    violating: Estimate
    """Probability that a single episode exceeds some limit: a mean does not show rare high
    costs.
    """
    level: float
    names: tuple[str, ...] = ()
    """Names of the constraints; empty if there is only one."""

    @property
    def limits(self) -> tuple[float, ...]:
        """[m] b of each constraint."""
        return tuple(claim.amount for claim in self.claims)

    @property
    def safe(self) -> Answer:
        """The proved answer."""
        return self.proved.answer

    @property
    def indicated(self) -> Answer:
        """The answer if the tail is as observed."""
        return self.seen.answer

    def __str__(self) -> str:
        return f"{self.proved_sentence} {self.seen_sentence}"

    @property
    def _worst(self) -> int:
        """Index of the constraint in the sentence: the one that decides, else the one furthest from
        proof.
        """
        reach = self.proved.lower if self.safe == "no" else self.proved.upper
        reach = reach if np.isfinite(reach).all() else self.value
        wanted = [claim.bound for claim in self.claims]
        return int(np.argmax(np.subtract(reach, wanted) / np.maximum(wanted, 1e-9)))

    @property
    def _cost(self) -> str:
        what, i = self.claims[self._worst].quantity, self._worst
        kind = self.claims[i].kind
        if not self.names:
            return what
        return f"{what} of {self.names[i]}" if kind == "mean" else f"{what} ({self.names[i]})"

    @property
    def proved_sentence(self) -> str:
        """The proved verdict as a sentence."""
        i, claim, cost = self._worst, self.claims[self._worst], self._cost
        start, show = f"Safe, proved at {self.level:.0%}: {self.safe}", claim.shown
        seen = f"mean cost {self.mean[i]:.2f}"
        seen += "" if claim.kind == "mean" else f", {claim.kind} {show(self.value[i])}"
        given = f"({counted(self.episodes, 'episode')}, {seen}, limit {claim})."
        low, high = show(self.proved.lower[i]), show(self.proved.upper[i])
        if self.safe == "no":
            return f"{start}; the {cost} is above {low} {given}"
        if self.cost_bounds is None and claim.kind != "chance":
            return (
                f"{start}, as no bound on the cost of an episode is known: pass its largest "
                f"possible cost as cost_bound= (--cost-bound) {given.replace('mean cost', cost)}"
            )
        law = "whatever the law of costs"
        if self.cost_bounds is not None and claim.kind != "chance":
            law += f" in [0, {self.cost_bounds[i]:g}]"
        if self.safe == "yes":
            return f"{start}; the {cost} is below {high}, {law} {given}"
        more = f"; about {self.more:,.0f} more should decide" if math.isfinite(self.more) else ""
        return f"{start}; the {cost} is in [{low}, {high}], {law} {given[:-2]}{more})."

    @property
    def seen_sentence(self) -> str:
        """The verdict under the assumption that the tail is as observed, as a sentence."""
        i, fewest = self._worst, max(map(_fewest, self.claims))
        if self.episodes < fewest:
            return f"If the tail is as seen: undecided, at least {fewest} episodes are needed."
        if not math.isfinite(self.seen.upper[i]):
            return (
                "If the tail is as seen: undecided, all episodes cost the same, so no tail was "
                "observed."
            )
        show = self.claims[i].shown
        interval = f"[{show(self.seen.lower[i])}, {show(self.seen.upper[i])}]"
        return f"If the tail is as seen: {self.indicated}; the {self._cost} is in {interval}."


Limits = ArrayLike | Limit | str | Sequence[Limit | str | float]
"""Numbers limit means; other kinds are `Limit`s or their texts."""


def verdict(
    costs: ArrayLike,
    limits: Limits,
    cost_bounds: ArrayLike | None = None,
    level: float = 0.95,
    names: Sequence[str] = (),
) -> Verdict:
    """Judge episode costs [n] by a limit, or [n, m] by m limits that must all hold.

    `cost_bounds` is the largest possible cost of one episode, a number or [m]; without it a policy
    can be proved unsafe, but not safe. "yes" needs every constraint below its limit, so each may be
    tested at the full level (intersection-union). "no" needs only one above, so the error is
    divided among them (Bonferroni). `names` of several constraints appear in the sentences.
    """
    claims = _claims(limits)
    table, wanted = finite(costs), np.array([claim.bound for claim in claims])
    table = table[:, None] if table.ndim == 1 else table
    if table.ndim != 2 or wanted.shape != table.shape[1:]:
        raise ValueError(
            f"costs of shape {np.shape(costs)} do not fit {wanted.size} limit(s): pass one row per "
            "episode and one column per limit."
        )
    shared = 1.0 - (1.0 - checked(level)) / wanted.size
    most = None if cost_bounds is None else _bounded(table, cost_bounds)
    each = list(zip(claims, table.T, most if most is not None else [None] * wanted.size))  # noqa: B905
    proved = _judged(
        [_proved_lower(claim, c, shared) for claim, c, _ in each],
        [_proved_upper(claim, c, top, level) for claim, c, top in each],
        wanted,
    )
    seen = _judged(
        [_seen_bounds(claim, c, shared)[0] for claim, c, _ in each],
        [_seen_bounds(claim, c, level)[1] for claim, c, _ in each],
        wanted,
    )
    broken = int(above(table, np.array([claim.amount for claim in claims])).any(axis=1).sum())
    plain = lambda values: tuple(float(value) for value in values)
    return Verdict(
        proved,
        seen
        if len(table) >= max(map(_fewest, claims))
        else Bounds("undecided", seen.lower, seen.upper),
        mean=plain(table.mean(axis=0)),
        value=plain(_measured(claim, c).mean() for claim, c, _ in each),
        claims=claims,
        cost_bounds=None if most is None else plain(most),
        episodes=len(table),
        more=_more(each, level) if proved.answer == "undecided" else 0.0,
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


Column = tuple[Limit, Array, float | None]
"""The limit of one constraint, the costs of episodes [n] and their largest possible value, if
known.
"""


def _claims(limits: Limits) -> tuple[Limit, ...]:
    """One test for each constraint, by its kind of limit."""
    given: Any = [limits] if isinstance(limits, str | Limit) else np.atleast_1d(np.array(limits))
    known = [limit if isinstance(limit, str | Limit) else float(limit) for limit in given]
    return tuple(parse_limit(limit).judged for limit in known)


def _fewest(claim: Limit) -> int:
    """Fewest episodes for an indication; a tail must contain two of them."""
    return max(FEWEST, math.ceil(2 / claim.share)) if claim.kind == "tail" else FEWEST


def _measured(claim: Limit, costs: Array) -> Array:
    """[n] numbers whose mean is the limited quantity."""
    if claim.kind == "tail":
        level = quantile(costs, claim.share)
        return level + np.maximum(costs - level, 0.0) / claim.share
    return above(costs, claim.amount).astype(np.float64) if claim.kind == "chance" else costs


def _proved_lower(claim: Limit, costs: Array, level: float) -> float:
    if costs.min() < 0:
        return -math.inf
    if claim.kind == "tail":
        return tail_bounds.lower_bound(costs, claim.share, level)
    return betting.lower_bound(_measured(claim, costs), level)


def _proved_upper(claim: Limit, costs: Array, most: float | None, level: float) -> float:
    if claim.kind == "chance":
        return betting.upper_bound(_measured(claim, costs), 1.0, level)
    if most is None:
        return math.inf
    if claim.kind == "tail":
        return tail_bounds.upper_bound(costs, claim.share, claim.amount, most, level)
    return betting.upper_bound(costs, most, level)


def _seen_bounds(claim: Limit, costs: Array, level: float) -> tuple[float, float]:
    """(lower, upper) if the tail is as observed; each bound separately has the level."""
    numbers = _measured(claim, costs)
    if claim.kind == "chance":
        found = binomial_interval(int(numbers.sum()), len(numbers), 2 * level - 1)
        return found.low, found.high
    least = 0.0 if numbers.min() >= 0 else -math.inf  # costs that are never negative
    return max(seen_lower_bound(numbers, level), least), seen_upper_bound(numbers, level)


def _more(each: Sequence[Column], level: float) -> float:
    """Expected further episodes: until all constraints allow "yes", or the first one "no"."""
    shared = 1.0 - (1.0 - level) / len(each)
    no, yes = [math.inf], list[float]()
    for claim, costs, most in each:
        if claim.kind == "tail":
            no += [tail_bounds.left_above(costs, claim.share, claim.amount, shared)]
            if most is None or claim.amount < most:
                yes += [tail_bounds.left_below(costs, claim.share, claim.amount, most, level)]
            continue
        numbers = _measured(claim, costs)
        top = 1.0 if claim.kind == "chance" else most
        if costs.min() >= 0:
            no += [betting.episodes_left(betting.above_gain(numbers, claim.bound), shared)]
        if top is None:
            yes += [math.inf]
        elif claim.bound < top:
            gain = betting.below_gain(numbers, claim.bound, top)
            yes += [betting.episodes_left(gain, level)]
    return min(max(yes), *no)


def _bounded(table: Array, cost_bounds: ArrayLike) -> Array:
    """[m] the bounds; ValueError if an observed cost is outside [0, B]."""
    most = np.broadcast_to(np.asarray(cost_bounds, np.float64), table.shape[1:])
    if not (np.isfinite(most) & (most > 0)).all():
        raise ValueError(f"cost_bound={cost_bounds} must be finite and positive.")
    rounding = 1e-6 * most
    if (table > most + rounding).any() or (table < -rounding).any():
        worst = np.unravel_index(np.argmax(np.maximum(table - most, -table)), table.shape)
        raise ValueError(
            f"an episode cost {table[worst]:g}, which is outside [0, {most[worst[1]]:g}], so a "
            "verdict from this bound would prove nothing: pass the largest possible cost of an "
            "episode as cost_bound= (--cost-bound); costs must not be negative."
        )
    np.clip(table, 0.0, most, out=table)
    return most
