# SPDX-License-Identifier: Apache-2.0
"""The environments of a run: opened, measured against its settings, described."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from holdfast.envs.base import VecEnv
from holdfast.envs.make import make_env
from holdfast.run import Run


@dataclass(frozen=True)
class Spaces:
    """What a policy needs to know of its environment."""

    observation: gym.spaces.Box
    action: gym.spaces.Box | gym.spaces.Discrete | gym.spaces.MultiDiscrete
    limits: dict[str, float]
    """Limit of each constraint, in the environment's order."""

    @classmethod
    def of(cls, run: Run, env: VecEnv) -> Spaces:
        limits = dict(zip(env.cost_names, resolve_limits(run, env).tolist(), strict=True))
        return cls(env.observation_space, env.action_space, limits)


def resolve_limits(run: Run, env: VecEnv) -> NDArray[np.float64]:
    """[K] the limit of each of the environment's constraints."""
    unknown = [name for name in run.limits if name not in env.cost_names]
    if unknown:
        raise ValueError(
            f"no constraint is called '{unknown[0]}'; this environment reports "
            f"{', '.join(env.cost_names)}."
        )
    return np.array([run.limits.get(name, run.cost_limit) for name in env.cost_names])


def open_env(run: Run, env: Any, cost: Any = None, to_evaluate: bool = False) -> VecEnv:
    """The batch of environments that a run asks for; `lockstep`: to be stepped, not to train."""
    return make_env(
        env,
        run.num_envs,
        constraints=run.constraints,
        cost=cost,
        vectorise=run.vectorise,
        workers=run.workers,
        lockstep=not to_evaluate and steps_in_lockstep(run),
        clip_actions=run.clip_actions != "never",
    )


def steps_in_lockstep(run: Run) -> bool:
    """Whether the loop steps the batch: the published ways of seeing an observation need it."""
    return run.normalise == "running" or run.raw_final_obs


def describe_acting(run: Run, env: VecEnv) -> str:
    """How a run collects its experience, in a line."""
    workers = getattr(env, "workers", 1)
    where = f"{workers} worker processes" if workers > 1 else "this process"
    seen = {"running": "moving with every step", "epoch": "frozen for each epoch", "none": "unused"}
    return f"{run.num_envs} environments in {where}, observation statistics {seen[run.normalise]}"


def refuse_biased(run: Run, env: VecEnv) -> None:
    """Settings under which no estimate of an episode's cost could be right."""
    if run.epoch_reset == "always" and run.cost_estimate == "window":
        raise ValueError(
            "epoch_reset='always' cannot be used with cost_estimate='window': the window holds "
            "finished episodes, and the resets cut the long ones; use cost_estimate='epoch'."
        )
    steps = run.epoch_steps // run.num_envs
    limit: int | None = getattr(env, "time_limit", None)  # optional in a VecEnv
    if run.cost_estimate == "epoch" and limit is not None and steps < limit:
        raise ValueError(
            f"{steps} steps of each environment and epoch cannot show what an episode of up to "
            f"{limit} costs; {longer_epochs(run, limit)}"
        )


def longer_epochs(run: Run, steps: int) -> str:
    """The remedy: an epoch of so many steps of each environment."""
    fewer = run.epoch_steps // steps
    other = f" or lower num_envs to {fewer}" if fewer else ""
    return (
        f"raise epoch_steps to {steps * run.num_envs}{other}, or choose cost_estimate='window', "
        "which lags and in the first epochs favours short episodes."
    )
