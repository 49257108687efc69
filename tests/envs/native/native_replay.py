# SPDX-License-Identifier: Apache-2.0
"""Put recorded navigation states into a batch, one row in each environment."""

from typing import Any

import numpy as np

from holdfast.envs.native.batch.navigation import NavigationSimulation
from holdfast.envs.native.engine import mujoco
from holdfast.envs.native.worlds.physics import SUBSTEPS
from holdfast.envs.native.worlds.tasks import NAVIGATION_TASKS

Rows = dict[str, np.ndarray]


def rows_of(golden: dict[str, Any], prefix: str) -> Rows:
    """The rows of a group, with the layout that belongs to them."""
    rows = {key[2:]: value for key, value in golden.items() if key.startswith(prefix)}
    source = "s_layout_" if prefix == "s_" else "layout_"
    return rows | {f"layout_{key}": golden[source + key] for key in ("names", "xy", "rot")}


def batch_at(task: str, rows: Rows, stage: str = "") -> NavigationSimulation:
    """A batch in the states before the rows' steps, or in `next_` states after them."""
    robot, level = NAVIGATION_TASKS[task]
    batch = NavigationSimulation(robot, level, len(rows["qpos"]))
    order = [list(rows["layout_names"]).index(name) for name in batch.plan.names]
    layout = np.where(np.isnan(batch.plan.fixed), rows["layout_xy"][order], batch.plan.fixed)
    batch.layout[:], batch.rotation[:] = layout, rows["layout_rot"][order]
    if "goal_xyz" in rows:
        batch.layout[:, batch.plan.slices["goal"]] = rows["goal_xyz"][:, None, :2]
    if "timer" in rows:
        batch.timer[:], batch.goal_button[:] = rows["timer"], rows["goal_button"]
    distances = ("last_dist_goal", "last_dist_box", "last_box_goal")
    if "last_dist_box" in rows:
        distances = distances[1:]
    last = [rows[key] for key in distances if key in rows]
    batch.last = np.stack(last, 1) if last else np.zeros((len(rows["qpos"]), 0))
    if "rng_key" in rows:
        saved = batch.save() | {"generator_key": rows["rng_key"]}
        batch.load(saved | {"generator_position": rows["rng_pos"]})
    for i in range(batch.num_envs):
        batch.physics.write_layout(i, batch.layout[i], batch.rotation[i], None)
    write_states(batch, rows, stage)
    return batch


def write_states(batch: NavigationSimulation, rows: Rows, stage: str) -> None:
    """Simulator states, derived quantities included, the warm start as recorded."""
    low, high = batch.physics.control_range
    control = np.clip(rows["action"].astype(float), low, high) if stage else rows["ctrl"]
    for i, data in enumerate(batch.physics.datas):
        data.qpos[:], data.qvel[:] = rows[f"{stage}qpos"][i], rows[f"{stage}qvel"][i]
        data.time, data.ctrl[:] = rows[f"{stage}time"][i], control[i]
        data.qacc_warmstart[:] = rows["qacc_warmstart"][i]
        if "mocap_pos" in rows:
            data.mocap_pos[:] = rows[f"{stage}mocap_pos"][i]
    batch.physics.set_states(batch.physics.states())


def contact_class(batch: NavigationSimulation, rows: Rows) -> np.ndarray:
    """[N] the hardest pair of geoms in contact during the step.

    0 none, 1 spheres, 2 two boxes, 3 a cylinder, a mesh, or a sphere's centre inside a box.
    Contacts with the floor do not count. The batch is left as it was found.
    """
    classes = np.zeros(batch.num_envs, int)
    low, high = batch.physics.control_range
    control = np.clip(rows["action"].astype(float), low, high)
    for i, (model, data) in enumerate(zip(batch.physics.full, batch.physics.datas, strict=True)):
        data.ctrl[:] = control[i]
        for _ in range(SUBSTEPS):
            time = data.time
            if model.nmocap:
                data.mocap_pos[:] = 0.35 * np.sin(time), 0.35 * np.cos(time), 0.1
            classes[i] = max(classes[i], hardest(model, data))
            mujoco.mj_step(model, data)
        mujoco.mj_forward(model, data)
        classes[i] = max(classes[i], hardest(model, data))
    write_states(batch, rows, "")
    return classes


def hardest(model: Any, data: Any) -> int:
    """The class of the worst contact in the list."""
    geoms = data.contact.geom
    types = model.geom_type[geoms]
    apart = (types != int(mujoco.mjtGeom.mjGEOM_PLANE)).all(1)
    if not apart.any():
        return 0
    geoms, types, depth = geoms[apart], types[apart], -data.contact.dist[apart]
    sphere, box = int(mujoco.mjtGeom.mjGEOM_SPHERE), int(mujoco.mjtGeom.mjGEOM_BOX)
    inside = (types == sphere).any(1) & (depth > model.geom_size[geoms, 0].max(1))
    if inside.any() or not np.isin(types, (sphere, box)).all():
        return 3
    return 2 if (types == box).all(1).any() else 1
