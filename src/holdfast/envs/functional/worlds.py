# SPDX-License-Identifier: Apache-2.0
"""Batches of functional environments as pure functions: start, step, restart, act.

`DevicePolicy` acts on the device of the environments.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from holdfast.core.networks import Network
from holdfast.envs.acting import Actor, box_scale
from holdfast.envs.functional.states import Dynamics

BLOCK = 8
"""Environments that are reset at once: few end in the same step, and a reset takes long."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Worlds:
    """n environments in the middle of their episodes."""

    state: Any
    """A state of the environment, each array with a leading n."""
    key: Array
    """[n, ...] key of the environment; with the number of an episode it gives that episode's
    key.
    """
    episode: Array
    """[n] number of finished episodes."""
    age: Array
    """[n] number of steps of the current episodes."""


def begin(dynamics: Dynamics, seeds: Array) -> Worlds:
    """The first episodes of environments with these seeds [n]."""
    key = jax.vmap(jax.random.PRNGKey)(seeds)
    none = jnp.zeros(len(seeds), jnp.int32)
    return Worlds(_start(dynamics, key, none), key, none, none)


def _start(dynamics: Dynamics, key: Array, episode: Array) -> Any:
    return jax.vmap(dynamics.start)(jax.vmap(jax.random.fold_in)(key, episode))


def observe(dynamics: Dynamics, worlds: Worlds) -> Array:
    return jax.vmap(dynamics.observe)(worlds.state)


def step(dynamics: Dynamics, worlds: Worlds, action: Array) -> tuple[Worlds, dict[str, Array]]:
    """One step of all, with new episodes after ends; returns the fields of a `base.Step`."""
    # Behind the barrier what the environment gave is rounded; no more is merged into its program.
    state, out = jax.lax.optimization_barrier(jax.vmap(dynamics.move)(worlds.state, action))
    age = worlds.age + 1
    limit = dynamics.facts.time_limit
    over = False if limit is None else age >= limit
    truncated = ~out.terminated & (out.cut | over)
    ended = out.terminated | truncated
    moved = Worlds(state, worlds.key, worlds.episode + ended, jnp.where(ended, 0, age))
    begun = _restart(dynamics, moved, ended)
    return begun, {
        "obs": observe(dynamics, begun),
        "next_obs": out.obs,
        "reward": out.reward,
        "cost": out.cost,
        "terminated": out.terminated,
        "truncated": truncated,
    }


def _restart(dynamics: Dynamics, worlds: Worlds, ended: Array) -> Worlds:
    """New episodes for those that ended, a block at a time; no computation without ends."""
    n = len(ended)

    def some(x: tuple[Any, Array]) -> tuple[Any, Array]:
        state, left = x
        rows = jnp.nonzero(left, size=BLOCK, fill_value=n)[0]  # n is no row: it is dropped
        fresh = _start(dynamics, worlds.key[rows], worlds.episode[rows])
        put = lambda all_, new: all_.at[rows].set(new, mode="drop")
        return jax.tree.map(put, state, fresh), left.at[rows].set(False, mode="drop")

    state = jax.lax.while_loop(lambda x: x[1].any(), some, (worlds.state, ended))[0]
    return Worlds(state, worlds.key, worlds.episode, worlds.age)


ROWS = {"cpu": 32}
"""Height of a block by platform: small on a CPU, else `MANY`."""
MANY = 1024


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class DevicePolicy:
    """`acting.Actor` in JAX: arrays in float32, and static fields that determine the program.

    Matrix products round a row differently in products of different height. So the policy reads
    rows in blocks of one height, and results do not depend on a device's number of environments.
    """

    layers: tuple[tuple[Array, Array], ...]
    std: Array | None
    """[A] of a Gaussian policy."""
    mean: Array | None
    """[O] statistics of the observations; None: they are not normalised."""
    scale: Array | None
    sizes: tuple[int, ...] = field(metadata={"static": True})
    clip: bool = field(metadata={"static": True})
    network: Network = field(metadata={"static": True})

    @classmethod
    def of(cls, actor: Actor) -> DevicePolicy:
        seen, narrow = actor.normaliser, lambda x: np.asarray(x, np.float32)
        shift, scale = (None, None) if seen is None else (narrow(seen.mean), narrow(seen.scale))
        arrays: Any = (actor.layers, actor.std, shift, scale)  # a program takes them as its own
        layers, std, mean, scale = arrays
        return cls(layers, std, mean, scale, actor.sizes, actor.clip, actor.network)

    def view(self, obs: Array) -> Array:
        """The policy's input from obs [n, O]."""
        if self.mean is None or self.scale is None:
            return obs
        return (obs - self.mean) / self.scale

    def act(self, seen: Array, noise: Array) -> Array:
        """Actions [n, A] or [n, D], in the policy's units."""
        rows = ROWS.get(jax.default_backend(), MANY)
        filled = lambda x: jnp.pad(x, ((0, -len(x) % rows), (0, 0)))
        blocks = lambda x: filled(x).reshape(-1, rows, x.shape[-1])
        # The barriers keep the compiler from computing less, and so from rounding differently.
        given = jax.lax.optimization_barrier((blocks(seen), blocks(noise)))
        action = jax.lax.optimization_barrier(jax.lax.map(lambda x: self._act(*x), given))
        return action.reshape(-1, action.shape[-1])[: len(seen)]

    def _act(self, seen: Array, noise: Array) -> Array:
        out = jnp.zeros_like(noise)
        if self.layers:
            with jax.default_matmul_precision("highest"):
                out = self.network.dense(self.layers, seen, jnp)
        if self.std is not None:
            return out + self.std * noise
        blocks = jnp.split(out + noise, np.cumsum(self.sizes)[:-1], axis=-1)
        return jnp.stack([block.argmax(-1) for block in blocks], -1).astype(jnp.int32)

    def to_env(self, space: gym.Space[Any], action: Array) -> Array:
        """`acting.action_map` in JAX, for plain spaces."""
        if isinstance(space, gym.spaces.Box):
            middle, half = map(jnp.asarray, box_scale(space))
            moved = middle + half * action
            return jnp.clip(moved, space.low, space.high) if self.clip else moved
        return action[..., 0] if isinstance(space, gym.spaces.Discrete) else action


@partial(jax.jit, static_argnums=(1, 2))
def draw(key: Array, shape: tuple[int, ...], choices: bool, rho: float) -> Array:
    """`acting.Actor.draw` in JAX: noise [T, N, noise_size] of steps with this correlation."""
    fresh = jax.random.normal(key, shape)
    scaled = (jnp.sqrt(1 - rho * rho) * fresh).at[0].set(fresh[0])

    def follow(last: Array, new: Array) -> tuple[Array, Array]:
        now = rho * last + new
        return now, now

    normal = jax.lax.scan(follow, jnp.zeros_like(fresh[0]), scaled)[1]
    return -jnp.log(-jax.scipy.special.log_ndtr(normal)) if choices else normal


def advance(
    dynamics: Dynamics, policy: DevicePolicy, worlds: Worlds, noise: Array
) -> tuple[tuple[Worlds, Array], dict[str, Array]]:
    """Act for T steps with noise [T, n, noise_size]."""

    def one(worlds: Worlds, drawn: Array) -> tuple[Worlds, dict[str, Array]]:
        seen = policy.view(observe(dynamics, worlds))
        action = policy.act(seen, drawn)
        worlds, out = step(dynamics, worlds, policy.to_env(dynamics.action_space, action))
        return worlds, {"seen": seen, "action": action, **out}

    worlds, out = jax.lax.scan(one, worlds, noise)
    return (worlds, policy.view(observe(dynamics, worlds))), out


@jax.jit
def joined(policy: DevicePolicy, out: Mapping[str, Array], last: Array) -> tuple[Array, Array]:
    """(seen [T + 1, N, O], true successors [T, N, O]) from the result of `advance`."""
    seen = jnp.concatenate([out["seen"], last[None]])
    ended = (out["terminated"] | out["truncated"])[..., None]
    return seen, jnp.where(ended, policy.view(out["next_obs"]), seen[1:])


@jax.jit
def _moments(obs: Array) -> tuple[Array, Array]:
    obs = obs.astype(jnp.float64)
    mean = obs.sum(0) / len(obs)
    return mean, ((obs - mean) ** 2).sum(0) / len(obs)


@jax.jit
def _pooled(mean: Array, var: Array) -> tuple[Array, Array]:
    whole = mean.mean(0, keepdims=True)
    return whole, (var + (mean - whole) ** 2).mean(0, keepdims=True)


def moments(obs: Array, home: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """([1, O] mean, population variance) of obs [T, N, O], in float64.

    Those of each environment are computed where it is, and pooled on the device `home`.
    """
    with jax.enable_x64(True):
        return jax.device_get(_pooled(*jax.device_put(_moments(obs), home)))
