# SPDX-License-Identifier: Apache-2.0
"""Episodes: returns, costs, lengths, the estimate of J_c for updates, and predicted cost changes.

    window   the published estimate: each finished episode joins a window of the last 50 and
             its mean is recorded; the epoch's value is the mean of those records. It lags by
             about 1.2 updates (D4).
    epoch    from all steps of this epoch, by the age of their episodes (`by_age`): no lag, more
             noise, no preference for short episodes. The plain mean if all are complete.

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
"""Number of finished episodes in the published estimate."""
FORGET = 0.95
"""Weight of a predicted change one epoch later."""


@dataclass(frozen=True)
class Episodes:
    """Statistics of episodes, carried from epoch to epoch."""

    running: Floats
    """[N, 2 + 2K] sums of the unfinished episodes: return, length, costs, discounted costs."""
    window: Floats
    """[<= 50, 2 + 2K] the last finished episodes, oldest first."""
    smooth: Floats
    """[2 + 2K] the last epoch's smoothed values; NaN before any episode has ended."""
    raw: Floats
    """[2 + 2K] means of an episode in the last epoch; NaN before any has ended."""
    smooth_error: Floats
    """[2 + 2K] standard error of `smooth` as a weighted mean; 0 before two episodes have ended."""
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
        """The statistics after a reset of all environments."""
        return replace(self, running=np.zeros_like(self.running))

    def advance(
        self, reward: NDArray[Any], cost: NDArray[Any], done: Bools, gamma: float
    ) -> Episodes:
        """The statistics after an epoch of reward [T, N], cost [T, N, K] and done [T, N]."""
        return self.after(summarise(self.running, reward, cost, done, gamma))

    def after(self, epoch: Summary) -> Episodes:
        """The statistics after an epoch with this summary."""
        finished, running = epoch.finished, epoch.running
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
        if epoch.by_age is not None:
            raw, raw_error = epoch.by_age
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


@dataclass(frozen=True)
class Summary:
    """The sums of an epoch's episodes. `core.device_episodes` makes one on an accelerator."""

    finished: Floats
    """[n, 2 + 2K] the finished episodes, by time, then environment."""
    running: Floats
    """[N, 2 + 2K] the unfinished episodes."""
    by_age: tuple[Floats, Floats] | None
    """The result of `by_age` if the epoch cuts episodes and each environment ended one."""


def summarise(
    running: Floats, reward: NDArray[Any], cost: NDArray[Any], done: Bools, gamma: float
) -> Summary:
    """The summary of an epoch that began with these unfinished sums."""
    finished, left = _finished(running, reward, cost, done, gamma)
    begun = running[:, 1]
    if not cuts(begun, done[-1]) or not observes_every_age(done):
        return Summary(finished, left, None)
    age = ages(done, begun)
    return Summary(finished, left, by_age(_columns(reward, cost, gamma, age), done, age))


def cuts(begun: Floats, last: Bools) -> bool:
    """Whether an episode began before this epoch or continues after it.

    `begun` [N] are the steps before it, `last` [N] whether the last step ended an episode.
    """
    return bool(begun.any() or not last.all())


def _finished(
    running: Floats, reward: NDArray[Any], cost: NDArray[Any], done: Bools, gamma: float
) -> tuple[Floats, Floats]:
    """Rows of the finished episodes, ordered by time then environment; and the unfinished sums."""
    steps, num_envs = reward.shape
    rows: list[tuple[int, int, Floats]] = []
    running = running.copy()
    for env in range(num_envs):
        start = 0
        for end in [*np.flatnonzero(done[:, env]), steps - 1]:
            piece = slice(start, end + 1)
            running[env] += _sums(running[env, 1], reward[piece, env], cost[piece, env], gamma)
            start = int(end) + 1
            if done[end, env] and len(reward[piece, env]):
                rows.append((int(end), env, running[env].copy()))
                running[env] = 0.0
    rows.sort(key=lambda row: row[:2])
    width = running.shape[1]
    return np.array([row[2] for row in rows]).reshape(-1, width), running


def _sums(before: float, reward: Floats, cost: Floats, gamma: float) -> Floats:
    """The contribution to an episode's sums of a piece that starts `before` steps after its
    start.
    """
    discount = gamma ** (before + np.arange(len(reward)))
    return np.concatenate(
        [[reward.sum(), len(reward)], cost.sum(0), discount @ cost], dtype=np.float64
    )


def observes_every_age(done: Bools) -> bool:
    """Whether each environment ended an episode; if one did not, some episodes are longer."""
    return bool(done.any(0).all())


def _columns(
    reward: NDArray[Any], cost: NDArray[Any], gamma: float, age: NDArray[np.int64]
) -> Floats:
    """[T, N, 2 + 2K] the contribution of each step to the sums of its episode."""
    one, discounted = np.ones((*reward.shape, 1)), cost * (gamma**age)[..., None]
    return np.concatenate([reward[..., None], one, cost, discounted], -1, dtype=np.float64)


def _weights(starts: NDArray[np.int64], ends: NDArray[np.int64]) -> Floats:
    """The weight of each episode in the mean of the records, the means of [start, end)."""
    share = 1.0 / ((ends - starts) * len(ends))
    change = np.zeros(ends[-1] + 1)
    np.add.at(change, starts, share)
    np.subtract.at(change, ends, share)
    return change.cumsum()[:-1]


def ages(done: Bools, before: Floats) -> NDArray[np.int64]:
    """[T, N] number of earlier steps in the episode of each step; `before` [N] at the start."""
    time = np.arange(len(done))[:, None]
    began = np.maximum.accumulate(np.where(_begins(done), time, 0))
    return time - began + np.where(began == 0, before.astype(np.int64), 0)


def by_age(values: Floats, done: Bools, age: NDArray[np.int64]) -> tuple[Floats, Floats]:
    """([W] mean sum of an episode, [W] its error) from values [T, N, W], done and age [T, N].

    J = V(0), with one value for each age, from all steps of one epoch:

        V(a) = mean of (cost + V(a + 1) if the episode continues)   over the steps taken at age a

    The mean over finished episodes favours short ones, because the end of an epoch cuts the long
    ones. Here no step is left out, and none is selected by the end of its episode. The age of an
    episode is independent of later chance, so every age is sampled without bias, also in episodes
    that began before the epoch or continue after it. If all are complete, V(0) is their plain mean.
    It is Kaplan and Meier's estimate of survival (with late entries), applied to costs.

    Like every quotient of two sums it has a bias of second order, about se²/J. The jackknife over
    environments estimates and removes it.
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

    over the n pieces of episodes in the epoch, with δ = cost + V(a + 1) if it continues − V(a) and
    w(a) = (share that reach age a) / (steps at age a). For complete episodes it is the plain
    standard error.
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
    """[T, N] whether an episode begins with this step, after another one that ended in this
    epoch.
    """
    return np.concatenate([np.zeros_like(done[:1]), done[:-1]])


@dataclass(frozen=True)
class Forecast:
    """Predicted against realised cost changes of updates.

        spent_k        the change of J_c that the update of epoch k predicts, κ E[(ratio − 1) · A_c]
        realised_k+1   J_{k+1} − J_k, measured one epoch later with the cost estimate in use
        ratio          Σ_j f^j p r / Σ_j f^j p², the slope of realised on predicted through 0

    over the pairs (p, r) = (spent, realised) so far, j epochs old, f = 0.95, so about 20 epochs
    count. A ratio of 1 is a calibrated prediction; above 1, costs change more than predicted. All
    are [1 + K]: the sum, then each cost.
    """

    cost: Floats
    """The last estimate of J_c; NaN before the first epoch."""
    spent: Floats
    """The predicted change from that estimate."""
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
        """Realised per predicted change; NaN before the first prediction."""
        unknown = np.full_like(self.cross, np.nan)
        return np.divide(self.cross, self.square, out=unknown, where=self.square > 0)

    def after(self, cost: NDArray[Any], spent: NDArray[Any]) -> tuple[Forecast, Floats]:
        """(the forecast with an epoch's estimate [K] and prediction [K], the realised change)."""
        cost, spent = (np.array([each.sum(), *each], np.float64) for each in (cost, spent))
        realised = cost - self.cost
        known = ~np.isnan(realised)
        cross = FORGET * self.cross + np.where(known, self.spent * realised, 0.0)
        square = FORGET * self.square + np.where(known, self.spent**2, 0.0)
        return Forecast(cost, spent, cross, square), realised
