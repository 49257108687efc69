# SPDX-License-Identifier: Apache-2.0
"""`core.episodes.summarise` in JAX, for an epoch whose steps stay on the device.

Only sums of episodes go to the host: a row for each finished and each unfinished episode, and the
estimate by age. All sums are in float64. They add in another order than NumPy's, so they agree with
`summarise` up to rounding. T steps, N environments, W = 2 + 2K sums.
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from holdfast.core.episodes import Floats, Summary, cuts

ROWS = 256
"""Finished episodes that go to the host at once: a fixed number, so that one program is enough."""


def summarise_on_device(
    running: Floats,
    reward: Array,
    cost: Array,
    done: Array,
    gamma: float,
    time_limit: int | None = None,
) -> Summary:
    """The summary of an epoch of reward [T, N], cost [T, N, K] and done [T, N].

    Without a `time_limit` of episodes the estimate by age is compiled for powers of two.
    """
    with jax.enable_x64(True):
        values, age, total = _per_step(running, reward, cost, done, gamma)
        facts = done.sum(), age.max(), done.any(0).all(), done[-1], total[-1]
        count, oldest, every_age, last, left = jax.device_get(facts)
        some = [_rows(total, done, first) for first in range(0, max(1, int(count)), ROWS)]
        finished = np.concatenate(jax.device_get(some))[:count]
        left = np.where(last[:, None], 0.0, left)
        if not cuts(running[:, 1], last) or not every_age:
            return Summary(finished, left, None)
        rows = time_limit or 1 << int(oldest).bit_length()
        mean, error = jax.device_get(_by_age(values, done, age, rows))
    return Summary(finished, left, (mean, error))


@partial(jax.jit, static_argnums=4)
def _per_step(
    running: Array, reward: Array, cost: Array, done: Array, gamma: float
) -> tuple[Array, Array, Array]:
    """(what a step adds to its episode [T, N, W], the age of its episode [T, N], the episode's
    sums after the step [T, N, W]).
    """

    def older(age: Array, end: Array) -> tuple[Array, Array]:
        return jnp.where(end, 0, age + 1), age

    age = jax.lax.scan(older, running[:, 1].astype(jnp.int32), done)[1]
    reward, cost = reward.astype(jnp.float64)[..., None], cost.astype(jnp.float64)
    discounted = cost * (gamma ** age.astype(jnp.float64))[..., None]
    values = jnp.concatenate([reward, jnp.ones_like(reward), cost, discounted], -1)
    return values, age, _totals(values, done, running)


def _totals(values: Array, done: Array, start: Array) -> Array:
    """[T, N, W] sums of each episode up to each step; `start` [N, W] is added to the first."""

    def add(total: Array, x: tuple[Array, Array]) -> tuple[Array, Array]:
        value, end = x
        total = total + value
        return jnp.where(end[:, None], 0.0, total), total

    return jax.lax.scan(add, start, (values, done))[1]


@jax.jit
def _rows(total: Array, done: Array, first: int) -> Array:
    """[ROWS, W] sums at the ends of episodes, by time, then environment, from the end `first` on.

    Rows after the last end are zeros.
    """
    at = jnp.searchsorted(done.ravel().cumsum(), first + 1 + jnp.arange(ROWS))
    return total.reshape(done.size, -1).at[at].get(mode="fill", fill_value=0.0)


@partial(jax.jit, static_argnums=3)
def _by_age(values: Array, done: Array, age: Array, rows: int) -> tuple[Array, Array]:
    """`core.episodes.by_age`, for ages below `rows`; an age without a step changes nothing."""
    num_envs = done.shape[1]
    one, end = jnp.ones_like(values[..., :1]), done[..., None]
    parts = jnp.concatenate([values, one, jnp.where(end, 0.0, one)], -1)
    each = jnp.zeros((rows, num_envs, parts.shape[-1])).at[age, jnp.arange(num_envs)].add(parts)
    whole = each.sum(1, keepdims=True)
    summed = jnp.concatenate([whole, whole - each], 1)
    total, count, goes_on = summed[..., :-2], summed[..., -2:-1], summed[..., -1:]
    seen = jnp.maximum(count, 1)
    mean, stays = total / seen, goes_on / seen

    def back(rest: Array, x: tuple[Array, Array, Array]) -> tuple[Array, Array]:
        mean, stays, count = x
        rest = mean + stays * rest
        return jnp.where(count > 0, rest, rest[0]), rest[0]

    rest, ahead = jax.lax.scan(back, jnp.zeros_like(mean[0]), (mean, stays, count), reverse=True)
    reach = jnp.concatenate([jnp.ones((1, 1)), stays[:-1, 0]]).cumprod(0)
    after = jnp.concatenate([ahead, jnp.zeros_like(ahead[:1])])[age + 1]
    surprise = values + jnp.where(end, 0.0, after) - ahead[age]
    pieces = _totals((reach / seen[:, 0])[age] * surprise, done, jnp.zeros_like(values[0]))
    ends = done.at[-1].set(True)
    n = ends.sum().astype(values.dtype)
    squares = jnp.where(ends[..., None], pieces**2, 0.0).sum((0, 1))
    bias = (num_envs - 1) * (rest[1:].mean(0) - rest[0])
    return rest[0] - bias, jnp.sqrt(squares * n / jnp.maximum(n - 1, 1))
