# SPDX-License-Identifier: Apache-2.0
"""Functional environments as a VecEnv: an epoch is one compiled scan, on all devices.

The environments are divided equally among the devices; each part is a separate program without
communication (`shard_map`). An environment depends only on its seed, the number of its episode and
its actions. The data of the update are gathered on the first device and stay there: the host gets
the sums of episodes, the moments of observations and metrics.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from numpy.typing import NDArray

from holdfast.core.device_episodes import summarise_on_device
from holdfast.core.episodes import Summary
from holdfast.envs.acting import Actor, Float32
from holdfast.envs.base import (
    Floats,
    OnProgress,
    Snapshot,
    Step,
    actions_of,
    check_count,
    kept_in,
    require_reset,
)
from holdfast.envs.functional.states import Dynamics, traced
from holdfast.envs.functional.worlds import (
    DevicePolicy,
    Worlds,
    advance,
    begin,
    draw,
    joined,
    moments,
    observe,
    step,
)
from holdfast.envs.noise import persistence
from holdfast.envs.rollout import (
    PATIENCE,
    OnDevice,
    Playing,
    Rollout,
    Round,
    add_up,
    check_noise,
    collect,
    noise_of,
    play_round,
)

TOLD = ("reward", "cost", "terminated", "truncated")
"""What a step returns beside observations."""


@dataclass(frozen=True)
class DeviceRollout(Rollout):
    """Its arrays are on the device; `final` is empty, `successor` has all successors."""

    successor: Any = None
    """[T, N, O] the true successors."""
    time_limit: int | None = None

    @property
    def next_obs(self) -> Any:
        return self.successor

    def summary(self, running: NDArray[np.float64], gamma: float) -> Summary:
        reward, cost, done = map(jnp.asarray, (self.reward, self.cost, self.done))
        return summarise_on_device(running, reward, cost, done, gamma, self.time_limit)


class FunctionalEnv(OnDevice, Playing):
    """N copies of a functional environment, with exact snapshots."""

    can_snapshot = True

    def __init__(self, dynamics: Dynamics, num_envs: int) -> None:
        check_count(num_envs)
        self._dynamics, self.num_envs = dynamics, num_envs
        self.observation_space = dynamics.observation_space
        self.action_space = dynamics.action_space
        self.cost_names = dynamics.cost.names
        devices = _sharing(num_envs)
        self._home, count = devices[0], len(devices)
        place = f"on {count} {self._home.platform} device{'s' if count > 1 else ''}"
        self.facts = replace(dynamics.facts, place=place)
        mesh = Mesh(np.array(devices), ("envs",))
        self._split = NamedSharding(mesh, P("envs"))
        rows, table = P("envs"), P(None, "envs")
        self._everywhere, self._by_env = NamedSharding(mesh, P()), NamedSharding(mesh, table)
        share = partial(jax.shard_map, mesh=mesh, check_vma=False)
        self._begin = jax.jit(share(partial(begin, dynamics), in_specs=rows, out_specs=rows))
        self._move = jax.jit(share(partial(step, dynamics), in_specs=(rows, rows), out_specs=rows))
        self._observe = jax.jit(share(partial(observe, dynamics), in_specs=rows, out_specs=rows))
        self._advance = jax.jit(
            share(partial(advance, dynamics), in_specs=(P(), rows, table), out_specs=(rows, table))
        )
        self._run = partial(traced, dynamics.label)
        self._worlds: Worlds | None = None

    def reset(self, seed: int) -> Floats:
        """Environment i gets `seed + i`."""
        seeds = np.array([(seed + i) % 2**32 for i in range(self.num_envs)], np.uint32)
        self._worlds = self._run(self._begin, seeds)
        return np.asarray(self.observation)

    @property
    def observation(self) -> Any:
        """[N, O] what to act on next, on the devices."""
        return self._observe(self._started())

    def step(self, action: NDArray[Any]) -> Step:
        shape = (self.num_envs, *(self.action_space.shape or ()))
        action = actions_of(f"Env {self._dynamics.label}", action, shape)
        self._worlds, out = self._run(self._move, self._started(), action)
        return Step(**{name: np.asarray(value) for name, value in out.items()})

    def place(self, tree: Any) -> Any:
        # A shard has no trace of the mesh in its type, for which all would be compiled again.
        return jax.tree.map(lambda x: x.addressable_data(0), jax.device_put(tree, self._home))

    def draw(self, actor: Actor, key: Array, steps: int) -> Array:
        shape = (steps, self.num_envs, actor.noise_size)
        return draw(key, shape, actor.std is None, persistence(actor.noise_time))

    def collect(
        self,
        actor: Actor,
        noise: Any,
        on_progress: OnProgress | None = None,
        memory: Float32 | None = None,
    ) -> Rollout:
        """Act for noise.shape[0] steps in one compiled scan; step by step for images and memories.

        `DevicePolicy` supports neither convolutions nor memories.
        """
        if actor.network.readers:
            obs = np.asarray(self.observation)
            return collect(self, obs, actor, noise, memory=memory, on_progress=on_progress)[0]
        check_noise(noise, self.num_envs, actor)
        last, out = self._act(actor, noise)
        mean, var = moments(out.pop("obs"), self._home)
        last, out = self.place((last, out))
        seen, successor = joined(DevicePolicy.of(actor), out, last)
        if on_progress is not None:
            on_progress(noise.shape[0] * self.num_envs)
        return DeviceRollout(
            seen=seen,  # pyright: ignore[reportArgumentType]
            final=np.empty((0, seen.shape[-1]), np.float32),
            mean=mean,
            var=var,
            successor=successor,
            time_limit=self.facts.time_limit,
            **{name: out[name] for name in ("action", *TOLD)},
        )

    def play_round(self, actor: Actor, wanted: Round) -> NDArray[np.float64]:
        """As `rollout.play_round`, with a transfer to the host every `PATIENCE` steps."""
        if actor.network.readers:
            return play_round(self, actor, wanted)
        return add_up(self, self._steps(actor, wanted), wanted.discount)

    def _steps(self, actor: Actor, wanted: Round) -> Iterator[Step]:
        """The steps of a round, without end; observations stay on the devices."""
        still = np.zeros((PATIENCE, self.num_envs, actor.noise_size), np.float32)
        unseen = np.empty((self.num_envs, 0))
        self.reset(wanted.seed + wanted.first)
        for noise in noise_of(actor, wanted, self.num_envs):
            out = self._act(actor, still if noise is None else noise)[1]
            for values in zip(*(np.asarray(out[name]) for name in TOLD), strict=True):
                yield Step(unseen, unseen, *values)

    def snapshot(self) -> Snapshot:
        """Arrays on the devices; a checkpoint moves them to the host."""
        leaves = jax.tree_util.tree_flatten_with_path(self._started())[0]
        return {jax.tree_util.keystr(path)[1:]: _plain(leaf) for path, leaf in leaves}

    def restore(self, snapshot: Snapshot) -> Floats:
        seeds = jax.ShapeDtypeStruct((self.num_envs,), np.uint32)
        leaves, structure = jax.tree_util.tree_flatten_with_path(
            jax.eval_shape(partial(begin, self._dynamics), seeds)
        )
        filled = [
            self._put(jax.tree_util.keystr(path)[1:], like, snapshot) for path, like in leaves
        ]
        self._worlds = jax.tree_util.tree_unflatten(structure, filled)
        return np.asarray(self.observation)

    def _put(self, name: str, like: Any, snapshot: Snapshot) -> Array:
        """An array of a snapshot, placed as before."""
        is_key = _is_key(like)
        plain = jax.eval_shape(jax.random.key_data, like) if is_key else like
        where = f"the same environment ({self._dynamics.label})"
        put = jax.device_put(kept_in(snapshot, name, plain, where), self._split)
        return jax.random.wrap_key_data(put, impl=like.dtype._impl.name) if is_key else put

    def close(self) -> None:
        """Nothing to release."""

    def _act(self, actor: Actor, noise: Any) -> tuple[Array, dict[str, Array]]:
        """Act for noise.shape[0] steps; returns the next observations and all steps."""
        policy = jax.device_put(DevicePolicy.of(actor), self._everywhere)
        noise = jax.device_put(noise, self._by_env)
        (self._worlds, last), out = self._run(self._advance, policy, self._started(), noise)
        return last, out

    def _started(self) -> Worlds:
        return require_reset(self._worlds, f"Env {self._dynamics.label}")


def _sharing(num_envs: int) -> list[Any]:
    """The largest number of this process's devices that divides the environments equally."""
    devices = jax.local_devices()
    return devices[: max(n for n in range(1, len(devices) + 1) if num_envs % n == 0)]


def _is_key(leaf: Any) -> bool:
    """Whether it contains typed random keys."""
    return bool(jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key))


def _plain(leaf: Array) -> Any:
    """An array for a snapshot; random keys as plain numbers."""
    return jax.random.key_data(leaf) if _is_key(leaf) else leaf
