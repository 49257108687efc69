# SPDX-License-Identifier: Apache-2.0
"""Estimators of advantages and the critics' targets from the experience of an epoch.

Shapes: T steps, N environments, K constraints. The same function serves reward and every cost.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from holdfast.core.critic import Critics, values


def gae(
    signal: Array,
    value: Array,
    next_value: Array,
    done: Array,
    *,
    gamma: float | Array,
    lam: float | Array,
) -> Array:
    """Advantages A_t = Σ_k (γλ)^k δ_{t+k} within an episode, all arrays [T, N].

    Several signals at once are on a last axis, with a γ and λ for each.

    δ_t = f_t + γ v(s') − v(s) with s' the true successor, its value given as 0 after a terminal
    state. The sum stops where `done` (terminated or truncated) and at the end of the rollout.
    """
    td_error = signal + gamma * next_value - value

    def back(tail: Array, x: tuple[Array, Array]) -> tuple[Array, Array]:
        error, end = x
        tail = error + gamma * lam * jnp.where(end, 0.0, tail)
        return tail, tail

    return jax.lax.scan(back, jnp.zeros_like(value[0]), (td_error, done), reverse=True)[1]


def standardise(x: Array) -> Array:
    """(x − mean) / (std + 1e-8), std with n − 1."""
    return (x - x.mean()) / (x.std(ddof=1) + 1e-8)


def estimate(
    critics: Critics,
    rollout: Mapping[str, Array],
    key: Array,
    *,
    gamma: tuple[float, float],
    lam: tuple[float, float],
    standardise_cost: bool,
    cost_value_noise: float,
) -> dict[str, Array]:
    """Advantages and critic targets of a rollout: the fields of a batch that need the critics.

    `rollout` contains obs and next_obs [T, N, O], reward [T, N], cost [T, N, K] and the end flags.
    `gamma` and `lam` are (reward, cost). The noise is that of the ablation: every stored and every
    bootstrapped cost value has an independent normal error, also after termination.
    """
    steps, num_envs = rollout["reward"].shape
    size = rollout["obs"].shape[-1]

    def judged(obs: Array) -> Array:
        rows = jnp.asarray(obs).reshape(-1, size)
        return values(critics.layers, rows, critics.network).reshape(steps, num_envs, -1)

    value, next_value = judged(rollout["obs"]), judged(rollout["next_obs"])
    terminated, truncated = jnp.asarray(rollout["terminated"]), jnp.asarray(rollout["truncated"])
    done = terminated | truncated
    next_value = jnp.where(terminated[..., None], 0.0, next_value)
    if cost_value_noise:
        shift = cost_value_noise * jax.random.normal(key, (2, *value[..., 1:].shape))
        value = value.at[..., 1:].add(shift[0])
        # A stored value is also the bootstrap of the step before it, with the same error.
        follows = jnp.concatenate([shift[0, 1:], shift[1, -1:]])
        next_value = next_value.at[..., 1:].add(jnp.where(done[..., None], shift[1], follows))
    signal = jnp.concatenate([rollout["reward"][..., None], rollout["cost"]], -1).astype(
        value.dtype
    )
    each = lambda pair: jnp.asarray([pair[0]] + [pair[1]] * (signal.shape[-1] - 1), value.dtype)
    end = done[..., None]
    advantage = gae(signal, value, next_value, end, gamma=each(gamma), lam=each(lam))
    flat = advantage.reshape(-1, signal.shape[-1])
    adv_c = flat[:, 1:] - flat[:, 1:].mean(0)
    if standardise_cost:
        adv_c = adv_c / (flat[:, 1:].std(0, ddof=1) + 1e-8)
    return {
        "adv_r": standardise(flat[:, 0]),
        "adv_c": adv_c,
        "target": (advantage + value).reshape(flat.shape),
        "explained": _explained(value.reshape(flat.shape), (advantage + value).reshape(flat.shape)),
    }


def _explained(value: Array, target: Array) -> Array:
    """[1 + K] share of the targets' variance that the critics explained before their fit."""
    return 1 - (target - value).var(0) / (target.var(0) + 1e-8)


def episode_numbers(done: Any, xp: Any = np) -> Any:
    """[T, N] a number for each episode (or piece of one) in the rollout."""
    ends = done[:-1].astype(xp.int32)
    within = xp.concatenate([xp.zeros_like(done[:1], xp.int32), ends.cumsum(0, xp.int32)])
    pieces = within[-1] + 1
    return within + (pieces.cumsum(dtype=xp.int32) - pieces)
