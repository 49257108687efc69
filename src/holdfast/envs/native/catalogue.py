# SPDX-License-Identifier: Apache-2.0
"""All native ids: their simulators, batches and descriptions."""

from dataclasses import dataclass
from typing import Literal

from holdfast.envs.base import VecEnv, check_count
from holdfast.envs.budget import Budgets, with_budgets
from holdfast.envs.native.batch.lockstep import LIMIT, LockstepEnv
from holdfast.envs.native.batch.navigation import NavigationSimulation
from holdfast.envs.native.batch.velocity import VelocitySimulation
from holdfast.envs.native.worlds import NATIVE_IDS
from holdfast.envs.native.worlds.cost_terms import available
from holdfast.envs.native.worlds.rewards import REWARDS
from holdfast.envs.native.worlds.tasks import LEVELS, NAVIGATION_TASKS, Level
from holdfast.envs.native.worlds.velocity_tasks import VELOCITY_TASKS
from holdfast.envs.worker import Start
from holdfast.envs.worker_env import OpenShare, WorkerEnv
from holdfast.settings import nearest


def check_id(env_id: str) -> None:
    """Refuse an unknown id; the error suggests the nearest one."""
    if env_id not in NATIVE_IDS:
        hint = nearest(env_id, NATIVE_IDS, "`holdfast envs` lists all of them.")
        raise ValueError(f"unknown native environment {env_id!r}{hint}")


def simulate(env_id: str, num_envs: int) -> VelocitySimulation | NavigationSimulation:
    """The simulators behind an id."""
    check_id(env_id)
    check_count(num_envs)
    if env_id in VELOCITY_TASKS:
        return VelocitySimulation(VELOCITY_TASKS[env_id], num_envs)
    robot, level = NAVIGATION_TASKS[env_id]
    return NavigationSimulation(robot, level, num_envs)


def lockstep(env_id: str, num_envs: int, constraints: tuple[str, ...] | None) -> LockstepEnv:
    """A batch in this process."""
    names = ("cost",) if constraints is None else tuple(constraints)
    return LockstepEnv(env_id, simulate(env_id, num_envs), names)


def make(
    env_id: str,
    num_envs: int,
    *,
    constraints: tuple[str, ...] | None = None,
    workers: int = 0,
    start: Start | None = None,
    budgets: Budgets | None = None,
) -> VecEnv:
    """A batch of `num_envs` environments.

    `constraints` names separate costs, e.g. `("hazards", "vases")`; by default there is one,
    `cost`, the original's summed 0/1 cost. `workers` is the number of processes, or of workers that
    `start` makes; 0: this process. Results are the same to the last bit. `budgets` are appended to
    the observations.
    """
    if workers < 0:
        raise ValueError(f"workers={workers} must not be negative; 0 keeps all in this process.")
    check_count(num_envs)
    share: OpenShare = lambda first, count: with_budgets(
        lockstep(env_id, count, constraints), budgets
    )
    if workers == 0:
        return share(0, num_envs)
    return WorkerEnv(env_id, share(0, 1), num_envs, workers, share, start)


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
    """Kind of object in the world → number."""
    time_limit: int
    """Steps of an episode."""
    seconds_per_step: float
    threshold: float | None
    """The speed, or distance from an axis, above which a step has a cost; None without one."""

    @property
    def world(self) -> str:
        """The objects in words; empty without any."""
        return ", ".join(_several(name, number) for name, number in self.objects)

    def __str__(self) -> str:
        bounds = sorted(set(zip(self.action_low, self.action_high, strict=True)))
        spans = ", ".join(f"[{low:g}, {high:g}]" for low, high in bounds)
        lines = [
            f"{self.env_id}: {self.aim}",
            f"observations  {self.observation_size} numbers",
            f"actions       {len(self.action_low)} numbers in {spans}",
            f"constraints   {', '.join(self.constraints)}",
            f"limit         {LIMIT:g} of each, unless you set one",
            f"info          {', '.join(self.info_keys)}",
            f"episode       {self.time_limit} steps of {self.seconds_per_step:g} s",
        ]
        if self.world:
            lines.insert(1, f"world         {self.world}")
        if self.threshold is not None:
            lines.append(f"threshold     {self.threshold:g}")
        return "\n".join(lines)


def summaries(kind: Literal["velocity", "navigation"]) -> dict[str, str]:
    """Id → the task in a line."""
    if kind == "velocity":
        speed = lambda task: "speed in the plane" if task.sideways else "forward speed"
        return {
            name: f"{task.robot}: run forward, {speed(task)} at most {task.threshold:g}"
            for name, task in VELOCITY_TASKS.items()
        }
    return {
        name: f"{robot}: {REWARDS[LEVELS[level].reward].aim}{_dangers(LEVELS[level])}"
        for name, (robot, level) in NAVIGATION_TASKS.items()
    }


def _several(name: str, number: int) -> str:
    """8 hazards, 1 vase: names of kinds are plurals if a world can have several."""
    return f"{number} {name if number > 1 else name.removesuffix('s').replace('_', ' ')}"


def _dangers(level: Level) -> str:
    """The objects that cause costs, with their numbers."""
    harmless = ("goal", "circle", "buttons", "push_box")
    costly = [kind for kind in level.kinds if kind.name not in harmless]
    listed = ", ".join(_several(kind.name, kind.number) for kind in costly)
    return f"; {listed.replace('sigwalls', 'walls')}" if listed else "; no hazards"


def describe(env_id: str) -> Description:
    """Spaces, costs, time limit and threshold of a native task."""
    simulation = simulate(env_id, 1)
    if isinstance(simulation, VelocitySimulation):
        task = simulation.task
        speed = "speed in the plane" if task.sideways else "forward speed"
        aim, objects = f"run forward, {speed} at most {task.threshold}", ()
        threshold: float | None = task.threshold
    else:
        level = simulation.level
        aim = REWARDS[level.reward].aim
        objects = tuple((kind.name, kind.number) for kind in level.kinds)
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
        simulation.seconds_per_step,
        threshold,
    )
