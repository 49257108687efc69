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
have 20/α (20/p) episodes. The policy changes meanwhile, so an epoch counts the less, the more its
mean cost m_e differs from that of the current one, m, by more than chance explains:

    weight_e = min(1, 2 noise_e / (m − m_e)²)²,    noise_e = se(m)² + se(m_e)²

Where the cost is constant, all epochs count; where it changes fast, the current one alone does.
T steps, N environments, K constraints.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.core.episodes import ages, by_age, cuts, observes_every_age
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


def quantile(costs: Floats, share: float, weights: Floats | None = None) -> float:
    """The smallest value that at most the share of `costs` [n], by their weights, lies above."""
    order = np.argsort(costs, kind="stable")
    if weights is None:
        return float(costs[order[max(0, math.ceil((1.0 - share) * len(costs) - 1e-9) - 1)]])
    below = np.cumsum(weights[order]) / weights.sum()
    place = int(np.searchsorted(below, 1.0 - share - 1e-9))
    return float(costs[order[min(place, len(costs) - 1)]])


def tail_mean(costs: Floats, share: float, weights: Floats | None = None) -> float:
    """CVaR of a sample [n]: the mean of its worst share, min_ν ν + E(C − ν)₊ / α."""
    level = quantile(costs, share, weights)
    return level + float(np.average(np.maximum(costs - level, 0.0), weights=weights)) / share


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
        recent = np.full((size, count), np.nan)
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
        recent = np.concatenate([self.recent, ended])
        row = np.stack([mean, error, np.full(len(mean), float(len(ended)))])
        epochs = np.concatenate([self.epochs[1:], row[None]])
        level, found = np.zeros(len(mean)), np.zeros((3, len(mean)))
        for k in self.beyond:
            limit = self.limits[k]
            weights = pooling_weights(epochs[..., k], limit.episodes)
            sample = recent[max(0, len(recent) - len(weights)) :, k]
            weights = weights[len(weights) - len(sample) :]
            found[:2, k] = estimate(sample, weights, limit)
            found[2, k] = bounded(ended[:, k], limit)
            if limit.kind == "tail":
                level[k] = min(quantile(sample, limit.share, weights), limit.amount)
        kept = recent[len(recent) - len(self.recent) :]
        tally = replace(self, recent=kept, epochs=epochs, level=level, found=found)
        return tally, derived(cost, spent, self.limits, level)

    def override(self, mean: NDArray[Any], error: NDArray[Any]) -> tuple[Floats, Floats]:
        """([K] estimate, [K] error) with the bounded quantity in place of the mean."""
        if not self.beyond:
            return mean, error
        value, spread, _ = self.found
        mine = np.isin(np.arange(len(mean)), self.beyond)
        return np.where(mine, value, mean), np.where(mine, spread, error)


def pooling_weights(epochs: Floats, wanted: float) -> Floats:
    """[n] weights of the last episodes, oldest first; `epochs` [E, 3] as in a `Tally`.

    Epochs count, newest first, until they have the wanted number of episodes.
    """
    mean, error, episodes = epochs[::-1].T
    used = (np.concatenate([[0.0], episodes.cumsum()[:-1]]) < wanted) & (episodes > 0)
    apart = (mean[0] - mean) ** 2
    noise = 2.0 * (error[0] ** 2 + error**2)
    weight = np.divide(noise, apart, out=np.ones_like(noise), where=apart > noise) ** 2
    return np.repeat(np.where(used, weight, 0.0), np.where(used, episodes, 0).astype(int))[::-1]


def bounded(costs: Floats, limit: Limit, weights: Floats | None = None) -> float:
    """The quantity that a limit bounds, of a sample [n] with these weights."""
    if limit.kind == "tail":
        return tail_mean(costs, limit.share, weights)
    return float(np.average(above(costs, limit.amount), weights=weights))


def estimate(sample: Floats, weights: Floats, limit: Limit) -> tuple[float, float]:
    """(bounded quantity, its error) of a sample [n] with these weights [n].

    If the event did not occur in n episodes, the error of a chance is 1/n.
    """
    value = bounded(sample, limit, weights)
    size = float(weights.sum() ** 2 / (weights**2).sum())
    if limit.kind == "chance":
        return value, max(math.sqrt(value * (1.0 - value) / size), 1.0 / size)
    over = np.maximum(sample - quantile(sample, limit.share, weights), 0.0) / limit.share
    spread = np.average((over - np.average(over, weights=weights)) ** 2, weights=weights)
    return value, math.sqrt(spread / size)


def _episode_mean(
    cost: NDArray[Any], ended: Floats, done: Bools, before: NDArray[Any]
) -> tuple[Floats, Floats]:
    """([K] mean cost of an episode, [K] its error): by age if the epoch cuts episodes, else of the
    ended ones [n, K]. The error of a single episode is unknown, infinite.
    """
    if cuts(before, done[-1]) and observes_every_age(done):
        return by_age(cost, done, ages(done, before))
    n = len(ended)
    spread = ended.std(0, ddof=1) / math.sqrt(n) if n > 1 else np.full(ended.shape[-1], np.inf)
    return ended.mean(0), spread
