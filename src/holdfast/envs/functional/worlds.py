# SPDX-License-Identifier: Apache-2.0
"""Many functional environments as pure functions: begun, stepped, begun again, acted in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from holdfast.envs.functional.policy import DevicePolicy
from holdfast.envs.functional.states import Model

BLOCK = 8
"""Environments that are reset at once: few end in the same step, and a reset is not cheap."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Worlds:
    """n environments in the middle of their episodes."""

    state: Any
    """A state of the environment, each array with a leading n."""
    key: Array
    """[n, ...] of the environment; with the number of an episode it gives that episode's key."""
    episode: Array
    """[n] episodes that have ended."""
    age: Array
    """[n] steps of the current ones."""


def begin(model: Model, seeds: Array) -> Worlds:
    """The first episodes of environments with these seeds [n]."""
    key = jax.vmap(jax.random.PRNGKey)(seeds)
    none = jnp.zeros(len(seeds), jnp.int32)
    return Worlds(_start(model, key, none), key, none, none)


def _start(model: Model, key: Array, episode: Array) -> Any:
    return jax.vmap(model.start)(jax.vmap(jax.random.fold_in)(key, episode))


def observe(model: Model, worlds: Worlds) -> Array:
    return jax.vmap(model.observe)(worlds.state)


def step(model: Model, worlds: Worlds, action: Array) -> tuple[Worlds, dict[str, Array]]:
    """One step of all, and new episodes where one has ended; the fields of a `base.Step`."""
    # Behind the barrier what the environment gave is rounded; no more is merged into its program.
    state, out = jax.lax.optimization_barrier(jax.vmap(model.move)(worlds.state, action))
    age = worlds.age + 1
    over = False if model.time_limit is None else age >= model.time_limit
    truncated = ~out.terminated & (out.cut | over)
    ended = out.terminated | truncated
    moved = Worlds(state, worlds.key, worlds.episode + ended, jnp.where(ended, 0, age))
    begun = _restart(model, moved, ended)
    return begun, {
        "obs": observe(model, begun),
        "next_obs": out.obs,
        "reward": out.reward,
        "cost": out.cost,
        "terminated": out.terminated,
        "truncated": truncated,
    }


def _restart(model: Model, worlds: Worlds, ended: Array) -> Worlds:
    """New episodes for those that ended, a block at a time; for none nothing is computed."""
    n = len(ended)

    def some(x: tuple[Any, Array]) -> tuple[Any, Array]:
        state, left = x
        rows = jnp.nonzero(left, size=BLOCK, fill_value=n)[0]  # n is no row: it is dropped
        fresh = _start(model, worlds.key[rows], worlds.episode[rows])
        put = lambda all_, new: all_.at[rows].set(new, mode="drop")
        return jax.tree.map(put, state, fresh), left.at[rows].set(False, mode="drop")

    state = jax.lax.while_loop(lambda x: x[1].any(), some, (worlds.state, ended))[0]
    return Worlds(state, worlds.key, worlds.episode, worlds.age)


def advance(
    model: Model, policy: DevicePolicy, worlds: Worlds, noise: Array
) -> tuple[tuple[Worlds, Array], dict[str, Array]]:
    """Act for T steps with noise [T, n, noise_size]."""

    def one(worlds: Worlds, drawn: Array) -> tuple[Worlds, dict[str, Array]]:
        seen = policy.view(observe(model, worlds))
        action = policy.act(seen, drawn)
        worlds, out = step(model, worlds, policy.to_env(model.action_space, action))
        return worlds, {"seen": seen, "action": action, **out}

    worlds, out = jax.lax.scan(one, worlds, noise)
    return (worlds, policy.view(observe(model, worlds))), out


@jax.jit
def joined(policy: DevicePolicy, out: Mapping[str, Array], last: Array) -> tuple[Array, Array]:
    """(seen [T + 1, N, O], true successors [T, N, O]) of what `advance` returned."""
    seen = jnp.concatenate([out["seen"], last[None]])
    ended = (out["terminated"] | out["truncated"])[..., None]
    return seen, jnp.where(ended, policy.view(out["next_obs"]), seen[1:])


@jax.jit
def _moments(obs: Array) -> tuple[Array, Array]:
    obs = obs.astype(jnp.float64)
    mean = obs.sum(0) / len(obs)
    return mean, ((obs - mean) ** 2).sum(0) / len(obs)


def moments(obs: Array) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(mean, population variance) over the first axis, in float64 where the array is."""
    with jax.enable_x64(True):
        mean, var = _moments(obs)
        return np.asarray(mean), np.asarray(var)
