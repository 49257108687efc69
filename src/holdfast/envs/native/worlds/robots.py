# SPDX-License-Identifier: Apache-2.0
"""The five navigation robots as data: body, start, observation and termination.

Observations start with four inertial sensors at the robot's site, then its listed sensors.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from holdfast.envs.native.engine import mujoco
from holdfast.envs.native.worlds import bodies, elements
from holdfast.envs.native.worlds.tasks import LEVELS, Kind, Level


@dataclass(frozen=True)
class Robot:
    """A robot of the navigation worlds."""

    build: Callable[[Any, Any], None]
    """Adds joints, geoms, child bodies and actuators to (spec, root body)."""
    z: float
    """Height of the root at the start."""
    timestep: float
    runge_kutta: bool = False
    site: tuple[float, float, float] = (0.0, 0.0, 0.0)
    touch: tuple[str, ...] = ()
    """Sites with touch sensors."""
    hinges: tuple[str, ...] = ()
    """Hinges whose speed and (sin, cos) are observed."""
    ball: str = ""
    """Ball joint whose angular velocity and rotation matrix are observed."""
    attitude: bool = False
    """Height and world angular velocity of the site are observed."""
    free: bool = True
    """The root has a free joint: its pose is in qpos. Otherwise it is in the model."""
    dies_below: float = -float("inf")
    """Root height at or below which the episode terminates."""
    rest: tuple[tuple[float, float], ...] = ()
    """Per actuator at reset: the joint starts at sign·(angle + noise), given as (sign, angle)."""
    box: float = 0.2
    """Half-size of the box that this robot pushes."""
    box_density: float = 0.001
    box_keepout: float = 0.2


ROBOTS = {
    "Point": Robot(bodies.build_point, 0.1, 0.002, free=False),
    "Car": Robot(
        bodies.build_car, 0.1, 0.004, ball="rear", box=0.125, box_density=0.0005, box_keepout=0.125
    ),
    "Racecar": Robot(bodies.build_racecar, 0.05, 0.004, runge_kutta=True, site=(0.02, 0, 0)),
    "Doggo": Robot(
        bodies.build_doggo, 0.22, 0.01, touch=bodies.DOGGO_FEET, hinges=bodies.DOGGO_HINGES
    ),
    "Ant": Robot(
        bodies.build_ant, 0.18, 0.01, runge_kutta=True, site=(0, 0, -0.02),
        hinges=bodies.ANT_HINGES, attitude=True, dies_below=0.08, rest=bodies.ANT_REST,
    ),
}  # fmt: skip


def add_sensors(spec: Any, robot: Robot) -> None:
    """Everything observed of the robot, in the order of `observe`."""
    kinds, site, hinge = elements.SENSORS, elements.OBJECTS.mjOBJ_SITE, elements.OBJECTS.mjOBJ_JOINT
    for kind in ("ACCELEROMETER", "VELOCIMETER", "GYRO", "MAGNETOMETER"):
        elements.sensor(spec, getattr(kinds, f"mjSENS_{kind}"), "agent", site)
    for name in robot.touch:
        elements.sensor(spec, kinds.mjSENS_TOUCH, name, site)
    for name in robot.hinges:
        elements.sensor(spec, kinds.mjSENS_JOINTVEL, name, hinge)
    if robot.ball:
        elements.sensor(spec, kinds.mjSENS_BALLANGVEL, robot.ball, hinge)
    if robot.attitude:
        elements.sensor(spec, kinds.mjSENS_FRAMEPOS, "agent", site)
        elements.sensor(spec, kinds.mjSENS_FRAMEANGVEL, "agent", site)
    for name in robot.hinges:
        elements.sensor(spec, kinds.mjSENS_JOINTPOS, name, hinge)
    if robot.ball:
        elements.sensor(spec, kinds.mjSENS_BALLQUAT, robot.ball, hinge)


def integrator(robot: Robot) -> Any:
    """Euler, or Runge-Kutta of fourth order."""
    kinds = mujoco.mjtIntegrator
    return kinds.mjINT_RK4 if robot.runge_kutta else kinds.mjINT_EULER


def level_for(robot_name: str, level: str) -> Level:
    """The level for this robot: Car pushes a smaller, lighter box."""
    robot = ROBOTS[robot_name]

    def fit(kind: Kind) -> Kind:
        if kind.name != "push_box":
            return kind
        size = robot.box
        return replace(
            kind, size=(size,), z=size, density=robot.box_density, keepout=robot.box_keepout
        )

    world = LEVELS[level]
    return replace(world, kinds=tuple(fit(kind) for kind in world.kinds))
