# SPDX-License-Identifier: Apache-2.0
"""A native batch as a `VecEnv`: time limits, automatic resets, constraints, snapshots.

All environments advance together in one process. The physics is a loop over simulators, because
the engine steps one at a time; everything else is arithmetic on the whole batch.
"""

from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from holdfast.envs.acting import Actor, Float32
from holdfast.envs.base import (
    ActionSpace,
    Alterable,
    Facts,
    OnProgress,
    Snapshot,
    Step,
    actions_of,
    require_reset,
)
from holdfast.envs.native import engine
from holdfast.envs.native.simulation import Array, Simulated, Simulation
from holdfast.envs.native.worlds import cost_terms
from holdfast.envs.rollout import Collecting, Rollout, collect

LIMIT = 25.0
"""Limit of every task and constraint, as in the published comparisons."""


def check_action(env_id: str, action: NDArray[Any], shape: tuple[int, ...]) -> None:
    """Refuse actions that are not finite, before they make a simulator diverge."""
    actions_of(env_id, action, shape)
    if not np.isfinite(action).all():
        raise ValueError(
            f"{env_id} got an action that is not finite (first row "
            f"{int(np.argmin(np.isfinite(action).reshape(len(action), -1).all(1)))}); "
            "check the policy's output for NaN."
        )


class LockstepEnv(Collecting, Alterable, Simulated):
    """N environments of one native task in this process."""

    can_snapshot = True

    def __init__(self, env_id: str, simulation: Simulation, names: tuple[str, ...]) -> None:
        self.env_id, self.simulation, self.cost_names = env_id, simulation, names
        self.num_envs = simulation.num_envs
        self._behind = cost_terms.resolve(env_id, names, simulation.cost_keys)
        self.facts = Facts(
            cost_bounds=(1.0,) * len(names),  # `cost_terms.select` gives 0 or 1
            cost_limits=dict.fromkeys(names, LIMIT),
            free_costs=cost_terms.free(names, simulation.cost_keys),
            time_limit=simulation.time_limit,
        )
        self.observation_space: gym.spaces.Box[Any] = gym.spaces.Box(
            simulation.obs_low, simulation.obs_high, dtype=np.float64
        )
        dtype = simulation.action_dtype
        low, high = simulation.action_low.astype(dtype), simulation.action_high.astype(dtype)
        self.action_space: ActionSpace = gym.spaces.Box(low, high, dtype=dtype)
        self._shape = (self.num_envs, len(simulation.action_low))
        self._steps = np.zeros(self.num_envs, np.int64)
        self._obs: Array | None = None
        self.costs: Array = np.zeros((self.num_envs, len(simulation.cost_keys)))
        """[N, C] all cost entries of the latest step, in the order of `simulation.cost_keys`."""

    def reset(self, seed: int) -> Array:
        """Start new episodes, environment i with seed `seed + i`."""
        if seed < 0:
            raise ValueError(f"seed={seed} must not be negative; choose 0 or above.")
        self.simulation.seed(seed + np.arange(self.num_envs, dtype=np.int64))
        return self.restart()

    def restart(self) -> Array:
        """Start new episodes and continue the random streams."""
        self._steps[:] = 0
        self._obs = self.simulation.restart(np.arange(self.num_envs))
        return self._obs.copy()

    def step(self, action: NDArray[Any]) -> Step:
        """Advance all; where an episode ended, `obs` is already the next one's."""
        self._started()
        action = np.asarray(action)
        check_action(self.env_id, action, self._shape)
        outcome = self.simulation.advance(action)
        self._steps += 1
        truncated = self._steps >= self.simulation.time_limit
        obs, done = outcome.obs, outcome.terminated | truncated
        if done.any():
            ended = np.flatnonzero(done)
            obs = obs.copy()
            obs[ended] = self.simulation.restart(ended)
            self._steps[ended] = 0
        self._obs, self.costs = obs, outcome.costs
        cost = cost_terms.select(outcome.costs, self._behind)
        return Step(obs, outcome.obs, outcome.reward, cost, outcome.terminated, truncated)

    @property
    def observation(self) -> Array:
        """[N, O] current observations."""
        return self._started().copy()

    def _started(self) -> Array:
        return require_reset(self._obs, self.env_id)

    def collect(
        self,
        actor: Actor,
        noise: Float32,
        on_progress: OnProgress | None = None,
        memory: Float32 | None = None,
    ) -> Rollout:
        """Let the batch act by itself for noise.shape[0] steps; noise [T, N, A]."""
        obs = self.observation
        return collect(self, obs, actor, noise, memory=memory, on_progress=on_progress)[0]

    def snapshot(self) -> Snapshot:
        """The whole state as named arrays."""
        saved = {"steps": self._steps.copy(), "obs": self.observation}
        return saved | self.simulation.save()

    def restore(self, snapshot: Snapshot) -> Array:
        """Continue from a snapshot, bit for bit."""
        if len(snapshot["steps"]) != self.num_envs:
            raise ValueError(
                f"the snapshot has {len(snapshot['steps'])} environments, this batch "
                f"{self.num_envs}: make the batch with the number in the snapshot."
            )
        self.simulation.load(snapshot)
        self._steps, self._obs = snapshot["steps"].copy(), snapshot["obs"].copy()
        return self._obs.copy()

    def alter(self, mass: float, friction: float) -> None:
        """Multiply the mass of every body and the friction of every contact."""
        engine.alter(self.simulation.models, mass, friction)

    def close(self) -> None:
        """Nothing to release."""
