# SPDX-License-Identifier: Apache-2.0
"""Ant and Doggo: four legs each, as small as the other navigation robots.

The navigation Ant is not Gymnasium's: it is a tenth of the size and has its own masses and ranges.
"""

from math import pi
from typing import Any

from holdfast.envs.native.worlds import parts

CORNERS = ((1, 1), (-1, 1), (-1, -1), (1, -1))
ANT_HINGES = tuple(f"{part}_{leg}" for leg in (1, 2, 3, 4) for part in ("hip", "ankle"))
ANT_REST = tuple((-1 if i in (3, 5) else 1, pi / 2 if i % 2 else 0.0) for i in range(8))


def build_ant(spec: Any, root: Any) -> None:
    """A ball with four legs of three capsules; hips turn about z, ankles about a diagonal."""
    root.add_freejoint(name="agent")
    parts.geom(root, parts.SPHERE, (0.0625,), density=5, rgba=parts.RED)
    strong: dict[str, Any] = {"armature": 1, "damping": 1}

    def limb(body: Any, x: float, y: float) -> None:
        ends = [0, 0, 0, x, y, 0]
        parts.geom(body, parts.CAPSULE, (0.02,), fromto=ends, density=5, rgba=parts.RED)

    for leg, (sx, sy) in enumerate(CORNERS, 1):
        fixed = parts.child(root, f"leg_{leg}")
        limb(fixed, 0.05 * sx, 0.05 * sy)
        thigh = parts.child(fixed, f"thigh_{leg}", (0.05 * sx, 0.05 * sy, 0))
        parts.joint(thigh, f"hip_{leg}", parts.HINGE, (0, 0, 1), range=[-0.7, 0.7], **strong)
        limb(thigh, 0.05 * sx, 0.05 * sy)
        shank = parts.child(thigh, f"shank_{leg}", (0.05 * sx, 0.05 * sy, 0))
        axis = (-1 if leg in (1, 3) else 1, 1, 0)
        span = [0.52, 1.74] if leg in (1, 4) else [-1.74, -0.52]
        parts.joint(shank, f"ankle_{leg}", parts.HINGE, axis, range=span, **strong)
        limb(shank, 0.1 * sx, 0.1 * sy)
    for name in ANT_HINGES:
        parts.actuator(spec, name, parts.AT_JOINT, 150)


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
        parts.geom(body, parts.CAPSULE, (0.016,), fromto=ends, density=20, rgba=parts.RED)

    shoulder = parts.child(trunk, f"leg_{leg}")
    limb(shoulder, (0.05 * sx, 0, 0), (0.1 * sx, 0.05 * sy, 0))
    thigh = parts.child(shoulder, f"thigh_{leg}", (0.1 * sx, 0.05 * sy, 0))
    span = [-0.174533, 0.523599]
    parts.joint(thigh, f"hip_z_{leg}", parts.HINGE, (0, 0, sy), range=span, **SPRINGY)
    span, rest = ([-1.308998, 0.2618], -0.174533) if sx > 0 else ([0, 2.356196], 0.0)
    parts.joint(
        thigh, f"hip_y_{leg}", parts.HINGE, (0, 1, 0), range=span, springref=rest, **SPRINGY
    )
    knee = (0.049, 0.0283 * sy, -0.025)
    limb(thigh, (0, 0, 0), knee)
    shank = parts.child(thigh, f"shank_{leg}", knee)
    axis, span = (-0.5 * sy, 0.866, 0), [-1.308998, 0]
    parts.joint(
        shank, f"ankle_{leg}", parts.HINGE, axis, range=span, springref=-0.349066, **SPRINGY
    )
    foot = (-0.0588, -0.0339 * sy, -0.05)
    limb(shank, (0, 0, 0), foot)
    for end, pos in (("a", (0, 0, 0)), ("b", foot)):
        shank.add_site(name=f"ankle_{leg}{end}", pos=list(pos), size=[0.018] * 3)


def build_doggo(spec: Any, root: Any) -> None:
    """Two trunks joined by a passive waist, two legs on each."""
    root.add_freejoint(name="agent")
    ends = [0, 0, 0, 0.1, 0, 0]
    parts.geom(root, parts.CYLINDER, (0.0375,), fromto=ends, density=2, rgba=parts.RED)
    doggo_leg(root, 1)
    doggo_leg(root, 4)
    rear = parts.child(root, "rear_trunk")
    span = [-0.523599, 0.523599]
    parts.joint(rear, "waist", parts.HINGE, (1, 0, 0), range=span, **SPRINGY)
    ends = [-0.1, 0, 0, 0, 0, 0]
    parts.geom(rear, parts.CYLINDER, (0.0375,), fromto=ends, density=2, rgba=parts.RED)
    doggo_leg(rear, 2)
    doggo_leg(rear, 3)
    for name in DOGGO_HINGES:
        parts.actuator(spec, name, parts.AT_JOINT, 0.00625)
