# SPDX-License-Identifier: Apache-2.0
"""Worlds of the native tasks: tasks and robots as data, layout, physics, rewards, costs."""

from holdfast.envs.native.worlds.tasks import LEVELS, NAVIGATION_TASKS
from holdfast.envs.native.worlds.velocity_tasks import VELOCITY_TASKS

TIME_LIMITS: dict[str, int] = {name: task.time_limit for name, task in VELOCITY_TASKS.items()} | {
    name: LEVELS[level].time_limit for name, (_, level) in NAVIGATION_TASKS.items()
}
"""Native id -> length of its episodes."""
NATIVE_IDS: tuple[str, ...] = tuple(TIME_LIMITS)
"""All ids, the same as in Safety-Gymnasium."""
