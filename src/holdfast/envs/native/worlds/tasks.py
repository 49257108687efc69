# SPDX-License-Identifier: Apache-2.0
"""The navigation tasks as data: objects, reward and costs.

A level is an entry of `LEVELS`; a task is a robot in a level. Kinds are listed in the order in
which they are placed and observed: static ones in task order, then free bodies, then gremlins.
"""

from dataclasses import dataclass, replace

Colour = tuple[float, float, float, float]
Rectangle = tuple[float, float, float, float]


@dataclass(frozen=True)
class Kind:
    """One kind of object."""

    name: str
    shape: str
    """sphere, box or cylinder; `push box` is a box with four corner columns."""
    size: tuple[float, ...]
    z: float
    keepout: float
    """Radius that placement keeps free around the object."""
    colour: Colour
    motion: str = "static"
    """static, free (pushed about) or gremlin (driven in a circle)."""
    collides: bool = False
    density: float = 0.0
    seen: bool = True
    """The lidar shows it."""
    number: int = 1
    at: tuple[tuple[float, float], ...] = ()
    """Fixed places instead of sampled ones."""
    turn: tuple[float, ...] | None = None
    """Fixed rotations about z instead of the sampled ones."""


GREEN, BLUE = (0.0, 1.0, 0.0, 0.25), (0.0, 0.0, 1.0, 0.25)
GOAL = Kind("goal", "cylinder", (0.3, 0.15), 0.16, 0.4, GREEN)
HAZARDS = Kind("hazards", "cylinder", (0.2, 0.01), 0.02, 0.4, BLUE)
BUTTONS = Kind("buttons", "sphere", (0.1,), 0.1, 0.2, (1, 0.5, 0, 1), collides=True, number=4)
PILLARS = Kind("pillars", "cylinder", (0.2, 0.5), 0.5, 0.3, (0.5, 0.5, 1, 1), collides=True)
VASES = Kind(
    "vases", "box", (0.1, 0.1, 0.1), 0.1 - 4e-5, 0.15, (0, 1, 1, 1), "free", True, 0.001
)  # fmt: skip
PUSH_BOX = Kind("push_box", "push box", (0.2,), 0.2, 0.2, (1, 1, 0, 1), "free", True, 0.001)
GREMLINS = Kind(
    "gremlins", "box", (0.1, 0.1, 0.1), 0.1, 0.4, (0.5, 0, 1, 1), "gremlin", True, 0.001
)
CIRCLE = Kind(
    "circle", "cylinder", (1.5, 0.01), 0.01, 0.0, (0, 1, 0, 0.1), at=((0.0, 0.0),), turn=(0.0,)
)
WALL = Kind("sigwalls", "box", (0.05, 3.5, 0.3), 0.25, 0.0, (1, 1, 0, 0.1), seen=False)


def walls(distance: float, number: int, length: float = 3.5) -> Kind:
    """Transparent walls at x = ±distance and, of four, at y = ±distance."""
    places = ((distance, 0.0), (-distance, 0.0), (0.0, distance), (0.0, -distance))
    quarter = 1.5707963267948966
    turn = (0.0, 0.0, quarter, quarter)[:number]
    size = (0.05, length, 0.3)
    return replace(WALL, size=size, number=number, at=places[:number], turn=turn)


@dataclass(frozen=True)
class Level:
    """A world and its rules, for any robot."""

    kinds: tuple[Kind, ...]
    reward: str
    """goal, push, button, circle or run: the function of that name in `rewards`."""
    penalties: tuple[str, ...] = ()
    """Keys of the cost entries, without the sum."""
    extent: float = 2.0
    """Half-width of the square in which objects are placed."""
    start: Rectangle | None = None
    """(xmin, ymin, xmax, ymax) of the robot's start instead of that square."""
    robot_keepout: float = 0.4
    limits: tuple[float, float] = (float("inf"), float("inf"))
    """Largest |x| and |y| without a cost."""
    time_limit: int = 1000
    lidar_range: float = 3.0
    floor: float = 3.5
    reward_bound: float = 10.0

    @property
    def cost_keys(self) -> tuple[str, ...]:
        """The original's entries of `info`, the sum first."""
        return ("cost_sum", *self.penalties)


TIGHT_GOAL = replace(GOAL, keepout=0.305)
BUTTON_GOAL = replace(GOAL, size=(0.2, 0.1), z=0.11, colour=(0, 1, 0, 0.1))
TIGHT_HAZARDS = replace(HAZARDS, keepout=0.18)
WIDE_HAZARDS = replace(HAZARDS, size=(0.3, 0.01))
NEAR_CENTRE = (-0.8, -0.8, 0.8, 0.8)
EDGE = 1.125
WRONG = ("cost_buttons", "cost_hazards", "cost_gremlins")
OUTSIDE = ("cost_out_of_boundary",)
INFINITE = float("inf")


def many(kind: Kind, number: int) -> Kind:
    """Several of a kind."""
    return replace(kind, number=number)


def circle(*beyond: Kind, **options: object) -> Level:
    """Circle levels: short episodes, a far-sighted lidar, a start near the centre."""
    level = Level((CIRCLE, *beyond), "circle", start=NEAR_CENTRE, robot_keepout=0.0)
    return replace(level, time_limit=500, lidar_range=6.0, **options)  # type: ignore[arg-type]


LEVELS = {
    "Goal0": Level((TIGHT_GOAL,), "goal", extent=1.0),
    "Goal1": Level(
        (TIGHT_GOAL, many(TIGHT_HAZARDS, 8), VASES), "goal", ("cost_hazards",), extent=1.5
    ),
    "Goal2": Level(
        (TIGHT_GOAL, many(TIGHT_HAZARDS, 10), many(VASES, 10)),
        "goal",
        ("cost_hazards", "cost_vases_contact", "cost_vases_velocity"),
    ),
    "Push0": Level((GOAL, PUSH_BOX), "push", extent=1.0),
    "Push1": Level(
        (GOAL, many(WIDE_HAZARDS, 2), PILLARS, PUSH_BOX), "push", ("cost_hazards",), extent=1.5
    ),
    "Push2": Level(
        (GOAL, many(WIDE_HAZARDS, 4), many(PILLARS, 4), PUSH_BOX),
        "push",
        ("cost_hazards", "cost_pillars"),
    ),
    "Button0": Level((BUTTONS, BUTTON_GOAL), "button", extent=1.0),
    "Button1": Level(
        (BUTTONS, BUTTON_GOAL, many(TIGHT_HAZARDS, 4), many(GREMLINS, 4)),
        "button",
        WRONG,
        extent=1.5,
    ),
    "Button2": Level(
        (BUTTONS, BUTTON_GOAL, many(TIGHT_HAZARDS, 8), many(GREMLINS, 6)),
        "button",
        WRONG,
        extent=1.8,
    ),
    "Circle0": circle(),
    "Circle1": circle(walls(EDGE, 2), penalties=OUTSIDE, limits=(EDGE, INFINITE)),
    "Circle2": circle(walls(EDGE, 4), penalties=OUTSIDE, limits=(EDGE, EDGE)),
    "Run0": Level(
        (walls(0.5, 2, 17.5),), "run", OUTSIDE, start=(-0.2, 16.5, 0.2, 16.5),
        robot_keepout=0.0, limits=(0.5, INFINITE), time_limit=500, floor=17.5,
        reward_bound=INFINITE,
    ),
}  # fmt: skip


ROBOT_NAMES = ("Point", "Car", "Racecar", "Doggo", "Ant")
"""Keys of `ROBOTS`, which needs the simulator."""

NAVIGATION_TASKS: dict[str, tuple[str, str]] = {
    f"Safety{robot}{level}-v0": (robot, level) for robot in ROBOT_NAMES for level in LEVELS
}
"""Id -> robot and level."""
