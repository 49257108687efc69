# SPDX-License-Identifier: Apache-2.0
"""A native batch as Gymnasium's own `VectorEnv`, for code that speaks that dialect.

Episodes restart in the step that ends them; the last observation is in `info["final_obs"]`.
"""

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from holdfast.envs.native.catalogue import lockstep
from holdfast.envs.native.simulation import Array

METADATA: dict[str, Any] = {"autoreset_mode": AutoresetMode.SAME_STEP}


class SafetyVectorEnv(gym.vector.VectorEnv[Array, NDArray[Any], NDArray[Any]]):
    """N environments; `info["cost"]` and `info["cost_*"]` are arrays [N]."""

    metadata: dict[str, Any] = METADATA

    def __init__(
        self, env_id: str, num_envs: int = 1, max_episode_steps: int | None = None
    ) -> None:
        self.batch = lockstep(env_id, num_envs, None)
        if max_episode_steps is not None:
            self.batch.simulation.time_limit = max_episode_steps
        self.num_envs = num_envs
        self.single_observation_space = self.batch.observation_space
        self.single_action_space = self.batch.action_space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._started = False

    def reset(
        self, *, seed: int | list[int] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Array, dict[str, Any]]:
        """Environment i gets `seed + i`, or its own of a list; without one the streams continue."""
        if isinstance(seed, list):
            self.batch.simulation.seed(np.array(seed))
        elif seed is not None or not self._started:
            first = int(np.random.default_rng().integers(2**31)) if seed is None else seed
            self._started = True
            return self.batch.reset(first), {}
        self._started = True
        return self.batch.restart(), {}

    def step(
        self, actions: NDArray[Any]
    ) -> tuple[Array, NDArray[Any], NDArray[Any], NDArray[Any], dict[str, Any]]:
        """obs, rewards, terminations, truncations, infos."""
        step = self.batch.step(actions)
        costs = self.batch.costs
        info: dict[str, Any] = {"cost": costs[:, 0]}
        info |= dict(zip(self.batch.simulation.cost_keys, costs.T, strict=True))
        ended = step.terminated | step.truncated
        if ended.any():
            info |= {"final_obs": step.next_obs, "_final_obs": ended}
        return (
            np.asarray(step.obs, np.float64), step.reward, step.terminated, step.truncated, info
        )  # fmt: skip
