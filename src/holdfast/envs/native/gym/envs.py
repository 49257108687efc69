# SPDX-License-Identifier: Apache-2.0
"""Native tasks as ordinary Gymnasium environments, one at a time or as Gymnasium's `VectorEnv`.

`step` returns Gymnasium's five values with the cost in `info["cost"]` and its parts in
`info["cost_*"]`; `SixTuple` returns the cost as the third of six, as Safety-Gymnasium does.
"""

from typing import Any, SupportsFloat, cast

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from holdfast.envs.native.batch.lockstep import check_action
from holdfast.envs.native.catalogue import lockstep
from holdfast.envs.native.gym.render import Painter, Window
from holdfast.envs.native.simulation import Array, Simulation

ONLY = np.array([0])
METADATA: dict[str, Any] = {"render_modes": ["rgb_array", "human"], "render_fps": 30}
VECTOR_METADATA: dict[str, Any] = {"autoreset_mode": AutoresetMode.SAME_STEP}


def cost_info(simulation: Simulation, costs: Array, index: int) -> dict[str, Any]:
    """`cost`, then the original's entries; absent ones are left out."""
    row = {key: float(v) for key, v in zip(simulation.cost_keys, costs[index], strict=True)}
    entries = {key: value for key, value in row.items() if not np.isnan(value)}
    return {"cost": row["cost_sum"], **entries, **simulation.info(index)}


class SafetyEnv(gym.Env[Array, NDArray[Any]]):
    """One environment; Gymnasium adds the time limit at registration."""

    metadata: dict[str, Any] = METADATA

    def __init__(
        self,
        env_id: str,
        render_mode: str | None = None,
        width: int = 480,
        height: int = 480,
        lidar_rings: bool = False,
    ) -> None:
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise ValueError(f"render_mode={render_mode!r} must be 'rgb_array', 'human' or None.")
        batch = lockstep(env_id, 1, None)
        self.env_id, self.simulation = env_id, batch.simulation
        self.observation_space = batch.observation_space
        self.action_space = cast("gym.spaces.Box", batch.action_space)
        self.render_mode, self._size, self._rings = render_mode, (width, height), lidar_rings
        self._painter: Painter | None = None
        self._window: Window | None = None
        self._started = False

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Array, dict[str, Any]]:
        """A new episode; without a seed the random stream continues."""
        super().reset(seed=seed)
        if seed is not None or not self._started:
            first = int(self.np_random.integers(2**31)) if seed is None else seed
            self.simulation.seed(np.array([first]))
        self._started = True
        obs = self.simulation.restart(ONLY)[0]
        self._show()
        return obs, {}

    def step(self, action: NDArray[Any]) -> tuple[Array, SupportsFloat, bool, bool, dict[str, Any]]:
        """obs, reward, terminated, truncated, info."""
        given = np.asarray(action)
        expected = self.action_space.shape or ()
        if given.shape != expected:
            raise ValueError(
                f"{self.env_id} got an action of shape {given.shape}, expected {expected}: "
                "one number for each actuator."
            )
        check_action(self.env_id, given[None], (1, *expected))
        outcome = self.simulation.advance(given[None])
        info = cost_info(self.simulation, outcome.costs, 0)
        self._show()
        terminated = bool(outcome.terminated[0])
        return outcome.obs[0], float(outcome.reward[0]), terminated, False, info

    def _show(self) -> None:
        if self.render_mode == "human":
            if self._window is None:
                self._window = Window(self.simulation)
            self._window.show()

    def render(self) -> Any:
        """[height, width, 3] in the mode rgb_array."""
        if self.render_mode != "rgb_array":
            return None
        if self._painter is None:
            self._painter = Painter(self.simulation, *self._size, rings=self._rings)
        return self._painter.frame()

    def close(self) -> None:
        """Release the resources of rendering."""
        for view in (self._painter, self._window):
            if view is not None:
                view.close()
        self._painter = self._window = None


class SixTuple(gym.Wrapper[Any, Any, Any, Any]):
    """For code written for Safety-Gymnasium: `obs, reward, cost, terminated, truncated, info`."""

    def step(self, action: Any) -> Any:
        """The cost comes third."""
        obs, reward, terminated, truncated, info = self.env.step(action)
        return obs, reward, info["cost"], terminated, truncated, info


class SafetyVectorEnv(gym.vector.VectorEnv[Array, NDArray[Any], NDArray[Any]]):
    """N environments; `info["cost"]` and `info["cost_*"]` are arrays [N].

    Episodes restart in the step that ends them; the last observation is in `info["final_obs"]`.
    """

    metadata: dict[str, Any] = VECTOR_METADATA

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
        """Environment i gets `seed + i`, or entry i of a list; without a seed the streams
        continue.
        """
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
