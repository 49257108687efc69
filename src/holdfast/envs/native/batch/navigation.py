# SPDX-License-Identifier: Apache-2.0
"""Navigation tasks: N worlds that advance together.

A step holds the clipped controls for ten substeps, refreshes derived quantities once, then computes
reward, costs, goals and observations of the whole batch. Simulators share one compiled model. If
the layout is part of the model (the Point's start pose, solid static objects, gremlins), each
environment has a copy of it, rewritten in place at reset.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.envs.native import engine
from holdfast.envs.native.simulation import Array, Indices, Outcome
from holdfast.envs.native.worlds import cost_terms, layout, observe, rewards
from holdfast.envs.native.worlds.physics import SUBSTEPS, Physics
from holdfast.envs.native.worlds.robots import ROBOTS, level_for

TIMER = 10


class NavigationSimulation:
    """N simulators of one navigation task; see `Simulation`."""

    action_dtype: type[np.floating[Any]] = np.float64

    def __init__(self, robot: str, level: str, num_envs: int) -> None:
        self.robot_name, self.robot, self.level = robot, ROBOTS[robot], level_for(robot, level)
        self.num_envs, self.time_limit = num_envs, self.level.time_limit
        self.seconds_per_step = self.robot.timestep * SUBSTEPS
        self.plan = layout.plan(self.level, self.robot.z)
        self.physics = Physics(robot, self.level, self.plan, num_envs)
        self.lidar = observe.lidar(self.level, self.plan)
        self.cost_keys = self.level.cost_keys
        self._reward = rewards.REWARDS[self.level.reward]
        self._slices = self.plan.slices
        self._sizes = {kind.name: kind.size[0] for kind in self.level.kinds}
        self._contacts = self.level.reward == "button" or bool(
            cost_terms.BY_CONTACT & set(self.level.penalties)
        )
        self._generators = [np.random.RandomState(i) for i in range(num_envs)]
        self._pending = np.zeros(num_envs, np.int64)
        self.layout = np.zeros((num_envs, len(self.plan.names), 2))
        self.rotation = np.zeros((num_envs, len(self.plan.names)))
        self.goal_button = np.zeros(num_envs, np.intp)
        self.timer = np.zeros(num_envs, np.int64)
        self._nothing = np.zeros((num_envs, 3))
        self.last = self._reward.distances(self._scene(slice(None)))
        self.goal_met = np.zeros(num_envs, np.bool_)
        self._costs = np.zeros((num_envs, len(self.cost_keys)))
        sensors, rings = observe.sensor_size(self.robot), observe.BINS * len(self.lidar.kinds)
        self.obs_low = np.concatenate((np.full(sensors, -np.inf), np.zeros(rings)))
        self.obs_high = np.concatenate((np.full(sensors, np.inf), np.ones(rings)))
        # the original rounds its bounds to single precision
        low, high = self.physics.control_range
        self.action_low = low.astype(np.float32).astype(np.float64)
        self.action_high = high.astype(np.float32).astype(np.float64)

    @property
    def models(self) -> Sequence[Any]:
        return [*self.physics.full, *self.physics.lean]

    def seed(self, seeds: NDArray[np.int64]) -> None:
        """The stream of `numpy.random.RandomState(seed)` for each simulator."""
        if (seeds >= 2**32).any():
            raise ValueError(f"seed {int(seeds.max())} must be below 2**32; choose a smaller one.")
        self._generators = [np.random.RandomState(int(seed)) for seed in seeds]
        self._pending[:] = 0

    def _generator(self, i: int) -> np.random.RandomState:
        """The generator of one simulator, advanced by the draws of its steps.

        The original draws one double in each step and ignores its value.
        """
        self._generators[i].random_sample(int(self._pending[i]))
        self._pending[i] = 0
        return self._generators[i]

    def restart(self, which: Indices) -> Array:
        """New layouts, rotations, goals, in the original's order of random numbers."""
        for i in which:
            generator = self._generator(i)
            places, self.rotation[i] = layout.sample(generator, self.plan)
            # the jitter of fixed objects is part of the random stream, not of the world
            self.layout[i] = np.where(np.isnan(self.plan.fixed), places, self.plan.fixed)
            self.place_goal(i, self.layout[i])
            noise = generator.uniform(-0.1, 0.1, len(self.robot.rest))
            self.physics.write_layout(i, self.layout[i], self.rotation[i], noise)
        self.timer[which] = 0
        self.physics.forward(which)
        self.last[which] = self._reward.distances(self._scene(which))
        return self._observe(which)

    def place_goal(self, i: int, places: Array) -> bool:
        """A new goal among `places` [K, 2], or a new goal button; False when there is no room."""
        if self.level.reward == "button":
            self.goal_button[i] = self._generator(i).randint(0, 4)
            first = self._slices["buttons"].start
            self.layout[i, self._slices["goal"]] = self.layout[i, first + self.goal_button[i]]
        elif "goal" in self._slices:
            goal = self._slices["goal"].start
            found = layout.draw_goal(self._generator(i), self.plan, goal, places)
            if found is None:
                return False
            self.layout[i, goal] = found
        return True

    def _places(self, which: Any) -> Array:
        """[n, K, 2] current positions of all entries."""
        return self.physics.places(self.layout, which)

    def _scene(self, which: Any, pressed: NDArray[np.bool_] | None = None) -> rewards.Scene:
        """The inputs of this task's reward."""
        robot = self.physics.position[which]
        velocity = goal = box = self._nothing[: len(robot)]
        if self._reward.motion is not None:
            velocity = self.physics.velocity(which)
        if "goal" in self._slices:
            goal = self.layout[which, self._slices["goal"].start]
        if "push_box" in self._slices:
            box = self.physics.free_positions[which, 0]
            height = np.full((len(robot), 1), self.plan.z[self._slices["goal"].start])
            goal = np.concatenate((goal, height), 1)
        return rewards.Scene(robot, velocity, goal, box, pressed)

    def advance(self, action: NDArray[np.floating[Any]]) -> Outcome:
        """Ten substeps and a forward pass, then `assess`."""
        low, high = self.physics.control_range
        self.physics.integrate(np.minimum(np.maximum(action, low), high))
        self.physics.forward()
        return self.assess()

    def assess(self) -> Outcome:
        """Reward, costs, new goals and observation of the states as they are."""
        everyone = slice(None)
        self._pending += 1
        touched = self._touched()
        pressed = None
        if self.level.reward == "button":
            pressed = touched["buttons"][np.arange(self.num_envs), self.goal_button]
        scene = self._scene(everyone, pressed)
        distance = self._reward.distances(scene)
        self.goal_met = met = self._reward.reached(scene, distance)
        reward = (self.last - distance).sum(1) + met
        if self._reward.motion is not None:
            reward = reward + self._reward.motion(scene)
        bound = self.level.reward_bound
        self._costs = cost_terms.evaluate(self.level.penalties, self._situation(touched))
        self.timer = np.maximum(self.timer - 1, 0)
        self.last = distance
        terminated = self._renew_goals(np.flatnonzero(met))
        terminated |= self.physics.position[:, 2] <= self.robot.dies_below
        reward = np.minimum(np.maximum(reward, -bound), bound)
        return Outcome(self._observe(everyone), reward, self._costs, terminated)

    def _touched(self) -> dict[str, NDArray[np.bool_]]:
        if not self._contacts:
            return {}
        entries = len(self.plan.names)
        matrix = cost_terms.touching(self.physics.datas, self.physics.geom_entry, entries)
        return {name: matrix[:, where] for name, where in self._slices.items()}

    def _situation(self, touched: dict[str, NDArray[np.bool_]]) -> cost_terms.Situation:
        hazards = self._slices.get("hazards", slice(0, 0))
        return cost_terms.Situation(
            self.physics.position[:, :2],
            self.level.limits,
            self.layout[:, hazards],
            self._sizes.get("hazards", 0.0),
            self.physics.free_velocities,
            touched,
            self.goal_button,
            self.timer,
        )

    def _renew_goals(self, reached: Indices) -> NDArray[np.bool_]:
        """New goals where one was reached; True where no room was found for it."""
        stuck = np.zeros(self.num_envs, np.bool_)
        if not reached.size:
            return stuck
        places = self._places(reached)
        for i, around in zip(reached, places, strict=True):
            stuck[i] = not self.place_goal(i, around)
        self.last[reached] = self._reward.distances(self._scene(reached))
        if self.level.reward == "button":
            self.timer[reached] = TIMER
        return stuck

    def _observe(self, which: Any) -> Array:
        own = observe.own(self.robot, self.physics.sensors[which])
        position, rotation = self.physics.position[which], self.physics.rotation[which]
        rings = self.lidar.scan(self._places(which), position, rotation)
        if self.level.reward == "button":
            rings[self.timer[which] > 0, self.lidar.kinds.index("buttons")] = 0.0
        return np.concatenate((own, rings.reshape(len(own), -1)), 1)

    def info(self, index: int) -> dict[str, Any]:
        """The original's info entry at a reached goal; the caller adds costs."""
        return {"goal_met": True} if self.goal_met[index] else {}

    def save(self) -> dict[str, NDArray[Any]]:
        """States, layouts, goals, timers, generators."""
        for i in range(self.num_envs):
            self._generator(i)
        keys, positions = engine.mt19937_state(self._generators)
        return {
            "state": self.physics.states(),
            "layout": self.layout.copy(),
            "rotation": self.rotation.copy(),
            "goal_button": self.goal_button.copy(),
            "timer": self.timer.copy(),
            "last": self.last.copy(),
            "generator_key": keys,
            "generator_position": positions,
        }

    def load(self, saved: dict[str, NDArray[Any]]) -> None:
        """Write layouts into the models, then states into the simulators."""
        self._generators = engine.mt19937_from(saved["generator_key"], saved["generator_position"])
        self._pending[:] = 0
        self.layout, self.rotation = saved["layout"].copy(), saved["rotation"].copy()
        self.goal_button, self.timer = saved["goal_button"].copy(), saved["timer"].copy()
        self.last = saved["last"].copy()
        for i in range(self.num_envs):
            self.physics.write_layout(i, self.layout[i], self.rotation[i], None)
        self.physics.set_states(saved["state"])
