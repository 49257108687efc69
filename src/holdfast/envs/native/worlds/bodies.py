# SPDX-License-Identifier: Apache-2.0
"""The bodies of the five navigation robots, each added to a root: joints, geoms, actuators.

Racecar's body tree is kept as published, with its many rigid parts. MuJoCo scales the softness of a
contact by an inverse weight of the geom's body, so merging parts changes the motion. Its masses are
explicit. Only the chassis' convex hull of the original's meshes takes part in physics. Ant is not
Gymnasium's: it is a tenth of the size and has its own masses and ranges.
"""

from math import cos, pi, sin
from typing import Any

from holdfast.envs.native.engine import mujoco
from holdfast.envs.native.worlds import elements

RED = [0.7412, 0.0431, 0.1843, 1.0]
BLACK = [0.1, 0.1, 0.1, 1.0]


def build_point(spec: Any, root: Any) -> None:
    """A ball that slides and turns, with a nose; pushed at its site, turned by a servo."""
    elements.joint(root, "x", elements.SLIDE, (1, 0, 0), damping=0.01)
    elements.joint(root, "y", elements.SLIDE, (0, 1, 0), damping=0.01)
    elements.joint(root, "z", elements.HINGE, (0, 0, 1), damping=0.005)
    friction = [1, 0.01, 0.01]
    elements.geom(root, elements.SPHERE, (0.1,), friction=friction, density=1, rgba=RED)
    elements.geom(root, elements.BOX, (0.05,) * 3, pos=[0.1, 0, 0], density=1, rgba=RED)
    elements.actuator(spec, "agent", elements.AT_SITE, 0.3, force=0.05)
    elements.actuator(spec, "z", elements.IN_PARENT, 0.3, force=0.05, servo=(0, 0, -1))


CAR_BOXES = (
    ((0.1, 0.1, 0.05), (0, 0, 0)),
    ((0.1, 0.01, 0.05), (0, 0.15, 0)),
    ((0.01, 0.025, 0.03), (0, 0.125, 0)),
    ((0.05, 0.01, 0.05), (0, -0.165, 0)),
    ((0.05, 0.03, 0.01), (0, -0.13, 0.04)),
)


def build_car(spec: Any, root: Any) -> None:
    """Two driven wheels and a caster; it drives towards its own -y."""
    root.add_freejoint(name="agent")
    for size, pos in CAR_BOXES:
        elements.geom(root, elements.BOX, size, pos=list(pos), density=5, rgba=RED)
    for name, sign in (("left", -1), ("right", 1)):
        wheel = elements.child(root, name, (0.1 * sign, 0.1, -0.05))
        elements.joint(wheel, name, elements.HINGE, (1, 0, 0))
        inner, outer = sorted((0.005 * sign, 0.055 * sign))
        ends = [inner, 0, 0, outer, 0, 0]
        elements.geom(wheel, elements.CYLINDER, (0.05,), fromto=ends, density=5, rgba=RED)
        elements.actuator(spec, name, elements.IN_PARENT, 1.0, force=0.02)
    caster = elements.child(root, "rear", (0, -0.1, -0.05))
    elements.joint(caster, "rear", elements.BALL)
    elements.geom(caster, elements.SPHERE, (0.05,), density=5, rgba=RED)


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
    """Let the chassis collide: needed only with objects of its height."""
    spec.add_mesh(name="chassis", uservert=chassis_hull())
    body = next(body for body in spec.bodies if body.name == "chassis")
    elements.geom(body, elements.MESH, meshname="chassis", density=0, rgba=RED)
    for wheel in ("left_front_wheel", "right_front_wheel"):
        spec.add_exclude(bodyname1="chassis", bodyname2=wheel)


def front_wheel(carrier: Any, name: str, sign: int) -> None:
    """A steered knuckle and the wheel that rolls on it; sign +1 is left."""
    knuckle = elements.child(carrier, f"{name}_knuckle", (0.325, 0.1 * sign, 0))
    knuckle.quat = [0.707105, 0, 0.707108, 0]
    elements.inertia(knuckle, 0.1, (4e-6,) * 3)
    elements.joint(knuckle, f"{name}_steering", elements.HINGE, (-1, 0, 0), range=[-LOCK, LOCK])
    wheel = elements.child(knuckle, f"{name}_front_wheel", quat=list(QUARTER))
    z = -0.0225 * sign
    elements.inertia(wheel, 0.34055, (4.1226e-4, 2.6046e-4, 2.6046e-4), (0, 0, z), FRAME)
    elements.joint(wheel, f"{name}_front_wheel", elements.HINGE, (0, 0, -1))
    elements.geom(wheel, elements.CYLINDER, (0.05, 0.0225), pos=[0, 0, z], rgba=BLACK)


def rear_wheel(axle: Any, name: str, sign: int) -> None:
    """Fixed to the axle: both rear wheels turn together."""
    wheel = elements.child(axle, f"{name}_rear_wheel")
    com = (0, 0.105201 * sign, 7.09759e-8 * sign)
    elements.inertia(wheel, 0.39655, (0.0450921, 0.0256521, 0.0250823), com, FRAME)
    pos = [0, 0.1225 * sign, 8.26471e-8 * sign]
    elements.geom(wheel, elements.CYLINDER, (0.05, 0.0225), pos=pos, quat=list(QUARTER), rgba=BLACK)


def add_fillers(carrier: Any, name: str, turns: tuple[int, ...]) -> None:
    """Rigid pieces of 56 g, turned by a quarter to either side or not at all."""
    for i, turn in enumerate(turns):
        quat = [0.707107, 0, 0, 0.707106 * turn] if turn else [1, 0, 0, 0]
        filler = elements.child(carrier, f"{name}_filler_{i}", quat=quat)
        elements.inertia(filler, 0.056, FILLER, (0, 0, 0), FRAME)


def build_racecar(spec: Any, root: Any) -> None:
    """Rear-wheel drive, steered in front, about two kilograms; without its hull (`add_hull`)."""
    root.add_freejoint(name="agent")
    carrier = elements.child(root, "carrier", (-0.16, 0, 0))
    size, pos = (0.0165, 0.0875, 0.015), [0.39, 0, 0.04]
    elements.geom(carrier, elements.BOX, size, pos=pos, density=5, rgba=RED)
    chassis = elements.child(carrier, "chassis")
    elements.inertia(
        chassis,
        0.017605537618291808,
        (2.706324171671688e-4, 2.385001307776043e-4, 4.125453652032671e-5),
        (0.15557992747876107, -0.0003826658731145229, 6.812385950941158e-10),
        (0.001766899788279318, 0.7071045736417905, -0.001766899788279318, 0.7071045736417905),
    )
    front_wheel(carrier, "left", 1)
    front_wheel(carrier, "right", -1)
    rear = elements.child(carrier, "rear_carrier")
    elements.inertia(rear, 0.0637, FILLER, (0, 0, 0), FRAME)
    quat = [0.707107, 0.707106, 0, 0]
    elements.geom(rear, elements.CYLINDER, (0.025, 0.005), pos=[0, 0.025, 0], quat=quat, rgba=BLACK)
    add_fillers(rear, "rear", (1, -1))
    axle = elements.child(rear, "axle")
    elements.joint(axle, "drive", elements.HINGE, (0, 1, 0))
    rear_wheel(axle, "left", 1)
    rear_wheel(axle, "right", -1)
    front = elements.child(carrier, "front_carrier", (0.32, 0, 0))
    elements.inertia(front, 0.0637, FILLER, (0, 0, 0), FRAME)
    add_fillers(front, "front", (1, -1, 0, 0))
    ends = ("left_steering", "right_steering")
    elements.equality(spec, mujoco.mjtEq.mjEQ_JOINT, elements.OBJECTS.mjOBJ_JOINT, ends, (0, 1))
    elements.actuator(spec, "drive", elements.AT_JOINT, 1, control=20, force=1, servo=(0, 0, -1))
    elements.actuator(
        spec, "left_steering", elements.AT_JOINT, 1, control=LOCK, force=1, servo=(0, -1, 0)
    )


CORNERS = ((1, 1), (-1, 1), (-1, -1), (1, -1))
ANT_HINGES = tuple(f"{part}_{leg}" for leg in (1, 2, 3, 4) for part in ("hip", "ankle"))
ANT_REST = tuple((-1 if i in (3, 5) else 1, pi / 2 if i % 2 else 0.0) for i in range(8))


def build_ant(spec: Any, root: Any) -> None:
    """A ball with four legs of three capsules; hips turn about z, ankles about a diagonal."""
    root.add_freejoint(name="agent")
    elements.geom(root, elements.SPHERE, (0.0625,), density=5, rgba=RED)
    strong: dict[str, Any] = {"armature": 1, "damping": 1}

    def limb(body: Any, x: float, y: float) -> None:
        ends = [0, 0, 0, x, y, 0]
        elements.geom(body, elements.CAPSULE, (0.02,), fromto=ends, density=5, rgba=RED)

    for leg, (sx, sy) in enumerate(CORNERS, 1):
        fixed = elements.child(root, f"leg_{leg}")
        limb(fixed, 0.05 * sx, 0.05 * sy)
        thigh = elements.child(fixed, f"thigh_{leg}", (0.05 * sx, 0.05 * sy, 0))
        elements.joint(thigh, f"hip_{leg}", elements.HINGE, (0, 0, 1), range=[-0.7, 0.7], **strong)
        limb(thigh, 0.05 * sx, 0.05 * sy)
        shank = elements.child(thigh, f"shank_{leg}", (0.05 * sx, 0.05 * sy, 0))
        axis = (-1 if leg in (1, 3) else 1, 1, 0)
        span = [0.52, 1.74] if leg in (1, 4) else [-1.74, -0.52]
        elements.joint(shank, f"ankle_{leg}", elements.HINGE, axis, range=span, **strong)
        limb(shank, 0.1 * sx, 0.1 * sy)
    for name in ANT_HINGES:
        elements.actuator(spec, name, elements.AT_JOINT, 150)


DOGGO_FEET = tuple(f"ankle_{leg}{end}" for end in "ab" for leg in (1, 2, 3, 4))
DOGGO_HINGES = tuple(
    f"{joint}_{leg}" for joint in ("hip_z", "hip_y", "ankle") for leg in (1, 2, 3, 4)
)
SPRINGY: dict[str, Any] = {"stiffness": 1e-4, "armature": 5e-5, "damping": 0}


def doggo_leg(trunk: Any, leg: int) -> None:
    """Shoulder, thigh and shank; front legs are 1 and 4, left legs 1 and 2."""
    sx, sy = CORNERS[leg - 1]

    def limb(body: Any, start: tuple[float, ...], end: tuple[float, ...]) -> None:
        ends = [*start, *end]
        elements.geom(body, elements.CAPSULE, (0.016,), fromto=ends, density=20, rgba=RED)

    shoulder = elements.child(trunk, f"leg_{leg}")
    limb(shoulder, (0.05 * sx, 0, 0), (0.1 * sx, 0.05 * sy, 0))
    thigh = elements.child(shoulder, f"thigh_{leg}", (0.1 * sx, 0.05 * sy, 0))
    span = [-0.174533, 0.523599]
    elements.joint(thigh, f"hip_z_{leg}", elements.HINGE, (0, 0, sy), range=span, **SPRINGY)
    span, rest = ([-1.308998, 0.2618], -0.174533) if sx > 0 else ([0, 2.356196], 0.0)
    elements.joint(
        thigh, f"hip_y_{leg}", elements.HINGE, (0, 1, 0), range=span, springref=rest, **SPRINGY
    )
    knee = (0.049, 0.0283 * sy, -0.025)
    limb(thigh, (0, 0, 0), knee)
    shank = elements.child(thigh, f"shank_{leg}", knee)
    axis, span = (-0.5 * sy, 0.866, 0), [-1.308998, 0]
    elements.joint(
        shank, f"ankle_{leg}", elements.HINGE, axis, range=span, springref=-0.349066, **SPRINGY
    )
    foot = (-0.0588, -0.0339 * sy, -0.05)
    limb(shank, (0, 0, 0), foot)
    for end, pos in (("a", (0, 0, 0)), ("b", foot)):
        shank.add_site(name=f"ankle_{leg}{end}", pos=list(pos), size=[0.018] * 3)


def build_doggo(spec: Any, root: Any) -> None:
    """Two trunks joined by a passive waist, two legs on each."""
    root.add_freejoint(name="agent")
    ends = [0, 0, 0, 0.1, 0, 0]
    elements.geom(root, elements.CYLINDER, (0.0375,), fromto=ends, density=2, rgba=RED)
    doggo_leg(root, 1)
    doggo_leg(root, 4)
    rear = elements.child(root, "rear_trunk")
    span = [-0.523599, 0.523599]
    elements.joint(rear, "waist", elements.HINGE, (1, 0, 0), range=span, **SPRINGY)
    ends = [-0.1, 0, 0, 0, 0, 0]
    elements.geom(rear, elements.CYLINDER, (0.0375,), fromto=ends, density=2, rgba=RED)
    doggo_leg(rear, 2)
    doggo_leg(rear, 3)
    for name in DOGGO_HINGES:
        elements.actuator(spec, name, elements.AT_JOINT, 0.00625)
