# SPDX-License-Identifier: Apache-2.0
"""Elements of worlds for `MjSpec`: geoms, joints, actuators, sensors.

Each function adds one element with the defaults that all navigation worlds share, so that the
robots read like the tables that define them.
"""

from collections.abc import Sequence
from typing import Any

from holdfast.envs.native.engine import mujoco

Vector = Sequence[float]
SPHERE = mujoco.mjtGeom.mjGEOM_SPHERE
BOX = mujoco.mjtGeom.mjGEOM_BOX
CYLINDER = mujoco.mjtGeom.mjGEOM_CYLINDER
CAPSULE = mujoco.mjtGeom.mjGEOM_CAPSULE
PLANE = mujoco.mjtGeom.mjGEOM_PLANE
MESH = mujoco.mjtGeom.mjGEOM_MESH
HINGE = mujoco.mjtJoint.mjJNT_HINGE
SLIDE = mujoco.mjtJoint.mjJNT_SLIDE
BALL = mujoco.mjtJoint.mjJNT_BALL
SENSORS = mujoco.mjtSensor
OBJECTS = mujoco.mjtObj
CONDIM = 6


def geom(body: Any, kind: Any, size: Vector = (), **options: Any) -> Any:
    """A colliding geom; `fromto` gives capsules and cylinders by their end points."""
    padded = [*size, *[0.0] * (3 - len(size))]
    return body.add_geom(type=kind, size=padded, condim=CONDIM, **options)


def joint(body: Any, name: str, kind: Any, axis: Vector = (0, 0, 1), **options: Any) -> Any:
    """A joint; the default damping is the light one of all wheels."""
    settings: dict[str, Any] = {"damping": 0.001} | options
    if "range" in settings:
        settings["limited"] = mujoco.mjtLimited.mjLIMITED_TRUE
    return body.add_joint(name=name, type=kind, axis=list(axis), **settings)


def child(body: Any, name: str, pos: Vector = (0, 0, 0), **options: Any) -> Any:
    """A body fixed to, or moving on, its parent."""
    return body.add_body(name=name, pos=list(pos), **options)


def inertia(
    body: Any, mass: float, principal: Vector, com: Vector = (0, 0, 0), frame: Vector = (1, 0, 0, 0)
) -> None:
    """Explicit mass properties instead of those of the geoms."""
    body.explicitinertial = True
    body.mass, body.inertia = mass, list(principal)
    body.ipos, body.iquat = list(com), list(frame)


def equality(spec: Any, kind: Any, what: Any, names: tuple[str, str], data: Vector) -> Any:
    """A constraint between two bodies or joints; the room for its data grew between versions."""
    made = spec.add_equality(type=kind, objtype=what)
    made.name1, made.name2 = names
    made.data = [*data, *[0.0] * (len(made.data) - len(data))]
    return made


def actuator(spec: Any, target: str, transmission: Any, gear: float, **options: Any) -> Any:
    """A force proportional to the control; `servo` adds feedback of position or velocity."""
    feedback: Vector = options.pop("servo", ())
    limits: float = options.pop("force", 0.0)
    reach: float = options.pop("control", 1.0)
    drive = spec.add_actuator(target=target, trntype=transmission, **options)
    drive.gear = [gear, 0, 0, 0, 0, 0]
    drive.ctrllimited, drive.ctrlrange = mujoco.mjtLimited.mjLIMITED_TRUE, [-reach, reach]
    drive.gaintype = mujoco.mjtGain.mjGAIN_FIXED
    drive.gainprm = [1.0, *[0.0] * 9]
    if feedback:
        drive.biastype = mujoco.mjtBias.mjBIAS_AFFINE
        drive.biasprm = [*feedback, *[0.0] * (10 - len(feedback))]
    if limits:
        drive.forcelimited, drive.forcerange = mujoco.mjtLimited.mjLIMITED_TRUE, [-limits, limits]
    return drive


def sensor(spec: Any, kind: Any, target: str, what: Any) -> None:
    """A sensor of the site, joint or actuator called `target`."""
    spec.add_sensor(name=f"{kind.name}_{target}", type=kind, objtype=what, objname=target)


IN_PARENT = mujoco.mjtTrn.mjTRN_JOINTINPARENT
AT_JOINT = mujoco.mjtTrn.mjTRN_JOINT
AT_SITE = mujoco.mjtTrn.mjTRN_SITE
