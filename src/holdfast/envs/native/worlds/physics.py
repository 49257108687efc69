# SPDX-License-Identifier: Apache-2.0
"""The simulators of a navigation batch: models, states, substeps and readings.

Two models of each world differ in one flag: sensors are switched off while substeps run and on in
the forward pass after them. If the integrator allows, the next step reuses that forward pass:
positions and velocities are unchanged, so its first substep begins at the forces.
"""

import copy
from typing import Any

import numpy as np

from holdfast.envs.native import engine
from holdfast.envs.native.engine import Data, Model, mujoco
from holdfast.envs.native.simulation import Array, Indices
from holdfast.envs.native.worlds import cost_terms, world
from holdfast.envs.native.worlds.layout import Plan
from holdfast.envs.native.worlds.robots import ROBOTS
from holdfast.envs.native.worlds.tasks import Kind, Level

SUBSTEPS = 10
ORBIT = 0.35
"""Radius of a gremlin's way around its place."""
TARGET_HEIGHT = 0.1


def body_id(model: Model, name: str) -> int:
    """The index of a body."""
    return int(mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_BODY, name))


def entries_of(plan: Plan, kinds: list[Kind]) -> list[int]:
    """Layout entries of these kinds, in order."""
    return [i for kind in kinds for i in range(len(plan.names))[plan.slices[kind.name]]]


def about_z(angle: Array) -> Array:
    """Quaternions [n, 4] of rotations about the vertical."""
    zero = np.zeros_like(angle)
    return np.stack((np.cos(angle / 2), zero, zero, np.sin(angle / 2)), -1)


class Physics:
    """N worlds of one task."""

    def __init__(self, robot: str, level: Level, plan: Plan, num_envs: int) -> None:
        self._robot, self._level, self._plan = ROBOTS[robot], level, plan
        model = world.build(robot, level)
        self._index(model)
        lean = without_sensors(model)
        several = num_envs if self._layout_in_model else 1
        full_models = [model, *[copy.copy(model) for _ in range(several - 1)]]
        lean_models = [lean, *[copy.copy(lean) for _ in range(several - 1)]]
        repeat = num_envs // several
        self.full, self.lean = full_models * repeat, lean_models * repeat
        self.datas = [mujoco.MjData(model) for _ in range(num_envs)]
        self._controls = [data.ctrl for data in self.datas]
        self._targets = [data.mocap_pos for data in self.datas]
        self.control_range: Array = model.actuator_ctrlrange.T.copy()
        self._views = [self._views_of(data) for data in self.datas]
        self._all_views = [view for views in self._views for view in views]
        sizes = [view.size for view in self._views[0]]
        self._rows = np.zeros((num_envs, sum(sizes)))
        self._flat = self._rows.reshape(-1)
        blocks = np.split(self._rows, np.cumsum(sizes)[:-1], axis=1)
        self.sensors, self.rotation, self.position, free, velocities, self._root_velocity = blocks
        self.free_positions = free.reshape(num_envs, -1, 3)
        """[N, F, 3] free bodies in layout order."""
        self.free_velocities = velocities.reshape(num_envs, -1, 6)[:, :, :3]
        self._heading = np.zeros((num_envs, 2))

    def _index(self, model: Model) -> None:
        """Look up all indices in the model by name, once."""
        level, root = self._level, body_id(model, "agent")
        moving = [kind for kind in level.kinds if kind.motion != "static"]
        solid = [kind for kind in level.kinds if kind.motion == "static" and kind.collides]
        self._root = root
        names = [name for kind in moving for name in world.object_names(kind)]
        self._free = [body_id(model, name) for name in names]
        self._free_entries = entries_of(self._plan, moving)
        self._gremlins = entries_of(self._plan, [k for k in moving if k.motion == "gremlin"])
        statics = [name for kind in solid for name in world.object_names(kind)]
        self._solid = [body_id(model, name) for name in statics]
        self._solid_entries = entries_of(self._plan, solid)
        self._welds = np.flatnonzero(model.eq_type == int(mujoco.mjtEq.mjEQ_WELD))
        self._layout_in_model = bool(self._gremlins or self._solid or not self._robot.free)
        joints = [int(model.body_jntadr[body]) for body in self._free]
        self._free_qpos = [int(model.jnt_qposadr[joint]) for joint in joints]
        self._free_dofs = [int(model.jnt_dofadr[joint]) for joint in joints]
        self._hinges = [int(adr) for adr in model.jnt_qposadr[model.actuator_trnid[:, 0]]]
        owner = np.full(model.nbody, cost_terms.NOTHING, np.int64)
        owner[self._free] = self._free_entries
        owner[self._solid] = self._solid_entries
        owner[model.body_rootid == root] = cost_terms.ROBOT
        owner[0] = cost_terms.NOTHING
        self.geom_entry = owner[model.geom_bodyid]
        """[geoms] the layout entry that owns each geom, or `ROBOT`, or `NOTHING`."""
        self._forward_serves_next = not self._robot.runge_kutta and not self._gremlins

    def _views_of(self, data: Data) -> list[Array]:
        root, free = self._root, self._free
        bodies = data.xpos[free[0] : free[-1] + 1] if free else data.xpos[:0]
        dofs = slice(self._free_dofs[0], self._free_dofs[-1] + 6) if free else slice(0, 0)
        return [
            data.sensordata, data.xmat[root], data.xpos[root],
            bodies.reshape(-1), data.qvel[dofs], data.qvel[:2],
        ]  # fmt: skip

    def velocity(self, which: Any) -> Array:
        """[n, 2] velocity of the root's origin in the world."""
        speed = self._root_velocity[which]
        if self._robot.free:
            return speed
        c, s = self._heading[which].T
        return np.stack((c * speed[:, 0] - s * speed[:, 1], s * speed[:, 0] + c * speed[:, 1]), 1)

    def places(self, layout: Array, which: Any) -> Array:
        """[n, K, 2] the layout with the current positions of moving objects."""
        places = layout[which].copy()
        places[:, 0] = self.position[which][:, :2]
        if self._free:
            places[:, self._free_entries[0] :] = self.free_positions[which][:, :, :2]
        return places

    def integrate(self, control: Array) -> None:
        """Hold the controls for ten substeps."""
        if self._gremlins:
            self._integrate_with_gremlins(control)
            return
        step, finish = mujoco.mj_step, mujoco.mj_step2
        worlds = zip(self.lean, self.datas, self._controls, control, strict=True)
        if self._forward_serves_next:
            for model, data, held, row in worlds:
                held[:] = row
                finish(model, data)
                step(model, data, SUBSTEPS - 1)
        else:
            for model, data, held, row in worlds:
                held[:] = row
                step(model, data, SUBSTEPS)

    def _integrate_with_gremlins(self, control: Array) -> None:
        """All gremlins of a world follow one target, moved before each substep."""
        step, timestep = mujoco.mj_step, self._robot.timestep
        start = np.array([data.time for data in self.datas])
        increments = np.full((len(start), SUBSTEPS), timestep)
        increments[:, 0] = start
        time = np.add.accumulate(increments, axis=1)
        height = np.full_like(time, TARGET_HEIGHT)
        path = np.stack((ORBIT * np.sin(time), ORBIT * np.cos(time), height), 2)
        worlds = zip(
            self.lean, self.datas, self._controls, self._targets, control, path, strict=True
        )
        for model, data, held, target, row, way in worlds:
            held[:] = row
            for point in way:
                target[:] = point
                step(model, data)

    def forward(self, which: Indices | None = None) -> None:
        """Refresh derived quantities and sensors, and read them."""
        if which is None:
            for model, data in zip(self.full, self.datas, strict=True):
                mujoco.mj_forward(model, data)
            np.concatenate(self._all_views, out=self._flat)
            return
        for i in which:
            mujoco.mj_forward(self.full[i], self.datas[i])
            np.concatenate(self._views[i], out=self._rows[i])

    def write_layout(self, i: int, places: Array, angles: Array, noise: Array | None) -> None:
        """Place all objects of world i, at rest; `noise` moves the joints of `rest`."""
        turns = about_z(angles)
        positions = np.concatenate((places, self._plan.z[:, None]), 1)
        self._heading[i] = np.cos(angles[0]), np.sin(angles[0])
        for model in (self.full[i], self.lean[i]):
            self._write_model(model, positions, turns)
        data = self.datas[i]
        mujoco.mj_resetData(self.full[i], data)
        if self._robot.free:
            data.qpos[:7] = *positions[0], *turns[0]
        for start, entry in zip(self._free_qpos, self._free_entries, strict=True):
            data.qpos[start : start + 7] = *positions[entry], *turns[entry]
        if noise is not None:
            for joint, (sign, angle), shift in zip(
                self._hinges, self._robot.rest, noise, strict=False
            ):
                data.qpos[joint] = sign * (angle + shift)

    def _write_model(self, model: Model, positions: Array, turns: Array) -> None:
        if not self._layout_in_model:
            return
        if not self._robot.free:
            model.body_pos[self._root], model.body_quat[self._root] = positions[0], turns[0]
        if self._solid:
            model.body_pos[self._solid] = positions[self._solid_entries]
            model.body_quat[self._solid] = turns[self._solid_entries]
        if self._gremlins:
            model.eq_data[self._welds, 3:6] = positions[self._gremlins]
            model.eq_data[self._welds, 6:10] = turns[self._gremlins]

    def states(self) -> Array:
        """[N, S] the integrators' full states."""
        return engine.get_states(self.full, self.datas)

    def set_states(self, states: Array) -> None:
        """Continue from `states`, derived quantities refreshed.

        Older engines let a forward pass touch the solver's warm start, so states are set again.
        """
        engine.set_states(self.full, self.datas, states)
        self.forward()
        engine.set_states(self.full, self.datas, states)


def without_sensors(model: Model) -> Model:
    """A copy that computes no sensors."""
    lean = copy.copy(model)
    lean.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_SENSOR)
    return lean
