# SPDX-License-Identifier: Apache-2.0
"""A share of the environments, stepped in a plain loop: all of them, or one worker's part.

The loop is the only place where foreign environments are stepped, so running them in one process or
in many gives the same numbers.
"""

from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.envs.base import Bools, Floats, Snapshot, Step
from holdfast.envs.cost import read_cost
from holdfast.envs.opening import Layout, close_all, reset_env, step_env
from holdfast.envs.spaces import dtype_of, flatten, to_native
from holdfast.envs.tape import episode_seed


class Share:
    """Environments number `first`, `first + 1`, ... of a batch."""

    def __init__(self, envs: Sequence[Any], layout: Layout, first: int = 0) -> None:
        self._envs, self._layout, self._first = list(envs), layout, first
        self._current: list[Any] = [None] * len(envs)  # native observations, for cost functions
        self._seeds, self._episode = [0] * len(envs), [0] * len(envs)

    def reset(self, seed: int) -> Floats:
        """Environment i gets `seed + i`, counted over the whole batch."""
        obs = self._empty_obs()
        for i in range(len(self._envs)):
            self._seeds[i], self._episode[i] = seed + self._first + i, 0
            self._begin(i, obs)
        return obs

    def restore(self, saved: Snapshot) -> Floats:
        """Play the current episodes of a tape again; the row of one that ended in it is NaN."""
        obs = self._empty_obs()
        self._seeds, self._episode = saved["seed"].tolist(), saved["episode"].tolist()
        actions = saved["actions"]
        for i, age in enumerate(saved["age"].tolist()):
            self._begin(i, obs)
            for action in actions[i, actions.shape[1] - age :]:
                if self._repeat(i, action, obs):
                    obs[i] = np.nan
                    break
        return obs

    def step(self, action: NDArray[Any]) -> Step:
        layout, count = self._layout, len(self._envs)
        next_obs, reward = self._empty_obs(), np.empty(count)
        cost = np.empty((count, len(layout.cost.names)))
        terminated, truncated = np.empty(count, np.bool_), np.empty(count, np.bool_)
        given = to_native(layout.native_actions, action, layout.clip_actions)
        i = 0
        try:
            for i, env in enumerate(self._envs):
                done = step_env(env, self._current[i], given[i])
                self._write(i, done.next_obs, next_obs)
                reward[i], cost[i] = done.reward, read_cost(layout.cost, done)
                terminated[i], truncated[i] = done.terminated, done.truncated
        except Exception as error:
            self._locate(error, i)
            raise
        ended = terminated | truncated
        obs = self._restart(ended, next_obs) if ended.any() else next_obs
        return Step(obs, next_obs, reward, cost, terminated, truncated)

    def close(self) -> None:
        close_all(self._envs)

    def _restart(self, ended: Bools, next_obs: Floats) -> Floats:
        obs = next_obs.copy()
        for i in np.flatnonzero(ended).tolist():
            self._episode[i] += 1
            self._begin(i, obs)
        return obs

    def _repeat(self, i: int, action: NDArray[Any], obs: Floats) -> bool:
        """One step of one environment again; whether its episode ended."""
        given = to_native(self._layout.native_actions, action[None], self._layout.clip_actions)
        try:
            done = step_env(self._envs[i], self._current[i], given[0])
            self._write(i, done.next_obs, obs)
        except Exception as error:
            self._locate(error, i)
            raise
        return bool(done.terminated or done.truncated)

    def _begin(self, i: int, obs: Floats) -> None:
        seed = episode_seed(self._seeds[i], self._episode[i])
        try:
            self._write(i, reset_env(self._envs[i], seed), obs)
        except Exception as error:
            self._locate(error, i)
            raise

    def _write(self, i: int, native: Any, out: Floats) -> None:
        flat = flatten(self._layout.native_observations, native)
        if flat.size != out.shape[1]:
            raise ValueError(
                f"observation has {flat.size} numbers, observation_space says {out.shape[1]}: "
                "make them agree."
            )
        out[i] = flat.reshape(-1)
        if self._layout.cost.kind == "function":
            # Environments may reuse their observation buffer; the cost must see the old values.
            self._current[i] = native.copy() if type(native) is np.ndarray else deepcopy(native)

    def _empty_obs(self) -> Floats:
        space = self._layout.observation_space
        obs: Floats = np.empty((len(self._envs), *space.shape), dtype_of(space))
        return obs

    def _locate(self, error: Exception, i: int) -> None:
        error.add_note(f"(raised in environment {self._first + i} of Env {self._layout.label})")
