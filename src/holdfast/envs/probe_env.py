# SPDX-License-Identifier: Apache-2.0
"""Run any probe as a batch, with one small generator per environment and exact snapshots."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.envs.base import Floats, Snapshot, Step, actions_of, check_count, kept_in
from holdfast.envs.probe import Probe


class ProbeEnv:
    """N copies of a probe, with exact snapshots; `constraints` selects and orders its costs."""

    can_snapshot = True

    def __init__(
        self, probe: Probe, num_envs: int, constraints: Sequence[str] | None = None
    ) -> None:
        check_count(num_envs)
        names = tuple(probe.cost_limits)
        chosen = names if constraints is None else tuple(constraints)
        if not chosen or len(set(chosen)) < len(chosen) or not set(chosen) <= set(names):
            raise ValueError(
                f"constraints={chosen} do not fit this probe: choose from {', '.join(names)}."
            )
        self.probe = probe
        self.num_envs = num_envs
        self.observation_space = probe.observation_space
        self.action_space = probe.action_space
        self.cost_names = chosen
        self.cost_bounds = tuple(probe.cost_bounds[name] for name in chosen)
        self.cost_limits = {name: probe.cost_limits[name] for name in chosen}
        self.time_limit = probe.horizon
        self._columns = None if chosen == names else [names.index(name) for name in chosen]
        self._action_shape = (num_envs, *(probe.action_space.shape or ()))
        self.reset(0)

    def reset(self, seed: int) -> Floats:
        seeds = [(seed + i) % 2**64 for i in range(self.num_envs)]
        self._generator = _mix(np.array(seeds, np.uint64))
        self._time = np.zeros(self.num_envs, np.int64)
        self._generator, uniform = draw(self._generator)
        self._state = self.probe.start(uniform)
        return self.probe.observe(self._state)

    def step(self, action: NDArray[Any]) -> Step:
        action = actions_of("the probe", action, self._action_shape)
        self._generator, uniform = draw(self._generator)
        self._state, reward, cost, terminated = self.probe.move(self._state, action, uniform)
        cost = cost if self._columns is None else cost[:, self._columns]
        self._time = self._time + 1
        truncated = (self._time >= self.probe.horizon) & ~terminated
        obs = next_obs = self.probe.observe(self._state)
        ended = np.flatnonzero(terminated | truncated)
        if ended.size:
            self._restart(ended)
            obs = self.probe.observe(self._state)
        return Step(obs, next_obs, reward, cost, terminated, truncated)

    def _restart(self, ended: NDArray[np.intp]) -> None:
        # Only these generators advance: an environment's future never depends on its neighbours.
        self._generator[ended], uniform = draw(self._generator[ended])
        self._state = self._state.copy()
        self._state[ended] = self.probe.start(uniform)
        self._time[ended] = 0

    def snapshot(self) -> Snapshot:
        return {
            "state": self._state.copy(),
            "time": self._time.copy(),
            "generator": self._generator.copy(),
        }

    def restore(self, snapshot: Snapshot) -> Floats:
        now = self.snapshot().items()
        kept = {name: kept_in(snapshot, name, like, "the same probe").copy() for name, like in now}
        self._state, self._time, self._generator = kept["state"], kept["time"], kept["generator"]
        return self.probe.observe(self._state)

    def close(self) -> None:
        pass


# Randomness. SplitMix64 is one addition and a bit mixer, so N independent generators are one array:
# vectorised, cheap to store, and identical however the environments are batched.


def draw(generator: NDArray[np.uint64]) -> tuple[NDArray[np.uint64], Floats]:
    """Advance each generator once; returns them and a uniform number in [0, 1) from each."""
    generator = generator + np.uint64(0x9E3779B97F4A7C15)
    return generator, (_mix(generator) >> np.uint64(11)) * 2.0**-53


def _mix(z: NDArray[np.uint64]) -> NDArray[np.uint64]:
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
