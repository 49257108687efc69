# SPDX-License-Identifier: Apache-2.0
"""Every native id, what stands behind it, and how to make a batch of it."""

import difflib

from holdfast.envs.native import NATIVE_IDS
from holdfast.envs.native.lockstep import LockstepEnv
from holdfast.envs.native.navigation import NavigationBatch
from holdfast.envs.native.simulation import Simulation
from holdfast.envs.native.tasks import NAVIGATION_TASKS
from holdfast.envs.native.velocity import VelocityBatch
from holdfast.envs.native.velocity_tasks import VELOCITY_TASKS
from holdfast.envs.workers import WorkerEnv


def check_id(env_id: str) -> None:
    """Refuse an id that does not exist, with the nearest one that does."""
    if env_id not in NATIVE_IDS:
        close = difflib.get_close_matches(env_id, NATIVE_IDS, 1, cutoff=0.5)
        hint = f"did you mean {close[0]!r}? " if close else ""
        raise ValueError(
            f"unknown native environment {env_id!r}; {hint}`holdfast envs` lists all of them."
        )


def simulate(env_id: str, num_envs: int) -> Simulation:
    """The simulators behind an id."""
    check_id(env_id)
    if num_envs < 1:
        raise ValueError(f"num_envs={num_envs} must be at least 1.")
    if env_id in VELOCITY_TASKS:
        return VelocityBatch(VELOCITY_TASKS[env_id], num_envs)
    agent, level = NAVIGATION_TASKS[env_id]
    return NavigationBatch(agent, level, num_envs)


def lockstep(env_id: str, num_envs: int, constraints: tuple[str, ...] | None) -> LockstepEnv:
    """A batch in this process."""
    names = ("cost",) if constraints is None else tuple(constraints)
    return LockstepEnv(env_id, simulate(env_id, num_envs), names)


def make(
    env_id: str, num_envs: int, *, constraints: tuple[str, ...] | None = None, workers: int = 0
) -> LockstepEnv | WorkerEnv:
    """A batch of `num_envs` environments.

    `constraints` names the costs to keep apart, e.g. `("hazards", "vases")`; by default there is
    one, `cost`, the original's summed 0/1 cost. With `workers` the batch is shared among that many
    processes; 0 keeps it in this one. Results are the same to the last bit.
    """
    if workers < 0:
        raise ValueError(f"workers={workers} must not be negative; 0 keeps all in this process.")
    if num_envs < 1:
        raise ValueError(f"num_envs={num_envs} must be at least 1.")
    if workers == 0:
        return lockstep(env_id, num_envs, constraints)
    return WorkerEnv(
        env_id,
        lockstep(env_id, 1, constraints),
        num_envs,
        workers,
        lambda first, count: lockstep(env_id, count, constraints),
    )
