# SPDX-License-Identifier: Apache-2.0
"""What an episode costs, from all steps of one epoch: J = V(0), with one value for each age.

    V(a) = mean of (cost + V(a + 1) if the episode goes on)   over the steps taken at age a

The mean over finished episodes favours short ones, because the end of an epoch cuts the long ones.
Here no step is left out and none is chosen by how its episode ended: how old an episode is says
nothing about luck, so every age is seen without bias, also in episodes that began before the epoch
or outlive it. If all are whole, V(0) is their plain mean. It is Kaplan and Meier's estimate of
survival (with late entries), carried over to costs.

Like every quotient of two sums it is off by second order, about se²/J; leaving out one environment
after the other (the jackknife) measures and removes that.

    error² = n / (n − 1) · Σ_pieces (Σ_steps w(a) · δ)²,   δ = cost + V(a + 1) if it goes on − V(a)

over the n pieces of episodes in the epoch, w(a) = (share that reach age a) / (steps taken at it):
the plain standard error if all are whole.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


def ages(done: Bools, before: Floats) -> NDArray[np.int64]:
    """[T, N] steps that its episode had made before each step; `before` [N] at the start."""
    time = np.arange(len(done))[:, None]
    began = np.maximum.accumulate(np.where(_begins(done), time, 0))
    return time - began + np.where(began == 0, before.astype(np.int64), 0)


def by_age(values: Floats, done: Bools, age: NDArray[np.int64]) -> tuple[Floats, Floats]:
    """([W] mean sum of an episode, [W] its error) from values [T, N, W], done and age [T, N]."""
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
