# SPDX-License-Identifier: Apache-2.0
"""Velocity tasks: run forward below a threshold of speed.

    v = (p₁ − p₀) / dt,   r = w·vx + bonus − c·Σa²,   cost = 1[speed > threshold]

Six robots of Gymnasium's v4 generation with the model files that Gymnasium ships. The position p of
Ant and Humanoid is a derived quantity, which the integrator leaves one evaluation behind qpos. It
is never refreshed, because that lag is part of the published tasks.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from holdfast.envs.native import engine
from holdfast.envs.native.engine import Data, Model, mujoco
from holdfast.envs.native.simulation import Array, Indices, Outcome
from holdfast.envs.native.worlds.velocity_tasks import RUNNERS, Runner, VelocityTask

ASSETS = Path(gymnasium.__file__).parent / "envs" / "mujoco" / "assets"


def build(robot: Runner) -> Model:
    """The robot's model with contact distances as in the published tasks."""
    model = mujoco.MjModel.from_xml_path(str(ASSETS / robot.file))
    engine.correct_margins(model)
    return model


class VelocitySimulation:
    """N simulators of one velocity task; see `Simulation`."""

    action_dtype: type[np.floating[Any]] = np.float32
    cost_keys: tuple[str, ...] = ("cost_sum", "cost_velocity")

    def __init__(self, task: VelocityTask, num_envs: int) -> None:
        self.task, self.robot = task, RUNNERS[task.robot]
        self.num_envs, self.time_limit = num_envs, task.time_limit
        self.model = model = build(self.robot)
        self.datas = [mujoco.MjData(model) for _ in range(num_envs)]
        self._controls = [data.ctrl for data in self.datas]
        self._views = [self._views_of(data) for data in self.datas]
        self._all_views = [view for views in self._views for view in views]
        self._rows = np.empty((num_envs, sum(view.size for view in self._views[0])))
        self._flat = self._rows.reshape(-1)
        self.seconds_per_step: float = model.opt.timestep * self.robot.frame_skip
        self._weights = (model.body_mass / model.body_mass.sum())[:, None]
        self._generators = [np.random.default_rng(i) for i in range(num_envs)]
        self._place = np.zeros((num_envs, 2))
        self._velocity = np.zeros((num_envs, 2))
        self._control_cost = np.zeros(num_envs)
        size = self._observe(self._rows).shape[1]
        self.obs_low, self.obs_high = np.full(size, -np.inf), np.full(size, np.inf)
        self.action_low, self.action_high = model.actuator_ctrlrange.T.copy()

    @property
    def models(self) -> Sequence[Any]:
        return [self.model]

    def _views_of(self, data: Data) -> list[Array]:
        """The arrays that a step reads from one simulator, as flat views of its memory."""
        views: list[Array] = [data.qpos, data.qvel]
        if self.robot.dynamics:
            blocks = (data.cinert, data.cvel, data.qfrc_actuator, data.cfrc_ext)
            views += [block.reshape(-1) for block in blocks]
        if self.robot.position == "torso":
            views.append(data.xpos[1, :2])
        elif self.robot.position == "mass centre":
            views.append(data.xipos.reshape(-1))
        return views

    def _observe(self, rows: Array) -> Array:
        nq, nv, robot = self.model.nq, self.model.nv, self.robot
        if np.isfinite(robot.clip):
            velocities = np.clip(rows[:, nq : nq + nv], -robot.clip, robot.clip)
            return np.concatenate((rows[:, robot.hidden : nq], velocities), 1)
        width = nq + nv + (self.model.nbody * 22 + nv if robot.dynamics else 0)
        return rows[:, robot.hidden : width].copy()

    def _places(self, rows: Array) -> Array:
        """[n, 2] positions of the robots for the reward."""
        if self.robot.position == "torso":
            return rows[:, -2:].copy()
        if self.robot.position == "mass centre":
            centres = rows[:, -3 * self.model.nbody :].reshape(len(rows), -1, 3)
            return (centres[:, :, :2] * self._weights).sum(1)
        place = rows[:, :2].copy()
        if not self.robot.planar:
            place[:, 1] = 0.0
        return place

    def seed(self, seeds: NDArray[np.int64]) -> None:
        """The stream of `numpy.random.default_rng(seed)` for each simulator."""
        self._generators = [np.random.default_rng(int(seed)) for seed in seeds]

    def restart(self, which: Indices) -> Array:
        """Start from the initial pose plus noise, at exact derived positions."""
        for i in which:
            self._restart_one(self._generators[i], self.datas[i])
            np.concatenate(self._views[i], out=self._rows[i])
        rows = self._rows[which]
        self._place[which] = self._places(rows)
        return self._observe(rows)

    def _restart_one(self, generator: np.random.Generator, data: Data) -> None:
        model, scale = self.model, self.robot.noise
        mujoco.mj_resetData(model, data)
        data.qpos[:] += generator.uniform(-scale, scale, model.nq)
        if self.robot.normal_velocities:
            data.qvel[:] = scale * generator.standard_normal(model.nv)
        else:
            data.qvel[:] = generator.uniform(-scale, scale, model.nv)
        if self.robot.quaternion:  # MuJoCo did this itself until 3.2
            data.qpos[3:7] /= np.linalg.norm(data.qpos[3:7])
        mujoco.mj_forward(model, data)

    def advance(self, action: NDArray[np.floating[Any]]) -> Outcome:
        """Hold the controls for `frame_skip` steps; MuJoCo clamps them to their range."""
        self._integrate(action)
        np.concatenate(self._all_views, out=self._flat)
        return self.assess(action)

    def _integrate(self, action: NDArray[np.floating[Any]]) -> None:
        model, skip, step = self.model, self.robot.frame_skip, mujoco.mj_step
        for data, control, row in zip(self.datas, self._controls, action, strict=True):
            control[:] = row
            step(model, data, skip)
        if self.robot.dynamics:  # the observed contact forces
            for data in self.datas:
                mujoco.mj_rnePostConstraint(model, data)

    def assess(self, action: NDArray[np.floating[Any]]) -> Outcome:
        """Reward, cost and end of the gathered states, given the previous positions."""
        robot, rows, nq = self.robot, self._rows, self.model.nq
        place = self._places(rows)
        self._velocity = velocity = (place - self._place) / self.seconds_per_step
        self._place = place
        if robot.dynamics:  # the original squares the controls here, and they are doubles
            action = action.astype(np.float64)
        effort = np.square(action).sum(1).astype(np.float64)
        self._control_cost = robot.control_cost * effort
        reward = robot.forward * velocity[:, 0] + robot.bonus - self._control_cost
        speed = np.sqrt(np.square(velocity).sum(1)) if self.task.sideways else velocity[:, 0]
        cost = (speed > self.task.threshold).astype(np.float64)
        healthy = robot.healthy(rows[:, :nq], rows[:, nq : nq + self.model.nv])
        return Outcome(self._observe(rows), reward, cost[:, None].repeat(2, 1), ~healthy)

    def info(self, index: int) -> dict[str, Any]:
        """The names and values of the original."""
        (x, y), (vx, vy) = self._place[index], self._velocity[index]
        forward, control, bonus = self.robot.info
        entries: dict[str, Any] = {}
        if forward:
            entries |= {forward: self.robot.forward * vx, control: -self._control_cost[index]}
        if bonus:
            entries[bonus] = self.robot.bonus
        entries |= {"x_position": x, "x_velocity": vx}
        if self.robot.planar:
            entries |= {"y_position": y, "y_velocity": vy}
            entries["distance_from_origin"] = np.hypot(x, y)
            entries["forward_reward"] = self.robot.forward * vx
        return {name: float(value) for name, value in entries.items()}

    def save(self) -> dict[str, NDArray[Any]]:
        """States, generators and the lagging positions."""
        models = [self.model] * self.num_envs
        return {
            "state": engine.get_states(models, self.datas),
            "generator": engine.pcg64_state(self._generators),
            "place": self._place.copy(),
        }

    def load(self, saved: dict[str, NDArray[Any]]) -> None:
        """No forward pass follows: the next step computes everything it reads."""
        engine.set_states([self.model] * self.num_envs, self.datas, saved["state"])
        self._generators = engine.pcg64_from(saved["generator"])
        self._place = saved["place"].copy()
