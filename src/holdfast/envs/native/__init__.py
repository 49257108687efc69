# SPDX-License-Identifier: Apache-2.0
"""The single-agent tasks of Safety-Gymnasium, rebuilt on current MuJoCo and batched.

Names are imported when first used, so the list of ids needs no simulator.
"""

import importlib
from typing import TYPE_CHECKING, Any

import gymnasium as gym

from holdfast.envs.native.worlds import NATIVE_IDS, TIME_LIMITS

if TYPE_CHECKING:
    from holdfast.envs.native.catalogue import Description, describe, make, summaries
    from holdfast.envs.native.gym.envs import SixTuple

__all__ = [
    "NATIVE_IDS",
    "TIME_LIMITS",
    "Description",
    "SixTuple",
    "describe",
    "make",
    "register_native",
    "summaries",
]


def register_native() -> None:
    """Make `gymnasium.make("holdfast/SafetyPointGoal1-v0")` and `make_vec` work."""
    for env_id, limit in TIME_LIMITS.items():
        name = f"holdfast/{env_id}"
        if name not in gym.registry:
            gym.register(
                name,
                entry_point="holdfast.envs.native.gym.envs:SafetyEnv",
                vector_entry_point="holdfast.envs.native.gym.envs:SafetyVectorEnv",
                max_episode_steps=limit,
                kwargs={"env_id": env_id},
            )


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = "gym.envs" if name == "SixTuple" else "catalogue"
    return getattr(importlib.import_module(f"{__name__}.{home}"), name)
