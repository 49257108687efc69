# SPDX-License-Identifier: Apache-2.0
"""The environments of a run: opened, measured against its settings, described."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from holdfast.core.limits import Limit
from holdfast.core.tails import POOL
from holdfast.envs.base import VecEnv, facts_of
from holdfast.envs.budget import Budgets
from holdfast.envs.foreign.costs import CostFunction
from holdfast.envs.foreign.references import refuse_unnamed, refuse_untrusted
from holdfast.envs.foreign.source import EnvSource
from holdfast.envs.make import is_task, make_env
from holdfast.own_barrier import ensure_barrier
from holdfast.run import Run, divisible

FEWEST_EPISODES, FEWEST_EPOCHS, UNKNOWN_LENGTH = 20, 10, 1000
"""Episodes of an epoch and epochs of a run that epochs are fitted to; steps of an episode without
a time limit."""


@dataclass(frozen=True)
class Spaces:
    """What a policy needs to know of its environment."""

    observation: gym.spaces.Box
    action: gym.spaces.Box | gym.spaces.Discrete | gym.spaces.MultiDiscrete
    limits: dict[str, float]
    """Limit of each constraint, in the environment's order."""
    native_observation: gym.Space[Any]
    """As the environment gives them, before they are made flat."""
    native_action: gym.Space[Any]
    """As the environment takes them."""
    budgets: tuple[str, ...] = ()
    """Costs of whose budgets the share that is left stands behind each observation."""

    @classmethod
    def of(cls, run: Run, env: VecEnv) -> Spaces:
        limits = dict(zip(env.cost_names, resolve_limits(run, env).tolist(), strict=True))
        facts = facts_of(env)
        native = facts.native_observation_space, facts.native_action_space
        return cls(env.observation_space, env.action_space, limits, *native, facts.budget_names)

    def with_left(self, flat: NDArray[Any], left: Any) -> NDArray[Any]:
        """Flat observations [n, O] with the shares of the budgets that are left behind them."""
        if not self.budgets and left is None:
            return flat
        wanted = (len(flat), len(self.budgets))
        named = f"[{', '.join(self.budgets)}]"
        if left is None or not self.budgets:
            raise ValueError(
                f"this policy acts on what is left of {named}: pass budget=, for each the share "
                "(b - cost so far) / b."
                if self.budgets
                else "this policy has no budget: leave budget= out."
            )
        given = np.asarray(left, np.float64)
        if given.size != wanted[0] * wanted[1] or not np.isfinite(given).all():
            raise ValueError(
                f"budget of shape {given.shape} must hold {wanted[1]} finite number(s), for "
                f"{named}, of each observation."
            )
        shares = np.clip(given.reshape(wanted), -1.0, 1.0)
        return np.concatenate([flat, shares.astype(flat.dtype)], 1)

    def fits(self, other: Spaces) -> bool:
        """Whether a policy that learned here can act there, under constraints of the same names."""
        same = self.observation.shape == other.observation.shape and self.action == other.action
        return same and tuple(self.limits) == tuple(other.limits)

    def refuse_other(self, other: Spaces) -> None:
        if not self.fits(other):
            raise ValueError(
                f"this policy learned on {self.described()}, and cannot act on "
                f"{other.described()}: name an environment that has the same."
            )

    def described(self) -> str:
        size, costs = self.observation.shape[0], ", ".join(self.limits)
        return f"observations of size {size}, actions {self.action} and costs {costs}"


def resolve_limits(run: Run, env: VecEnv) -> NDArray[np.float64]:
    """[K] the limit of each of the environment's constraints: b, whatever it is a limit on."""
    unknown = [name for name in run.limits if name not in env.cost_names]
    if unknown:
        raise ValueError(
            f"no constraint is called '{unknown[0]}'; this environment reports "
            f"{', '.join(env.cost_names)}."
        )
    # A task declares what the plain sum may be.
    declared = facts_of(env).cost_limits if run.cost_criterion == "undiscounted" else {}
    fallback = {
        n: declared.get(n) if run.cost_limit is None else run.cost_limit for n in env.cost_names
    }
    kinds = run.kinds
    limits = fallback | {name: limit.amount for name, limit in kinds.items()}
    missing = [name for name, limit in limits.items() if limit is None]
    if missing:
        called, named = run.env or "this environment", shlex.quote(run.env or "ENV")
        raise ValueError(
            f"{called} {_choice(missing, facts_of(env).cost_parts)}, the "
            "largest mean cost of an episode that you accept; "
            f"`holdfast check {named} --suggest-limit` shows what random actions cost."
        )
    known = {name: float(limit) for name, limit in limits.items() if limit is not None}
    run.check_costs(known | {name: limit.bound for name, limit in kinds.items()})
    return np.array([known[name] for name in env.cost_names])


def _choice(missing: Sequence[str], parts: Sequence[str]) -> str:
    """What has no limit, and the arguments that give it one."""
    names = parts or missing
    each = "{" + ", ".join(f"{name!r}: NUMBER" for name in names) + "}"
    declares = f"declares no limit for {listed(names)}"
    if len(names) == 1:
        return f"{declares}: give cost_limit=NUMBER"
    whole = "their sum" if parts else "all alike"
    return f"{declares}: give cost_limit=NUMBER for {whole}, or limits={each} for each"


def listed(names: Sequence[str]) -> str:
    """'heat', 'noise' and 'speed'"""
    *most, last = (f"'{name}'" for name in names)
    return f"{', '.join(most)} and {last}" if most else last


def claims(run: Run, limits: Mapping[str, float]) -> tuple[Limit, ...]:
    """What is bounded of each constraint, in the order of the resolved limits."""
    kinds = run.kinds
    return tuple(kinds.get(name, Limit(limit)) for name, limit in limits.items())


def refuse_untold(run: Run, env: VecEnv) -> None:
    """Limits beyond the mean on what cannot show whether they hold."""
    beyond = {name: limit for name, limit in run.kinds.items() if limit.kind != "mean"}
    missing = [name for name in beyond if name not in facts_of(env).budget_names]
    if missing:
        raise ValueError(
            f"the limit {missing[0]}={beyond[missing[0]]} needs its budget in the observations: "
            "make the batch with holdfast.train.environment.open_env(run, env)."
        )
    longest = facts_of(env).time_limit
    for name, limit in beyond.items():
        if run.evaluate_every and run.evaluate_episodes < limit.clean:
            raise ValueError(
                f"evaluate_episodes={run.evaluate_episodes} can never show that {name}={limit} "
                f"holds: raise it to {limit.clean} or more."
            )
        if longest is not None and POOL * run.epoch_steps < limit.fewest * longest:
            needed = -(-limit.fewest * longest // (POOL * run.num_envs)) * run.num_envs
            raise ValueError(
                f"the limit {name}={limit} cannot be told by fewer than {limit.fewest:,} episodes, "
                f"and {POOL} epochs of {run.epoch_steps} steps may hold only "
                f"{POOL * run.epoch_steps // longest}: raise epoch_steps to {needed}, or name a "
                "share that is less rare."
            )


Given = tuple[EnvSource | VecEnv | None, CostFunction | str | None]
"""Environment and cost function, as a user passes them."""


def sources(
    run: Run, env: EnvSource | VecEnv | None, cost: CostFunction | str | None, trusted: bool
) -> tuple[EnvSource | VecEnv, CostFunction | str | None]:
    """The environment and cost function that are given, else what the run names, with consent."""
    named = [name for name, given in ((run.env, env), (run.cost, cost)) if given is None]
    refuse_untrusted(named, run.env_args if env is None else {}, trusted)
    refuse_unnamed(*named)
    return run.env if env is None else env, cost or run.cost or None


def open_env(
    run: Run,
    env: EnvSource | VecEnv | None = None,
    cost: CostFunction | str | None = None,
    *,
    to_evaluate: bool = False,
    trusted: bool = False,
    cluster: str | None = None,
) -> VecEnv:
    """The batch of environments that a run asks for; `to_evaluate`: not to train.

    Without `env` (and `cost`) it is what the run names. Where that runs code of the user's the run
    must be `trusted`: the user wrote it, or allows it. So is a barrier that it names looked up.
    Its workers may be on a `cluster`.
    """
    if not to_evaluate:
        ensure_barrier(run.algorithm, trusted)
    env, cost = sources(run, env, cost, trusted)
    return make_env(
        env,
        run.num_envs,
        env_args=run.env_args,
        constraints=run.constraints,
        cost=cost,
        vectorise=run.vectorise,
        workers=run.workers,
        lockstep=not to_evaluate and steps_in_lockstep(run),
        clip_actions=run.clip_actions != "never",
        timeout=run.step_timeout,
        cluster=cluster,
        budgets=Budgets.of(run.kinds, penalise=not to_evaluate),
    )


def with_fitting_epochs(run: Run, env: VecEnv) -> Run:
    """The run with epochs that fit an environment of the user's; tasks of ours keep theirs.

    At least 20 episodes, or one of each environment, and otherwise at most a tenth of the run and
    not more than the default. Where no time limit is declared episodes may have 1000 steps.
    """
    if is_task(run.env):
        return run
    longest = facts_of(env).time_limit or UNKNOWN_LENGTH
    least = max(FEWEST_EPISODES, run.num_envs) * longest
    wanted = max(least, min(run.epoch_steps, -(-run.steps // FEWEST_EPOCHS)))
    return replace(run, epoch_steps=divisible(wanted, run.num_envs))


def steps_in_lockstep(run: Run) -> bool:
    """Whether the loop steps the batch: the published ways of seeing an observation need it."""
    return run.statistics == "running" or run.raw_final_obs


def describe_acting(run: Run, env: VecEnv) -> str:
    """How a run collects its experience, in a line."""
    facts = facts_of(env)
    where = f"in {facts.workers} worker processes" if facts.workers > 1 else "in this process"
    where = facts.place or where
    seen = {"running": "moving with every step", "epoch": "frozen for each epoch", "none": "unused"}
    count = "1 environment" if run.num_envs == 1 else f"{run.num_envs} environments"
    return f"{count} {where}, observation statistics {seen[run.statistics]}"


def refuse_biased(run: Run, env: VecEnv) -> None:
    """Settings under which no estimate of an episode's cost could be right."""
    if run.epoch_reset == "always" and run.cost_estimate == "window":
        raise ValueError(
            "epoch_reset='always' cannot be used with cost_estimate='window': the window holds "
            "finished episodes, and the resets cut the long ones; use cost_estimate='epoch'."
        )
    steps = run.epoch_steps // run.num_envs
    limit = facts_of(env).time_limit
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
