# SPDX-License-Identifier: Apache-2.0
"""Pictures of an environment: a visible model with the state of the simulated one.

The simulators contain only bodies with physics. The rest is added here (goals, hazards, circles,
walls, sky, floor), coloured by kind, optionally with lidar rings above the robot.

MuJoCo chooses its OpenGL backend once, at import, from `MUJOCO_GL`. So that users need not set it,
a context of the first available backend is made here, at the first rendering.
"""

import importlib
import os
import sys
import warnings
from copy import copy
from math import pi
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.envs.native.batch.navigation import NavigationSimulation
from holdfast.envs.native.batch.velocity import VelocitySimulation
from holdfast.envs.native.engine import Model, mujoco
from holdfast.envs.native.simulation import Simulation
from holdfast.envs.native.worlds import observe, world
from holdfast.envs.native.worlds.physics import about_z, body_id

MAX_GEOMS = 2000
RING_RADIUS, RING_HEIGHT, RING_GAP, DOT = 0.18, 0.35, 0.07, 0.018


def _widen_floor(model: Model, factor: float = 100.0) -> None:
    """Draw the floor far larger, with the same pattern, as runners leave the original one."""
    planes = np.flatnonzero(model.geom_type == int(mujoco.mjtGeom.mjGEOM_PLANE))
    model.geom_size[planes, :2] *= factor
    materials = np.unique(model.geom_matid[planes])
    model.mat_texrepeat[materials[materials >= 0]] *= factor


class Stage:
    """A visible copy of one simulator."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        if isinstance(simulation, NavigationSimulation):
            self.model: Model = world.build(simulation.robot_name, simulation.level, visual=True)
        elif isinstance(simulation, VelocitySimulation):
            self.model = copy(simulation.model)
            _widen_floor(self.model)
        else:
            raise TypeError(f"cannot draw a {type(simulation).__name__}: pass a native simulation.")
        self.data = mujoco.MjData(self.model)

    def pose(self, index: int) -> None:
        """Copy the state of simulator `index`."""
        simulation = self.simulation
        if isinstance(simulation, NavigationSimulation):
            self.data.qpos[:] = simulation.physics.datas[index].qpos
            self._pose_statics(simulation, index)
        elif isinstance(simulation, VelocitySimulation):
            self.data.qpos[:] = simulation.datas[index].qpos
        mujoco.mj_forward(self.model, self.data)

    def _pose_statics(self, simulation: NavigationSimulation, index: int) -> None:
        plan, model = simulation.plan, self.model
        places = np.concatenate((simulation.layout[index], plan.z[:, None]), 1)
        turns = about_z(simulation.rotation[index])
        if not simulation.robot.free:
            root = body_id(model, "agent")
            model.body_pos[root], model.body_quat[root] = places[0], turns[0]
        for kind in simulation.level.kinds:
            if kind.motion == "static":
                where = plan.slices[kind.name]
                bodies = [body_id(model, name) for name in world.object_names(kind)]
                model.body_pos[bodies], model.body_quat[bodies] = places[where], turns[where]

    def camera(self) -> Any:
        """The camera: above the arena, behind a runner on a track, or beside one in the plane."""
        camera, simulation = mujoco.MjvCamera(), self.simulation
        camera.type = mujoco.mjtCamera.mjCAMERA_FREE
        if not isinstance(simulation, NavigationSimulation):
            view = (*self.data.xpos[1], 4.0, 90.0, -15.0)
        elif simulation.level.reward == "run":
            view = (*self.data.xpos[1], 2.5, -90.0, -30.0)
        else:
            view = (0.0, 0.0, 0.0, 2.1 * max(simulation.level.extent, 1.6) + 1.2, 90.0, -55.0)
        camera.lookat[:] = view[:3]
        camera.distance, camera.azimuth, camera.elevation = view[3:]
        return camera


def add_rings(scene: Any, simulation: NavigationSimulation, index: int) -> None:
    """Sixteen dots for each kind around the robot, the more opaque the nearer the object."""
    physics = simulation.physics
    position, rotation = physics.position[index], physics.rotation[index].reshape(3, 3)
    which = np.array([index])
    rings = simulation.lidar.scan(
        physics.places(simulation.layout, which), position[None], rotation.reshape(1, 9)
    )[0]
    colours = {kind.name: kind.colour for kind in simulation.level.kinds}
    for level, (kind, ring) in enumerate(zip(simulation.lidar.kinds, rings, strict=True)):
        for i, strength in enumerate(ring):
            if scene.ngeom >= scene.maxgeom:
                return
            angle = 2 * pi * (i + 0.5) / observe.BINS
            offset = rotation @ (RING_RADIUS * np.cos(angle), RING_RADIUS * np.sin(angle), 0.0)
            place = position + offset + (0, 0, RING_HEIGHT + RING_GAP * level)
            rgba = np.array([*colours[kind][:3], min(1.0, strength + 0.1)], np.float32)
            sphere, size = mujoco.mjtGeom.mjGEOM_SPHERE, np.full(3, DOT)
            mujoco.mjv_initGeom(
                scene.geoms[scene.ngeom], sphere, size, place, np.eye(3).reshape(-1), rgba
            )
            scene.ngeom += 1


class Painter:
    """Draws a stage into arrays, without a window."""

    def __init__(self, simulation: Simulation, width: int, height: int, rings: bool) -> None:
        self.stage, self._rings = Stage(simulation), rings
        model = self.stage.model
        model.vis.global_.offwidth = max(width, int(model.vis.global_.offwidth))
        model.vis.global_.offheight = max(height, int(model.vis.global_.offheight))
        self._rect = mujoco.MjrRect(0, 0, width, height)
        self._context = context(width, height)
        self._paint = mujoco.MjrContext(model, mujoco.mjtFontScale.mjFONTSCALE_100)
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN, self._paint)
        self._scene = mujoco.MjvScene(model, MAX_GEOMS)
        self._scene.flags[int(mujoco.mjtRndFlag.mjRND_SHADOW)] = False
        self._options = mujoco.MjvOption()

    def frame(self, index: int = 0) -> NDArray[np.uint8]:
        """[height, width, 3] of simulator `index`."""
        stage = self.stage
        stage.pose(index)
        self._context.make_current()
        everything = mujoco.mjtCatBit.mjCAT_ALL
        mujoco.mjv_updateScene(
            stage.model, stage.data, self._options, None, stage.camera(), everything, self._scene
        )
        if self._rings and isinstance(stage.simulation, NavigationSimulation):
            add_rings(self._scene, stage.simulation, index)
        pixels = np.empty((self._rect.height, self._rect.width, 3), np.uint8)
        mujoco.mjr_render(self._rect, self._scene, self._paint)
        mujoco.mjr_readPixels(pixels, None, self._rect, self._paint)
        return pixels[::-1].copy()

    def close(self) -> None:
        """Release the graphics memory."""
        self._paint.free()
        self._context.free()


class Window:
    """Draws a stage into MuJoCo's interactive viewer."""

    def __init__(self, simulation: Simulation) -> None:
        require_display()
        self.stage = Stage(simulation)
        self.stage.pose(0)
        viewer = importlib.import_module("mujoco.viewer")  # loads a window system
        self._viewer: Any = viewer.launch_passive(
            self.stage.model, self.stage.data, show_left_ui=False, show_right_ui=False
        )
        view, camera = self.stage.camera(), self._viewer.cam
        with self._viewer.lock():
            camera.distance, camera.azimuth = view.distance, view.azimuth
            camera.elevation, camera.lookat[:] = view.elevation, view.lookat
        self._seen = view.lookat.copy()

    def show(self) -> None:
        """Update the window; the camera follows a runner."""
        with self._viewer.lock():
            self.stage.pose(0)
            seen = self.stage.camera().lookat.copy()
            self._viewer.cam.lookat[:] += seen - self._seen
        self._seen = seen
        self._viewer.sync()

    def close(self) -> None:
        """Close the window."""
        self._viewer.close()


REMEDY = (
    "install a software renderer (Debian, Ubuntu: apt-get install libegl1, or libosmesa6) "
    "or set MUJOCO_GL to glfw, egl or osmesa"
)


def candidates() -> tuple[str, ...]:
    """Backends to try, in order; `MUJOCO_GL` is the user's choice."""
    chosen = os.environ.get("MUJOCO_GL", "").lower().strip()
    if chosen in ("glfw", "egl", "osmesa", "cgl"):
        return (chosen,)
    if sys.platform == "darwin":
        return ("cgl",)
    if sys.platform != "linux":
        return ("glfw",)
    shown = bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
    return ("glfw", "egl", "osmesa") if shown else ("egl", "osmesa")


def context(width: int, height: int) -> Any:
    """A current OpenGL context of at least this size."""
    reasons: list[str] = []
    for name in candidates():
        try:
            made = importlib.import_module(f"mujoco.{name}").GLContext(width, height)
            made.make_current()
        # drivers fail in every way there is: missing libraries, attributes, devices
        except Exception as error:
            reasons.append(f"{name}: {' '.join(str(error).split())[:80] or type(error).__name__}")
            _forget_platform()
        else:
            return made
    raise RuntimeError(
        f"rendering needs OpenGL and no backend could be opened ({'; '.join(reasons)}): {REMEDY}."
    )


def require_display() -> None:
    """Refuse to open a window without a display: the viewer would end the process."""
    try:
        glfw = importlib.import_module("glfw")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            shown = bool(glfw.init())
    except ImportError:
        shown = False
    if not shown:
        raise RuntimeError(
            "render_mode='human' needs a display and none could be opened: "
            "use render_mode='rgb_array', or set DISPLAY."
        )


def _forget_platform() -> None:
    """Undo the choice of a failed backend, which would keep the next one from loading."""
    if os.environ.get("PYOPENGL_PLATFORM") in ("egl", "osmesa"):
        del os.environ["PYOPENGL_PLATFORM"]
    for name in [name for name in sys.modules if name.split(".")[0] == "OpenGL"]:
        del sys.modules[name]
