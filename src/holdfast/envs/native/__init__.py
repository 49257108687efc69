# SPDX-License-Identifier: Apache-2.0
"""The single-agent tasks of Safety-Gymnasium, rebuilt on current MuJoCo and batched.

Names are imported when first used: whoever needs the list of ids does not load a simulator.
"""

import importlib
from typing import TYPE_CHECKING, Any

import gymnasium as gym

from holdfast.envs.native.tasks import LEVELS, NAVIGATION_TASKS
from holdfast.envs.native.velocity_tasks import VELOCITY_TASKS

if TYPE_CHECKING:
    from holdfast.envs.native.catalogue import make
    from holdfast.envs.native.description import Description, describe
    from holdfast.envs.native.single import SixTuple

__all__ = [
    "NATIVE_IDS",
    "TIME_LIMITS",
    "Description",
    "SixTuple",
    "describe",
    "make",
    "register_native",
]

TIME_LIMITS: dict[str, int] = {name: task.time_limit for name, task in VELOCITY_TASKS.items()} | {
    name: LEVELS[level].time_limit for name, (_, level) in NAVIGATION_TASKS.items()
}
"""Native id -> length of its episodes."""
NATIVE_IDS: tuple[str, ...] = tuple(TIME_LIMITS)
"""All ids, the same as in Safety-Gymnasium."""


def register_native() -> None:
    """Make `gymnasium.make("holdfast/SafetyPointGoal1-v0")` and `make_vec` work."""
    for env_id, limit in TIME_LIMITS.items():
        name = f"holdfast/{env_id}"
        if name not in gym.registry:
            gym.register(
                name,
                entry_point="holdfast.envs.native.single:SafetyEnv",
                vector_entry_point="holdfast.envs.native.vector:SafetyVectorEnv",
                max_episode_steps=limit,
                kwargs={"env_id": env_id},
            )


_HOMES = {
    "Description": "description",
    "SixTuple": "single",
    "describe": "description",
    "make": "catalogue",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
