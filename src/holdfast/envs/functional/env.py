# SPDX-License-Identifier: Apache-2.0
"""Functional environments as a VecEnv: an epoch is one compiled scan, on all devices.

The environments are shared out among the devices in equal parts, each part a program of its own
that never talks to the others (`shard_map`). What an environment does follows from its seed, the
number of its episode and its actions alone. Only what the update needs comes together, on the first
device; rewards, costs and ends go to the host, once an epoch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from numpy.typing import NDArray

from holdfast.envs.acting import Actor, Float32
from holdfast.envs.base import (
    Floats,
    OnProgress,
    Snapshot,
    Step,
    actions_of,
    adopt,
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
    joined,
    moments,
    observe,
    step,
)
from holdfast.envs.rollout import (
    PATIENCE,
    Rollout,
    Round,
    add_up,
    check_noise,
    collect,
    noise_of,
    play_round,
)


@dataclass(frozen=True)
class DeviceRollout(Rollout):
    """Observations and actions stay on the device; `final` is empty, `successor` has them all."""

    successor: Any = None
    """[T, N, O] the true successors."""

    @property
    def next_obs(self) -> Any:
        return self.successor


class FunctionalEnv:
    """N copies of a functional environment, with exact snapshots."""

    can_snapshot = True

    def __init__(self, dynamics: Dynamics, num_envs: int) -> None:
        check_count(num_envs)
        self._dynamics, self.num_envs = dynamics, num_envs
        self.observation_space = dynamics.observation_space
        self.action_space = dynamics.action_space
        self.native_action_space: gym.Space[Any] = dynamics.native_action_space
        self.cost_names, self.time_limit = dynamics.cost.names, dynamics.time_limit
        self.cost_parts, self.free_costs = dynamics.cost.parts, dynamics.cost.free
        adopt(self, dynamics.env, ("cost_bounds", "cost_limits"))
        adopt(self, dynamics, ("native_observation_space", "budget_names"))
        devices = _sharing(num_envs)
        self._home, count = devices[0], len(devices)
        self.place = f"on {count} {self._home.platform} device{'s' if count > 1 else ''}"
        mesh = Mesh(np.array(devices), ("envs",))
        self._split = NamedSharding(mesh, P("envs"))
        rows, table = P("envs"), P(None, "envs")
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
        return self.observation

    @property
    def observation(self) -> Floats:
        """[N, O] what to act on next."""
        return np.asarray(self._observe(self._started()))

    def step(self, action: NDArray[Any]) -> Step:
        shape = (self.num_envs, *(self.action_space.shape or ()))
        action = actions_of(f"Env {self._dynamics.label}", action, shape)
        self._worlds, out = self._run(self._move, self._started(), action)
        return Step(**{name: np.asarray(value) for name, value in out.items()})

    def collect(
        self,
        actor: Actor,
        noise: Float32,
        on_progress: OnProgress | None = None,
        memory: Float32 | None = None,
    ) -> Rollout:
        """Act for noise.shape[0] steps in one compiled scan; step by step if more than layers read.

        A device has no twin of convolutions and memories.
        """
        if actor.network.readers:
            obs = self.observation
            return collect(self, obs, actor, noise, memory=memory, on_progress=on_progress)[0]
        check_noise(noise, self.num_envs, actor)
        last, out = self._act(actor, noise)
        mean, var = moments(out.pop("obs"))
        last, out = jax.device_put((last, out), self._home)
        seen, successor = joined(DevicePolicy.of(actor), out, last)
        host = lambda name, kind: np.asarray(out[name], kind)
        if on_progress is not None:
            on_progress(noise.shape[0] * self.num_envs)
        return DeviceRollout(
            seen=seen,  # pyright: ignore[reportArgumentType]
            final=np.empty((0, seen.shape[-1]), np.float32),
            action=out["action"],
            reward=host("reward", np.float64),
            cost=host("cost", np.float64),
            terminated=host("terminated", np.bool_),
            truncated=host("truncated", np.bool_),
            mean=mean,
            var=var,
            successor=successor,
        )

    def play_round(self, actor: Actor, wanted: Round) -> NDArray[np.float64]:
        """As `rollout.play_round`, with a hand-over every `PATIENCE` steps."""
        if actor.network.readers:
            return play_round(self, actor, wanted)
        return add_up(self, self._steps(actor, wanted), wanted.discount)

    def _steps(self, actor: Actor, wanted: Round) -> Iterator[Step]:
        """The steps of a round, and on and on; what was observed stays on the devices."""
        still = np.zeros((PATIENCE, self.num_envs, actor.noise_size), np.float32)
        unseen = np.empty((self.num_envs, 0))
        self.reset(wanted.seed + wanted.first)
        for noise in noise_of(actor, wanted, self.num_envs):
            out = self._act(actor, still if noise is None else noise)[1]
            names = ("reward", "cost", "terminated", "truncated")
            for told in zip(*(np.asarray(out[name]) for name in names), strict=True):
                yield Step(unseen, unseen, *told)

    def snapshot(self) -> Snapshot:
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
        return self.observation

    def _put(self, name: str, like: Any, snapshot: Snapshot) -> Array:
        """An array of a snapshot, where it was."""
        is_key = _is_key(like)
        plain = jax.eval_shape(jax.random.key_data, like) if is_key else like
        where = f"the same environment ({self._dynamics.label})"
        put = jax.device_put(kept_in(snapshot, name, plain, where), self._split)
        return jax.random.wrap_key_data(put, impl=like.dtype._impl.name) if is_key else put

    def close(self) -> None:
        """Nothing to release."""

    def _act(self, actor: Actor, noise: Float32) -> tuple[Array, dict[str, Array]]:
        """Act for noise.shape[0] steps; what the policy sees next, and all that happened."""
        policy = DevicePolicy.of(actor)
        (self._worlds, last), out = self._run(self._advance, policy, self._started(), noise)
        return last, out

    def _started(self) -> Worlds:
        return require_reset(self._worlds, f"Env {self._dynamics.label}")


def _sharing(num_envs: int) -> list[Any]:
    """The most devices of this process among which the environments can be shared equally."""
    devices = jax.local_devices()
    return devices[: max(n for n in range(1, len(devices) + 1) if num_envs % n == 0)]


def _is_key(leaf: Any) -> bool:
    """Whether it holds random keys of the typed kind."""
    return bool(jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key))


def _plain(leaf: Array) -> NDArray[Any]:
    """An array for a snapshot; random keys as the numbers that they are."""
    return np.asarray(jax.random.key_data(leaf) if _is_key(leaf) else leaf)
