# SPDX-License-Identifier: Apache-2.0
"""Finished episodes: returns, costs, lengths, and the estimate of J_c that the updates act on.

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

from holdfast.core.by_age import Floats, ages, by_age

CostEstimate = Literal["window", "epoch"]

WINDOW = 50


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
        self, reward: NDArray[Any], cost: NDArray[Any], done: NDArray[np.bool_], gamma: float
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

    def _cut(self, done: NDArray[np.bool_]) -> bool:
        """Whether an episode began before this epoch or outlives it."""
        return bool(self.running[:, 1].any() or not done[-1].all())

    def _finished(
        self, reward: NDArray[Any], cost: NDArray[Any], done: NDArray[np.bool_], gamma: float
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


def observes_every_age(done: NDArray[np.bool_]) -> bool:
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
