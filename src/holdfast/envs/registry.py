# SPDX-License-Identifier: Apache-2.0
"""Native tasks in Gymnasium's registry as `holdfast/<id>`.

Registering must be cheap, so names and time limits are listed here without loading a simulator.
"""

from itertools import product

import gymnasium as gym

AGENTS = ("Point", "Car", "Racecar", "Doggo", "Ant")
LEVELS = {
    f"{task}{level}": limit
    for task, limit in (("Goal", 1000), ("Push", 1000), ("Button", 1000), ("Circle", 500))
    for level in (0, 1, 2)
} | {"Run0": 500}
ROBOTS = ("Ant", "HalfCheetah", "Hopper", "Humanoid", "Swimmer", "Walker2d")
TIME_LIMITS: dict[str, int] = {
    f"Safety{robot}Velocity-{version}": 1000 for version, robot in product(("v1", "v0"), ROBOTS)
} | {f"Safety{agent}{level}-v0": limit for agent in AGENTS for level, limit in LEVELS.items()}
"""Native id -> length of its episodes."""


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
