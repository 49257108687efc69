# SPDX-License-Identifier: Apache-2.0
"""Navigation worlds in code: one compiled model for each task, changed in place.

The model contains only bodies with physics. Objects that never collide (goals, hazards, circles,
walls) are added only for rendering.
"""

from math import sqrt
from typing import Any

from holdfast.envs.native.engine import Model, mujoco
from holdfast.envs.native.worlds import bodies, elements
from holdfast.envs.native.worlds.robots import ROBOTS, add_sensors, integrator
from holdfast.envs.native.worlds.tasks import Kind, Level

SHAPES = {"sphere": elements.SPHERE, "box": elements.BOX, "cylinder": elements.CYLINDER}
TORQUE_SCALE = sqrt(150)
"""√(mass / inertia) of the gremlin cube: MuJoCo 3 weighs the rotation of a weld differently, and
with this factor a touched gremlin yields as it did before."""


def add_shape(body: Any, kind: Kind, rgba: list[float]) -> None:
    """Add the geoms of an object."""
    touch = {} if kind.collides else {"contype": 0, "conaffinity": 0}
    options: dict[str, Any] = {"density": kind.density, "rgba": rgba} | touch
    if kind.shape != "push box":
        elements.geom(body, SHAPES[kind.shape], kind.size, **options)
        return
    s = kind.size[0]
    elements.geom(body, elements.BOX, (s, s, s), **options)
    for x in (-s, s):
        for y in (-s, s):
            elements.geom(body, elements.BOX, (s / 2, s / 2, s), pos=[x, y, 0], **options)


def object_names(kind: Kind) -> list[str]:
    """Bodies of a kind, in order."""
    return [f"{kind.name}{i}" for i in range(kind.number)]


def add_objects(spec: Any, level: Level, visual: bool) -> None:
    """Free bodies, then gremlin targets, then static bodies: the order fixes qpos."""
    world = spec.worldbody
    for kind in level.kinds:
        if kind.motion != "static":
            for name in object_names(kind):
                body = elements.child(world, name, (0, 0, kind.z))
                body.add_freejoint(name=name)
                add_shape(body, kind, list(kind.colour))
    for kind in level.kinds:
        if kind.motion == "gremlin":
            for name in object_names(kind):
                elements.child(world, f"{name}_target", mocap=True)
                add_weld(spec, f"{name}_target", name)
    for kind in level.kinds:
        if kind.motion == "static" and (visual or kind.collides):
            for name in object_names(kind):
                add_shape(elements.child(world, name, (0, 0, kind.z)), kind, list(kind.colour))


def add_weld(spec: Any, target: str, body: str) -> None:
    """The gremlin follows its target; the relative pose is rewritten at each reset."""
    pose = (0, 0, 0, 0, 0, 0.1, 1, 0, 0, 0, TORQUE_SCALE)
    bodies = elements.OBJECTS.mjOBJ_BODY
    weld = elements.equality(spec, mujoco.mjtEq.mjEQ_WELD, bodies, (target, body), pose)
    weld.solref = [0.02, 1.5]


def add_look(spec: Any, level: Level) -> None:
    """Sky, chequered floor and even light, without effect on physics."""
    texture, material = mujoco.mjtTexture, mujoco.mjtTextureRole
    gradient, checker = mujoco.mjtBuiltin.mjBUILTIN_GRADIENT, mujoco.mjtBuiltin.mjBUILTIN_CHECKER
    spec.add_texture(
        name="sky", type=texture.mjTEXTURE_SKYBOX, builtin=gradient, width=256, height=1536,
        rgb1=[0.55, 0.7, 0.85], rgb2=[0.95, 0.97, 1.0],
    )  # fmt: skip
    spec.add_texture(
        name="floor", type=texture.mjTEXTURE_2D, builtin=checker, width=128, height=128,
        rgb1=[0.82, 0.8, 0.75], rgb2=[0.74, 0.72, 0.67],
    )  # fmt: skip
    floor = spec.add_material(name="floor", texrepeat=[level.floor * 2, level.floor * 2])
    floor.textures[int(material.mjTEXROLE_RGB)] = "floor"
    spec.visual.global_.offwidth, spec.visual.global_.offheight = 1920, 1080
    light = spec.visual.headlight
    light.ambient, light.diffuse, light.specular = [0.5] * 3, [0.5] * 3, [0.1] * 3


def older_collider() -> int:
    """Flags that keep the convex collider the tasks were made with.

    MuJoCo 3.3 has a new one by default, and later versions give it several contacts for each pair.
    """
    flags = mujoco.mjtDisableBit
    names = ("mjDSBL_NATIVECCD", "mjDSBL_MULTICCD")
    return sum(int(getattr(flags, name)) for name in names if hasattr(flags, name))


def build(robot_name: str, level: Level, *, visual: bool = False) -> Model:
    """The compiled world; objects stand at the origin until a layout is written into it."""
    robot = ROBOTS[robot_name]
    spec = mujoco.MjSpec()
    spec.modelname = robot_name
    spec.compiler.degree = False
    spec.option.timestep, spec.option.integrator = robot.timestep, integrator(robot)
    floor: dict[str, Any] = {"name": "floor"}
    if visual:
        add_look(spec, level)
        floor["material"] = "floor"
    elements.geom(spec.worldbody, elements.PLANE, (level.floor, level.floor, 0.1), **floor)
    root = elements.child(spec.worldbody, "agent", (0, 0, robot.z))
    root.add_site(name="agent", pos=list(robot.site))
    robot.build(spec, root)
    if robot_name == "Racecar" and (visual or any(kind.collides for kind in level.kinds)):
        bodies.add_hull(spec)
    spec.option.disableflags |= older_collider()
    add_sensors(spec, robot)
    add_objects(spec, level, visual)
    return spec.compile()
