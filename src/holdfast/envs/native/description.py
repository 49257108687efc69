# SPDX-License-Identifier: Apache-2.0
"""What an id stands for, in words and numbers, for listings and documentation."""

from dataclasses import dataclass

from holdfast.envs.native.agents import AGENTS, level_for
from holdfast.envs.native.catalogue import lockstep
from holdfast.envs.native.constraints import available
from holdfast.envs.native.physics import SUBSTEPS
from holdfast.envs.native.tasks import NAVIGATION_TASKS
from holdfast.envs.native.velocity import build
from holdfast.envs.native.velocity_tasks import ROBOTS, VELOCITY_TASKS

GOALS = {
    "goal": "drive to the goal, again and again",
    "push": "push the box into the goal, again and again",
    "button": "press the button that is the goal, again and again",
    "circle": "run counter-clockwise along the circle",
    "run": "run straight ahead",
}


@dataclass(frozen=True)
class Description:
    """One native task."""

    env_id: str
    aim: str
    observation_size: int
    action_low: tuple[float, ...]
    action_high: tuple[float, ...]
    constraints: tuple[str, ...]
    """Names for `make(..., constraints=...)`."""
    info_keys: tuple[str, ...]
    """The cost entries of `info`."""
    objects: tuple[tuple[str, int], ...]
    """What stands in the world, and how many of it."""
    time_limit: int
    """Steps of an episode."""
    seconds_per_step: float
    threshold: float | None
    """The speed, or distance from an axis, above which a step costs; None where nothing such is."""

    def __str__(self) -> str:
        bounds = sorted(set(zip(self.action_low, self.action_high, strict=True)))
        spans = ", ".join(f"[{low:g}, {high:g}]" for low, high in bounds)
        one = lambda name: name.removesuffix("s").replace("_", " ")
        world = ", ".join(
            f"{number} {name if number > 1 else one(name)}" for name, number in self.objects
        )
        lines = [
            f"{self.env_id}: {self.aim}",
            f"observations  {self.observation_size} numbers",
            f"actions       {len(self.action_low)} numbers in {spans}",
            f"constraints   {', '.join(self.constraints)}",
            f"info          {', '.join(self.info_keys)}",
            f"episode       {self.time_limit} steps of {self.seconds_per_step:g} s",
        ]
        if world:
            lines.insert(1, f"world         {world}")
        if self.threshold is not None:
            lines.append(f"threshold     {self.threshold:g}")
        return "\n".join(lines)


def describe(env_id: str) -> Description:
    """Spaces, costs, time limit and threshold of a native task."""
    env = lockstep(env_id, 1, None)
    simulation = env.simulation
    if env_id in VELOCITY_TASKS:
        task = VELOCITY_TASKS[env_id]
        speed = "speed in the plane" if task.sideways else "forward speed"
        aim, objects = f"run forward, {speed} at most {task.threshold}", ()
        step = build(ROBOTS[task.robot]).opt.timestep * ROBOTS[task.robot].frame_skip
        threshold: float | None = task.threshold
    else:
        agent, name = NAVIGATION_TASKS[env_id]
        level = level_for(agent, name)
        aim = GOALS[level.reward]
        objects = tuple((kind.name, kind.number) for kind in level.kinds)
        step = AGENTS[agent].timestep * SUBSTEPS
        threshold = level.limits[0] if level.limits[0] < float("inf") else None
    return Description(
        env_id,
        aim,
        len(simulation.obs_low),
        tuple(simulation.action_low.tolist()),
        tuple(simulation.action_high.tolist()),
        available(simulation.cost_keys),
        simulation.cost_keys,
        objects,
        simulation.time_limit,
        float(step),
        threshold,
    )
