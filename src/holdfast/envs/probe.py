# SPDX-License-Identifier: Apache-2.0
"""Tiny environments with known optima, for first tests of a safe algorithm.

Each probe is a value: spaces, limits, its two optima, and three pure functions on a batch of
one-number states. `ProbeEnv` runs any of them in NumPy as a batch, with one small generator per
environment and exact snapshots, tens of microseconds a step.

    optimal_safe_return   the best mean episode return of all policies whose mean episode cost is
                          within the limits; a stationary policy of the observation attains it
    optimal_return        the best without limits; its policy violates every limit

No safe policy has a higher mean return than `optimal_safe_return`. A learner that reports more has
an error in its limit, its cost or its sum.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from holdfast.envs.base import (
    ActionSpace,
    Bools,
    Facts,
    Floats,
    Snapshot,
    Step,
    actions_of,
    check_count,
    kept_in,
)

State = NDArray[Any]
Move = tuple[State, Floats, Floats, Bools]
"""Next state [N], reward [N], cost [N, K], terminated [N]."""


@dataclass(frozen=True)
class Probe:
    """An environment as data. `uniform` are independent draws from [0, 1), one per environment."""

    summary: str
    observation_space: gym.spaces.Box
    action_space: ActionSpace
    cost_limits: dict[str, float]
    """The limit on the mean episode cost of each constraint."""
    cost_bounds: dict[str, float]
    """The largest cost of one step."""
    optimal_safe_return: float
    optimal_return: float
    horizon: int
    """An episode that lasts this long is truncated."""
    start: Callable[[Floats], State]
    """(uniform) -> state"""
    observe: Callable[[State], Floats]
    """(state) -> obs [N, O]"""
    move: Callable[[State, NDArray[Any], Floats], Move]
    """(state, action, uniform) -> Move"""

    def __str__(self) -> str:
        return (
            f"{self.summary}\n"
            f"observations {self.observation_space}\n"
            f"actions      {self.action_space}\n"
            f"limits       {self.cost_limits}\n"
            f"best safe return {self.optimal_safe_return:g}, without limits "
            f"{self.optimal_return:g}; at most {self.horizon} steps"
        )


def _box(low: float, high: float, size: int) -> gym.spaces.Box:
    return gym.spaces.Box(low, high, (size,), np.float64)


# Bandit: context x = ±1, action a in [-1, 1], reward x·a, cost a², one step.
# By Jensen E[x·a] <= E|a| <= sqrt(E[a²]) <= sqrt(0.64), attained by a = 0.8·x; without limit by x.
# Only a policy without noise is optimal; unit noise around 0 costs 0.52 and is safe.


def _bandit_move(x: State, action: NDArray[Any], _: Floats) -> Move:
    a = np.clip(action[:, 0], -1.0, 1.0)
    return x, x * a, (a * a)[:, None], np.ones(len(x), np.bool_)


BANDIT = Probe(
    summary="one step: reward x·a, cost a², context x = ±1",
    observation_space=_box(-1.0, 1.0, 1),
    action_space=_box(-1.0, 1.0, 1),
    cost_limits={"cost": 0.64},
    cost_bounds={"cost": 1.0},
    optimal_safe_return=0.8,
    optimal_return=1.0,
    horizon=1,
    start=lambda uniform: np.where(uniform < 0.5, -1.0, 1.0),
    observe=lambda x: x[:, None],
    move=_bandit_move,
)


# Shortcut: five columns, three rows; from the lower left corner S to the lower right corner G.
#     . . . . .    Moving right pays 8, moving left -8, every step -1. Hazards H cost 1 for each
#     . H H H .    step that ends on one. Straight on: 4 steps, return 28, cost 3. Around: 8 steps,
#     S H H H G    return 24, cost 0. Every other way is worse than a mix of these two, so the best
# safe return at limit b is 24 + 4·b/3, earned by going straight on with probability b/3.
# A uniform policy loiters on the hazards (cost about 7.5), so a learner must first recover.

_COLUMNS, _ROWS, _GOAL = 5, 3, 4


def _shortcut_tables() -> tuple[NDArray[np.int64], Floats, Floats]:
    """Next cell, reward and cost of each (cell, action); actions are right, up, left, down."""
    cell, action = np.meshgrid(np.arange(_COLUMNS * _ROWS), np.arange(4), indexing="ij")
    row, column = np.divmod(cell, _COLUMNS)
    new_column = np.clip(column + (action == 0) - (action == 2), 0, _COLUMNS - 1)
    new_row = np.clip(row + (action == 1) - (action == 3), 0, _ROWS - 1)
    hazard = (new_column > 0) & (new_column < _COLUMNS - 1) & (new_row < _ROWS - 1)
    reward = 8.0 * (new_column - column) - 1.0
    return new_row * _COLUMNS + new_column, reward, hazard.astype(np.float64)


_NEXT_CELL, _CELL_REWARD, _CELL_COST = _shortcut_tables()
_ONE_HOT = np.eye(_COLUMNS * _ROWS)


def _shortcut_move(cell: State, action: NDArray[Any], _: Floats) -> Move:
    new = _NEXT_CELL[cell, action]
    return new, _CELL_REWARD[cell, action], _CELL_COST[cell, action][:, None], new == _GOAL


SHORTCUT = Probe(
    summary="a short way through hazards against a long safe way, on a 5 x 3 grid",
    observation_space=_box(0.0, 1.0, _COLUMNS * _ROWS),
    action_space=gym.spaces.Discrete(4),
    cost_limits={"cost": 1.5},
    cost_bounds={"cost": 1.0},
    optimal_safe_return=26.0,
    optimal_return=28.0,
    horizon=20,
    start=lambda uniform: np.zeros(len(uniform), np.int64),
    observe=lambda cell: _ONE_HOT[cell],
    move=_shortcut_move,
)


# Machines: each of 10 steps, run machine A, B, both or neither. A fair coin x decides which of
# them is worth 2 now (A if x = 1, B if x = 0); the other is worth 1. A gives heat 1 and noise 1/2,
# B heat 1/2 and noise 1. With A and B the expected numbers of runs, the safe optimum solves
#       A + B/2 = 9,  A/2 + B = 9.75   =>   A = 5.5, B = 7,
# and running each on its 5 good steps first earns 2·5 + 0.5 + 2·5 + 2 = 22.5. Both limits have
# positive multipliers: 1 = y₁ + y₂/2 = y₁/2 + y₂ gives 2/3 each.

_MACHINE_COST = np.array([[1.0, 0.5], [0.5, 1.0]])


def _machines_move(x: State, action: NDArray[Any], uniform: Floats) -> Move:
    run_a, run_b = action[:, 0], action[:, 1]
    reward = run_a * (1.0 + x) + run_b * (2.0 - x)
    return _coin(uniform), reward, action @ _MACHINE_COST, np.zeros(len(x), np.bool_)


def _coin(uniform: Floats) -> State:
    return (uniform < 0.5).astype(np.float64)


MACHINES = Probe(
    summary="two machines, two limits (heat and noise) that both bind",
    observation_space=_box(0.0, 1.0, 1),
    action_space=gym.spaces.MultiDiscrete([2, 2]),
    cost_limits={"heat": 9.0, "noise": 9.75},
    cost_bounds={"heat": 1.5, "noise": 1.5},
    optimal_safe_return=22.5,
    optimal_return=30.0,
    horizon=10,
    start=_coin,
    observe=lambda x: x[:, None],
    move=_machines_move,
)


# Speed: a point mass, v' = clip(v + a/2, -2, 2), reward v', cost max(0, v' - 1), v₀ uniform in
# [0, 1/2), 20 steps. reward - cost = min(v', 1), of which the first step can bring v₀ + 1/2 and
# the others 1:
#       return <= E[v₀] + 1/2 + 19 + cost <= 19.75 + limit,
# attained by any policy that reaches v >= 1 in two steps, stays there and spends the whole limit.
# Flat out: E[v] = 0.75, 1.25, 1.75, then 2.


def _speed_move(v: State, action: NDArray[Any], _: Floats) -> Move:
    new = np.clip(v + 0.5 * np.clip(action[:, 0], -1.0, 1.0), -2.0, 2.0)
    return new, new, np.maximum(new - 1.0, 0.0)[:, None], np.zeros(len(v), np.bool_)


SPEED = Probe(
    summary="a point mass paid for its speed that costs above speed 1",
    observation_space=_box(-2.0, 2.0, 1),
    action_space=_box(-1.0, 1.0, 1),
    cost_limits={"cost": 6.0},
    cost_bounds={"cost": 1.0},
    optimal_safe_return=25.75,
    optimal_return=37.75,
    horizon=20,
    start=lambda uniform: 0.5 * uniform,
    observe=lambda v: v[:, None],
    move=_speed_move,
)

PROBES: dict[str, Probe] = {
    "probe/Bandit-v0": BANDIT,
    "probe/Shortcut-v0": SHORTCUT,
    "probe/Machines-v0": MACHINES,
    "probe/Speed-v0": SPEED,
}


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
        self.facts = Facts(
            cost_bounds=tuple(probe.cost_bounds[name] for name in chosen),
            cost_limits={name: probe.cost_limits[name] for name in chosen},
            free_costs=tuple(name for name in names if name not in chosen),
            time_limit=probe.horizon,
        )
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
