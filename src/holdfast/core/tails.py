# SPDX-License-Identifier: Apache-2.0
"""Limits beyond the mean as additive costs: the sum over steps is the bounded quantity.

    tail     Σ_t o_t / α + ν,   o_t = (C_t + c_t − ν)₊ − (C_t − ν)₊,   so  Σ_t o_t = (C − ν)₊
    chance   Σ_t e_t,           e_t = 1 in the step that takes C above b, so  Σ_t e_t = 1{C > b}

C_t is the cost so far. For every ν, ν + E(C − ν)₊ / α is at least the mean of the worst α of
episodes, and equal to it at their quantile (Rockafellar and Uryasev). So an outdated ν gives an
upper bound, with an error of second order only. ν is the (1 − α)-quantile of the last 2/α finished
episodes, at most b. Above b the limit is violated anyway, and with ν = b all episodes above b
contribute to learning.

Rare episodes need large samples, so the estimate pools the last epochs, at most `POOL`, until they
have 20/α (20/p) episodes. Each epoch is weighted by its episodes. T steps, N environments, K
constraints.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.core.episodes import ages, by_age, observes_every_age
from holdfast.core.limits import Limit

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
POOL = 10
"""Largest number of epochs in an estimate."""
ROUNDING = 1e-9
"""Tolerance for rounding of sums in C > b, as a share of b."""


def above(cost: Any, amount: Any) -> Any:
    """C > b, with a tolerance for rounding."""
    return cost > amount * (1.0 + ROUNDING)


def spent_before(cost: NDArray[Any], done: Bools, start: NDArray[Any]) -> Floats:
    """[T, N, K] cost so far of each step's episode before it; `start` [N, K] at the first step."""
    spent, now = np.empty(cost.shape), start.astype(np.float64)
    for t in range(len(cost)):
        spent[t] = now
        now = np.where(done[t][:, None], 0.0, now + cost[t])
    return spent


def quantile(costs: Floats, share: float) -> float:
    """The smallest value that at most the share of `costs` [n] lies above."""
    ordered = np.sort(costs)
    return float(ordered[max(0, math.ceil((1.0 - share) * len(ordered) - 1e-9) - 1)])


def tail_mean(costs: Floats, share: float) -> float:
    """CVaR of a sample [n]: the mean of its worst share, min_ν ν + E(C − ν)₊ / α."""
    level = quantile(costs, share)
    return level + float(np.maximum(costs - level, 0.0).mean()) / share


def derived(cost: Any, spent: Any, limits: Sequence[Limit], level: Any) -> Floats:
    """[..., K] the additive costs of steps; `level` [K] is ν. A mean's are the costs themselves."""
    made = np.array(cost, np.float64)
    for k, limit in enumerate(limits):
        before, after = spent[..., k], spent[..., k] + cost[..., k]
        if limit.kind == "tail":
            over = np.maximum(after - level[k], 0.0) - np.maximum(before - level[k], 0.0)
            made[..., k] = over / limit.share
        elif limit.kind == "chance":
            made[..., k] = above(after, limit.amount) & ~above(before, limit.amount)
    return made


@dataclass(frozen=True)
class Tally:
    """State of the estimates; empty if all limits are on means."""

    limits: tuple[Limit, ...]
    """[K] limits of the constraints, in the environment's order."""
    recent: Floats
    """[M, K] costs of the last finished episodes, oldest first; NaN in rows without an episode."""
    epochs: Floats
    """[POOL, 3, K] (estimate, error, episodes) of the last epochs, oldest first."""
    level: Floats
    """[K] ν of the last epoch; 0 without a tail."""

    @classmethod
    def create(cls, limits: Sequence[Limit]) -> Tally:
        beyond = [limit for limit in limits if limit.kind in ("tail", "chance")]
        sizes = [math.ceil(2 / limit.share) for limit in beyond if limit.kind == "tail"]
        count = len(limits) if beyond else 0
        recent = np.full((max(sizes, default=0), count), np.nan)
        epochs = np.zeros((POOL if beyond else 0, 3, count))
        return cls(tuple(limits), recent, epochs, np.zeros(count))

    @property
    def beyond(self) -> list[int]:
        """Indices of the constraints with limits beyond the mean."""
        return [k for k, limit in enumerate(self.limits) if limit.kind in ("tail", "chance")]

    def advance(
        self, cost: NDArray[Any], done: Bools, start: NDArray[Any], before: NDArray[Any]
    ) -> tuple[Tally, Floats]:
        """(the tally, the additive costs [T, N, K]) after an epoch of cost [T, N, K], done [T, N].

        `start` [N, K] and `before` [N] are cost and length so far of the unfinished episodes at its
        start.
        """
        spent = spent_before(cost, done, start)
        joined = np.concatenate([self.recent, (spent + cost)[done]])
        recent = joined[len(joined) - len(self.recent) :]
        level = self._levels(recent)
        made = derived(cost, spent, self.limits, level)
        mean, error = _episode_mean(made, done, before)
        row = np.stack([mean + level, error, np.full(len(level), float(done.sum()))])
        epochs = np.concatenate([self.epochs[1:], row[None]])
        return replace(self, recent=recent, epochs=epochs, level=level), made

    def _levels(self, recent: Floats) -> Floats:
        """[K] ν; 0 for limits that are not on a tail."""
        level = self.level.copy()
        for k, limit in enumerate(self.limits):
            if limit.kind == "tail":
                known = recent[-math.ceil(2 / limit.share) :, k]
                known = known[~np.isnan(known)]
                level[k] = min(quantile(known, limit.share), limit.amount) if known.size else 0.0
        return level

    def pooled(self) -> tuple[Floats, Floats]:
        """([K] estimate, [K] its error) of the bounded quantity, from as many epochs as it needs.

        If the event did not occur in n episodes, the error of a chance is 1/n.
        """
        value, error = np.zeros(len(self.limits)), np.zeros(len(self.limits))
        for k, limit in enumerate(self.limits):
            estimate, spread, episodes = self.epochs[::-1, :, k].T
            wanted = np.concatenate([[0.0], episodes.cumsum()[:-1]]) < limit.episodes
            weight = np.where(wanted, episodes, 0.0)
            total = max(float(weight.sum()), 1.0)
            value[k] = weight @ estimate / total
            error[k] = np.linalg.norm(weight * spread) / total
            if limit.kind == "chance":
                value[k], error[k] = np.clip(value[k], 0.0, 1.0), max(error[k], 1.0 / total)
        return value, error

    def override(self, mean: NDArray[Any], error: NDArray[Any]) -> tuple[Floats, Floats]:
        """([K] estimate, [K] error) with the bounded quantity in place of the mean."""
        if not self.beyond:
            return mean, error
        value, spread = self.pooled()
        mine = np.isin(np.arange(len(mean)), self.beyond)
        return np.where(mine, value, mean), np.where(mine, spread, error)


def _episode_mean(values: Floats, done: Bools, before: NDArray[Any]) -> tuple[Floats, Floats]:
    """([K] mean sum of an episode, [K] its error): by age if the epoch cuts episodes."""
    begun = before.any() or not done[-1].all()
    if begun and observes_every_age(done):
        return by_age(values, done, ages(done, before))
    total = (spent_before(values, done, np.zeros(values.shape[1:])) + values)[done]
    n = len(total)
    spread = total.std(0, ddof=1) / math.sqrt(n) if n > 1 else np.zeros(values.shape[-1])
    return total.mean(0), spread
