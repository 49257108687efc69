# SPDX-License-Identifier: Apache-2.0
"""Racecar: rear-wheel drive, steered in front, about two kilograms.

The body tree is kept as published, with its many rigid parts: MuJoCo scales the softness of a
contact by an inverse weight of the body that owns the geom, so merging parts changes the motion.
Masses are explicit. Only the chassis' convex hull of the original's meshes takes part in physics.
"""

from math import cos, pi, sin
from typing import Any

from holdfast.envs.native.engine import mujoco
from holdfast.envs.native.worlds import parts

BLACK = [0.1, 0.1, 0.1, 1.0]
FILLER = (0.04411, 0.02467, 0.02467)
FRAME = (0.5, 0.5, -0.5, 0.5)
QUARTER = (0.707105, 0.707108, 0, 0)
LOCK = 0.785


def chassis_hull() -> list[float]:
    """Vertices of the chassis: a prism over a rounded outline, and four stub axles."""
    side = [
        (-0.04, 0.07), (-0.03848, 0.07765), (-0.03414, 0.08414), (-0.02765, 0.08848),
        (-0.02, 0.09), (0.235, 0.09), (0.24265, 0.08848), (0.35265, 0.05848),
        (0.35914, 0.05414), (0.36348, 0.04765), (0.365, 0.04),
    ]  # fmt: skip
    points = [(x, sign * y, z) for x, y in side for sign in (1, -1) for z in (-0.03, 0.03)]
    for x in (0.0, 0.325):
        for y in (-0.1, 0.1):
            turns = [2 * pi * k / 12 for k in range(12)]
            points += [(x + 0.005 * cos(turn), y, 0.005 * sin(turn)) for turn in turns]
    return [coordinate for point in points for coordinate in point]


def add_hull(spec: Any) -> None:
    """Let the chassis collide: needed where there is something as high as it to hit."""
    spec.add_mesh(name="chassis", uservert=chassis_hull())
    body = next(body for body in spec.bodies if body.name == "chassis")
    parts.geom(body, parts.MESH, meshname="chassis", density=0, rgba=parts.RED)
    for wheel in ("left_front_wheel", "right_front_wheel"):
        spec.add_exclude(bodyname1="chassis", bodyname2=wheel)


def front_wheel(carrier: Any, name: str, sign: int) -> None:
    """A steered knuckle and the wheel that rolls on it; sign +1 is left."""
    knuckle = parts.child(carrier, f"{name}_knuckle", (0.325, 0.1 * sign, 0))
    knuckle.quat = [0.707105, 0, 0.707108, 0]
    parts.inertia(knuckle, 0.1, (4e-6,) * 3)
    parts.joint(knuckle, f"{name}_steering", parts.HINGE, (-1, 0, 0), range=[-LOCK, LOCK])
    wheel = parts.child(knuckle, f"{name}_front_wheel", quat=list(QUARTER))
    z = -0.0225 * sign
    parts.inertia(wheel, 0.34055, (4.1226e-4, 2.6046e-4, 2.6046e-4), (0, 0, z), FRAME)
    parts.joint(wheel, f"{name}_front_wheel", parts.HINGE, (0, 0, -1))
    parts.geom(wheel, parts.CYLINDER, (0.05, 0.0225), pos=[0, 0, z], rgba=BLACK)


def rear_wheel(axle: Any, name: str, sign: int) -> None:
    """Fixed to the axle: both rear wheels turn together."""
    wheel = parts.child(axle, f"{name}_rear_wheel")
    com = (0, 0.105201 * sign, 7.09759e-8 * sign)
    parts.inertia(wheel, 0.39655, (0.0450921, 0.0256521, 0.0250823), com, FRAME)
    pos = [0, 0.1225 * sign, 8.26471e-8 * sign]
    parts.geom(wheel, parts.CYLINDER, (0.05, 0.0225), pos=pos, quat=list(QUARTER), rgba=BLACK)


def add_fillers(carrier: Any, name: str, turns: tuple[int, ...]) -> None:
    """Rigid pieces of 56 g, turned by a quarter to either side or not at all."""
    for i, turn in enumerate(turns):
        quat = [0.707107, 0, 0, 0.707106 * turn] if turn else [1, 0, 0, 0]
        filler = parts.child(carrier, f"{name}_filler_{i}", quat=quat)
        parts.inertia(filler, 0.056, FILLER, (0, 0, 0), FRAME)


def build(spec: Any, root: Any) -> None:
    """The vehicle without its hull; see `add_hull`."""
    root.add_freejoint(name="agent")
    carrier = parts.child(root, "carrier", (-0.16, 0, 0))
    size, pos = (0.0165, 0.0875, 0.015), [0.39, 0, 0.04]
    parts.geom(carrier, parts.BOX, size, pos=pos, density=5, rgba=parts.RED)
    chassis = parts.child(carrier, "chassis")
    parts.inertia(
        chassis,
        0.017605537618291808,
        (2.706324171671688e-4, 2.385001307776043e-4, 4.125453652032671e-5),
        (0.15557992747876107, -0.0003826658731145229, 6.812385950941158e-10),
        (0.001766899788279318, 0.7071045736417905, -0.001766899788279318, 0.7071045736417905),
    )
    front_wheel(carrier, "left", 1)
    front_wheel(carrier, "right", -1)
    rear = parts.child(carrier, "rear_carrier")
    parts.inertia(rear, 0.0637, FILLER, (0, 0, 0), FRAME)
    quat = [0.707107, 0.707106, 0, 0]
    parts.geom(rear, parts.CYLINDER, (0.025, 0.005), pos=[0, 0.025, 0], quat=quat, rgba=BLACK)
    add_fillers(rear, "rear", (1, -1))
    axle = parts.child(rear, "axle")
    parts.joint(axle, "drive", parts.HINGE, (0, 1, 0))
    rear_wheel(axle, "left", 1)
    rear_wheel(axle, "right", -1)
    front = parts.child(carrier, "front_carrier", (0.32, 0, 0))
    parts.inertia(front, 0.0637, FILLER, (0, 0, 0), FRAME)
    add_fillers(front, "front", (1, -1, 0, 0))
    ends = ("left_steering", "right_steering")
    parts.equality(spec, mujoco.mjtEq.mjEQ_JOINT, parts.OBJECTS.mjOBJ_JOINT, ends, (0, 1))
    parts.actuator(spec, "drive", parts.AT_JOINT, 1, control=20, force=1, servo=(0, 0, -1))
    parts.actuator(
        spec, "left_steering", parts.AT_JOINT, 1, control=LOCK, force=1, servo=(0, -1, 0)
    )
