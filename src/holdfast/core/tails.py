# SPDX-License-Identifier: Apache-2.0
"""Limits beyond the mean as additive costs: the sum over steps is the bounded quantity.

    tail     Σ_t o_t / α + ν,   o_t = (C_t + c_t − ν)₊ − (C_t − ν)₊,   so  Σ_t o_t = (C − ν)₊
    chance   Σ_t e_t,           e_t = 1 in the step that takes C above b, so  Σ_t e_t = 1{C > b}

C_t is the cost so far. For every ν, ν + E(C − ν)₊ / α is at least the mean of the worst α of
episodes, and equal to it at their quantile (Rockafellar and Uryasev). So an outdated ν gives an
upper bound, with an error of second order only. ν is the (1 − α)-quantile of recent episodes, at
most b. Above b the limit is violated anyway, and with ν = b all episodes above b contribute to
learning.

Rare episodes need large samples, so the estimate pools the last epochs, at most `POOL`, until they
have 20/α (20/p) episodes. The policy changes meanwhile. An episode of an earlier epoch e is moved
by w (m − m_e), the difference of the epochs' mean costs, as far as chance does not explain it:

    w = (1 − 2 noise / gap)₊,   gap = mean_e (m − m_e)²,   noise = se(m)² + mean_e se(m_e)²

So the place is that of the current epoch where costs change fast, the shape is that of all epochs,
and a constant cost is pooled as it is. T steps, N environments, K constraints.
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
    """[2, M, K] cost of each of the last finished episodes, and the mean cost of its epoch, oldest
    first; NaN in rows without an episode.
    """
    epochs: Floats
    """[POOL, 3, K] (mean cost, its error, episodes) of the last epochs, oldest first."""
    level: Floats
    """[K] ν of the last epoch; 0 without a tail."""
    found: Floats
    """[3, K] (pooled estimate, its error, estimate of the last epoch alone)."""

    @classmethod
    def create(cls, limits: Sequence[Limit]) -> Tally:
        beyond = [limit for limit in limits if limit.kind in ("tail", "chance")]
        count = len(limits) if beyond else 0
        size = max((limit.episodes for limit in beyond), default=0)
        recent = np.full((2, size, count), np.nan)
        epochs = np.zeros((POOL if beyond else 0, 3, count))
        return cls(tuple(limits), recent, epochs, np.zeros(count), np.zeros((3, count)))

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
        ended = (spent + cost)[done]
        if not len(ended):  # an epoch without a finished episode changes no estimate
            return self, derived(cost, spent, self.limits, self.level)
        mean, error = _episode_mean(cost, ended, done, before)
        added = np.stack([ended, np.broadcast_to(mean, ended.shape)])
        recent = np.concatenate([self.recent, added], 1)
        row = np.stack([mean, error, np.full(len(mean), float(len(ended)))])
        epochs = np.concatenate([self.epochs[1:], row[None]])
        level, found = np.zeros(len(mean)), np.zeros((3, len(mean)))
        for k in self.beyond:
            limit = self.limits[k]
            sample, moved = pooled(recent[..., k], epochs[..., k], limit.episodes)
            found[0, k], found[1, k] = estimate(sample, moved, limit)
            found[2, k] = bounded(ended[:, k], limit)
            if limit.kind == "tail":
                level[k] = min(quantile(sample, limit.share), limit.amount)
        kept = recent[:, recent.shape[1] - self.recent.shape[1] :]
        tally = replace(self, recent=kept, epochs=epochs, level=level, found=found)
        return tally, derived(cost, spent, self.limits, level)

    def override(self, mean: NDArray[Any], error: NDArray[Any]) -> tuple[Floats, Floats]:
        """([K] estimate, [K] error) with the bounded quantity in place of the mean."""
        if not self.beyond:
            return mean, error
        value, spread, _ = self.found
        mine = np.isin(np.arange(len(mean)), self.beyond)
        return np.where(mine, value, mean), np.where(mine, spread, error)


def pooled(recent: Floats, epochs: Floats, wanted: float) -> tuple[Floats, float]:
    """(costs [n] of the last epochs' episodes, moved to the current epoch; error of that move).

    `recent` [2, M] and `epochs` [E, 3] are those of a `Tally` for one constraint. Epochs count,
    newest first, until they have the wanted number of episodes.
    """
    mean, error, episodes = epochs[::-1].T
    used = (np.concatenate([[0.0], episodes.cumsum()[:-1]]) < wanted) & (episodes > 0)
    size = min(int(episodes[used].sum()), recent.shape[1])
    cost, centre = recent[:, recent.shape[1] - size :]
    earlier = used.copy()
    earlier[0] = False
    if not earlier.any():
        return cost, 0.0
    gap = float(np.mean((mean[0] - mean[earlier]) ** 2))
    noise = float(error[0] ** 2 + np.mean(error[earlier] ** 2))
    share = max(0.0, 1.0 - 2.0 * noise / gap) if error[0] > 0 and gap > 0 else 0.0
    return np.maximum(cost + share * (mean[0] - centre), 0.0), share * float(error[0])


def bounded(costs: Floats, limit: Limit) -> float:
    """The quantity that a limit bounds, of a sample [n]."""
    if limit.kind == "tail":
        return tail_mean(costs, limit.share)
    return float(above(costs, limit.amount).mean())


def estimate(sample: Floats, moved: float, limit: Limit) -> tuple[float, float]:
    """(bounded quantity, its error) of a sample [n] whose place is uncertain by `moved`.

    If the event did not occur in n episodes, the error of a chance is 1/n.
    """
    value, size = bounded(sample, limit), len(sample)
    if limit.kind == "tail":
        over = np.maximum(sample - quantile(sample, limit.share), 0.0) / limit.share
        spread = float(over.std()) / math.sqrt(size)
    else:
        spread = max(math.sqrt(value * (1.0 - value) / size), 1.0 / size)
    low, high = (bounded(np.maximum(sample + sign * moved, 0.0), limit) for sign in (-1, 1))
    return value, math.hypot(spread, (high - low) / 2)


def _episode_mean(
    cost: NDArray[Any], ended: Floats, done: Bools, before: NDArray[Any]
) -> tuple[Floats, Floats]:
    """([K] mean cost of an episode, [K] its error): by age if the epoch cuts episodes, else of the
    ended ones [n, K].
    """
    begun = before.any() or not done[-1].all()
    if begun and observes_every_age(done):
        return by_age(cost, done, ages(done, before))
    n = len(ended)
    spread = ended.std(0, ddof=1) / math.sqrt(n) if n > 1 else np.zeros(ended.shape[-1])
    return ended.mean(0), spread
