# SPDX-License-Identifier: Apache-2.0
"""Episodes: returns, costs, lengths, the estimate of J_c that updates act on, and their forecasts.

    window   the published estimate: each finished episode joins a window of the last 50 and
             its mean is recorded; the epoch's value is the mean of those records. It lags by
             about 1.2 updates (D4).
    epoch    from all steps of this epoch, by the age of their episodes (`by_age`): no lag, more
             noise, no preference for short episodes. The plain mean where all are whole.

N environments, T steps, K constraints; everything in float64.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
CostEstimate = Literal["window", "epoch"]

WINDOW = 50
"""Finished episodes that the published estimate counts."""
FORGET = 0.95
"""What a forecast counts one epoch later."""


@dataclass(frozen=True)
class Episodes:
    """What is known of episodes between two epochs."""

    running: Floats
    """[N, 2 + 2K] of the unfinished ones: return, length, costs, discounted costs."""
    window: Floats
    """[<= 50, 2 + 2K] the last finished ones, oldest first."""
    smooth: Floats
    """[2 + 2K] the last epoch's smoothed values; NaN before any episode has ended."""
    raw: Floats
    """[2 + 2K] what an episode of the last epoch brought; NaN before any has ended."""
    smooth_error: Floats
    """[2 + 2K] standard error of `smooth`: that of its weighted mean; 0 before two episodes."""
    raw_error: Floats
    """[2 + 2K] standard error of `raw`; 0 before two episodes have ended."""
    ended: int
    """Episodes that ended in the last epoch."""

    @classmethod
    def create(cls, num_envs: int, constraints: int) -> Episodes:
        width = 2 + 2 * constraints
        unknown, none = np.full(width, np.nan), np.zeros(width)
        return cls(
            np.zeros((num_envs, width)), np.zeros((0, width)), unknown, unknown, none, none, 0
        )

    @property
    def constraints(self) -> int:
        return (self.running.shape[1] - 2) // 2

    def forget_running(self) -> Episodes:
        """After all environments were reset."""
        return replace(self, running=np.zeros_like(self.running))

    def advance(
        self, reward: NDArray[Any], cost: NDArray[Any], done: Bools, gamma: float
    ) -> Episodes:
        """After an epoch of reward [T, N], cost [T, N, K] and done [T, N]."""
        finished, running = self._finished(reward, cost, done, gamma)
        if not len(finished):
            return replace(self, running=running, ended=0)
        known = np.concatenate([self.window, finished])
        total = np.concatenate([np.zeros((1, known.shape[1])), known.cumsum(0)])
        ends = np.arange(len(self.window), len(known)) + 1
        starts = np.maximum(ends - WINDOW, 0)
        records = (total[ends] - total[starts]) / (ends - starts)[:, None]
        smooth_error = self.smooth_error
        if len(known) > 1:
            smooth_error = known.std(0, ddof=1) * np.linalg.norm(_weights(starts, ends))
        if self._cut(done) and observes_every_age(done):
            age = ages(done, self.running[:, 1])
            raw, raw_error = by_age(_columns(reward, cost, gamma, age), done, age)
        else:
            raw, n = finished.mean(0), len(finished)
            raw_error = finished.std(0, ddof=1) / np.sqrt(n) if n > 1 else self.raw_error
        return Episodes(
            running,
            known[-WINDOW:],
            records.mean(0),
            raw,
            smooth_error,
            raw_error,
            len(finished),
        )

    def _cut(self, done: Bools) -> bool:
        """Whether an episode began before this epoch or outlives it."""
        return bool(self.running[:, 1].any() or not done[-1].all())

    def _finished(
        self, reward: NDArray[Any], cost: NDArray[Any], done: Bools, gamma: float
    ) -> tuple[Floats, Floats]:
        """Rows of the episodes that ended, in order of time then environment; and the new rest."""
        steps, num_envs = reward.shape
        rows: list[tuple[int, int, Floats]] = []
        running = self.running.copy()
        for env in range(num_envs):
            start = 0
            for end in [*np.flatnonzero(done[:, env]), steps - 1]:
                piece = slice(start, end + 1)
                running[env] += self._sums(
                    running[env, 1], reward[piece, env], cost[piece, env], gamma
                )
                start = int(end) + 1
                if done[end, env] and len(reward[piece, env]):
                    rows.append((int(end), env, running[env].copy()))
                    running[env] = 0.0
        rows.sort(key=lambda row: row[:2])
        width = running.shape[1]
        return np.array([row[2] for row in rows]).reshape(-1, width), running

    def _sums(self, before: float, reward: Floats, cost: Floats, gamma: float) -> Floats:
        """What a piece of an episode that is already `before` steps old adds to its sums."""
        discount = gamma ** (before + np.arange(len(reward)))
        return np.concatenate(
            [[reward.sum(), len(reward)], cost.sum(0), discount @ cost], dtype=np.float64
        )


def observes_every_age(done: Bools) -> bool:
    """Whether each environment ended an episode; one that did not shows that some last longer."""
    return bool(done.any(0).all())


def _columns(
    reward: NDArray[Any], cost: NDArray[Any], gamma: float, age: NDArray[np.int64]
) -> Floats:
    """[T, N, 2 + 2K] what each step adds to the sums of its episode."""
    one, discounted = np.ones((*reward.shape, 1)), cost * (gamma**age)[..., None]
    return np.concatenate([reward[..., None], one, cost, discounted], -1, dtype=np.float64)


def _weights(starts: NDArray[np.int64], ends: NDArray[np.int64]) -> Floats:
    """What each episode counts in the mean of the records, the means of [start, end)."""
    share = 1.0 / ((ends - starts) * len(ends))
    change = np.zeros(ends[-1] + 1)
    np.add.at(change, starts, share)
    np.subtract.at(change, ends, share)
    return change.cumsum()[:-1]


def ages(done: Bools, before: Floats) -> NDArray[np.int64]:
    """[T, N] steps that its episode had made before each step; `before` [N] at the start."""
    time = np.arange(len(done))[:, None]
    began = np.maximum.accumulate(np.where(_begins(done), time, 0))
    return time - began + np.where(began == 0, before.astype(np.int64), 0)


def by_age(values: Floats, done: Bools, age: NDArray[np.int64]) -> tuple[Floats, Floats]:
    """([W] mean sum of an episode, [W] its error) from values [T, N, W], done and age [T, N].

    J = V(0), with one value for each age, from all steps of one epoch:

        V(a) = mean of (cost + V(a + 1) if the episode goes on)   over the steps taken at age a

    The mean over finished episodes favours short ones, because the end of an epoch cuts the long
    ones. Here no step is left out and none is chosen by how its episode ended: how old an episode
    is says nothing about luck, so every age is seen without bias, also in episodes that began
    before the epoch or outlive it. If all are whole, V(0) is their plain mean. It is Kaplan and
    Meier's estimate of survival (with late entries), carried over to costs.

    Like every quotient of two sums it is off by second order, about se²/J; leaving out one
    environment after the other (the jackknife) measures and removes that.
    """
    _, num_envs, width = values.shape
    rows = int(age.max()) + 1
    cell = (age * num_envs + np.arange(num_envs)).ravel()

    def tally(weight: NDArray[np.generic] | None) -> Floats:
        """[A, 1 + N] sums over the steps of an age: of all environments, then of all but each."""
        each = np.bincount(cell, weight, rows * num_envs).reshape(rows, num_envs)
        whole = each.sum(1, keepdims=True)
        return np.concatenate([whole, whole - each], 1)

    count, goes_on = tally(None), tally(~done.ravel())
    total = np.stack([tally(v) for v in values.reshape(-1, width).T], -1)
    seen = np.maximum(count, 1)
    mean, stays = total / seen[..., None], goes_on / seen
    ahead = np.zeros((rows + 1, width))
    rest = np.zeros((1 + num_envs, width))
    for a in reversed(range(rows)):
        rest = mean[a] + stays[a, :, None] * rest
        ahead[a] = rest[0]
        rest = np.where(count[a, :, None] > 0, rest, ahead[a])
    error = _error(values, done, age, ahead, stays[:, 0], seen[:, 0])
    bias = (num_envs - 1) * (rest[1:].mean(0) - rest[0])
    return rest[0] - bias, error


def _error(
    values: Floats, done: Bools, age: NDArray[np.int64], ahead: Floats, stays: Floats, seen: Floats
) -> Floats:
    """error² = n / (n − 1) · Σ_pieces (Σ_steps w(a) · δ)²

    over the n pieces of episodes in the epoch, δ = cost + V(a + 1) if it goes on − V(a) and
    w(a) = (share that reach age a) / (steps taken at it): the plain standard error of whole ones.
    """
    reach = np.concatenate([[1.0], stays[:-1]]).cumprod()
    follows = np.where(done[..., None], 0.0, ahead[age + 1])
    surprise = (reach / seen)[age][..., None] * (values + follows - ahead[age])
    flat = surprise.swapaxes(0, 1).reshape(-1, values.shape[-1])
    begins = _begins(done)
    begins[0] = True
    pieces = np.add.reduceat(flat, np.flatnonzero(begins.T))
    n = len(pieces)
    return np.sqrt((pieces**2).sum(0) * n / max(n - 1, 1))


def _begins(done: Bools) -> Bools:
    """[T, N] whether an episode begins with this step of the epoch, after one that ended in it."""
    return np.concatenate([np.zeros_like(done[:1]), done[:-1]])


@dataclass(frozen=True)
class Forecast:
    """Predicted against realised: how far the change of a cost that an update foresaw came true.

        spent_k        the change of J_c that the update of epoch k predicts, κ E[(ratio − 1) · A_c]
        realised_k+1   J_{k+1} − J_k, measured one epoch later with the cost estimate in use
        ratio          Σ_j f^j p r / Σ_j f^j p², the slope of realised on predicted through 0

    over the pairs (p, r) = (spent, realised) so far, j epochs old, f = 0.95: it remembers about 20
    epochs. 1 is a prediction in the units of the limit; above 1, costs change more than foreseen.
    All are [1 + K]: the sum, then each cost.
    """

    cost: Floats
    """The last estimate of J_c; NaN before the first epoch."""
    spent: Floats
    """The change predicted from there."""
    cross: Floats
    """Running Σ predicted · realised."""
    square: Floats
    """Running Σ predicted²."""

    @classmethod
    def create(cls, constraints: int) -> Forecast:
        zero = np.zeros(1 + constraints)
        return cls(zero + np.nan, zero, zero, zero)

    @property
    def ratio(self) -> Floats:
        """Realised per predicted; NaN before anything was predicted."""
        unknown = np.full_like(self.cross, np.nan)
        return np.divide(self.cross, self.square, out=unknown, where=self.square > 0)

    def after(self, cost: NDArray[Any], spent: NDArray[Any]) -> tuple[Forecast, Floats]:
        """(the forecast from an epoch's estimate [K] and prediction [K], what was realised)."""
        cost, spent = (np.array([each.sum(), *each], np.float64) for each in (cost, spent))
        realised = cost - self.cost
        known = ~np.isnan(realised)
        cross = FORGET * self.cross + np.where(known, self.spent * realised, 0.0)
        square = FORGET * self.square + np.where(known, self.spent**2, 0.0)
        return Forecast(cost, spent, cross, square), realised
