# SPDX-License-Identifier: Apache-2.0
"""Open the environments of a run, check them against its settings, and describe them."""

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
from holdfast.envs.base import VecEnv, native_spaces
from holdfast.envs.budget import Budgets
from holdfast.envs.foreign.costs import CostFunction
from holdfast.envs.foreign.references import refuse_unnamed, refuse_untrusted
from holdfast.envs.foreign.source import EnvSource
from holdfast.envs.make import is_task, make_env
from holdfast.own_barrier import ensure_barrier
from holdfast.run import Run, check_costs, divisible

FEWEST_EPISODES, FEWEST_EPOCHS, UNKNOWN_LENGTH = 20, 10, 1000
"""Targets for the length of epochs: episodes in an epoch, epochs in a run, and the assumed steps of
an episode without a time limit.
"""


@dataclass(frozen=True)
class Spaces:
    """Spaces, limits and budgets of an environment, as a policy needs them."""

    observation: gym.spaces.Box
    action: gym.spaces.Box | gym.spaces.Discrete | gym.spaces.MultiDiscrete
    limits: dict[str, float]
    """Limit of each constraint, in the environment's order."""
    native_observation: gym.Space[Any]
    """Observations before they are flattened."""
    native_action: gym.Space[Any]
    """Actions in the environment's own form."""
    budgets: tuple[str, ...] = ()
    """Names of the costs whose remaining budget is appended to each observation."""

    @classmethod
    def of(cls, run: Run, env: VecEnv) -> Spaces:
        limits = dict(zip(env.cost_names, resolve_limits(run, env).tolist(), strict=True))
        own = env.observation_space, env.action_space
        return cls(*own, limits, *native_spaces(env), env.facts.budget_names)

    def with_left(self, flat: NDArray[Any], left: Any) -> NDArray[Any]:
        """Flat observations [n, O] with the remaining shares of the budgets appended."""
        if not self.budgets and left is None:
            return flat
        wanted = (len(flat), len(self.budgets))
        named = f"[{', '.join(self.budgets)}]"
        if left is None or not self.budgets:
            raise ValueError(
                f"this policy observes the remaining budget of {named}: pass budget=, the share "
                "(b - cost so far) / b of each."
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
        """Whether the policy can act there: equal spaces and names of constraints."""
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
    """[K] the number b of each constraint's limit, on a mean, a tail or a chance."""
    unknown = [name for name in run.limits if name not in env.cost_names]
    if unknown:
        raise ValueError(
            f"no constraint is called '{unknown[0]}'; this environment reports "
            f"{', '.join(env.cost_names)}."
        )
    # A task declares what the plain sum may be.
    declared = env.facts.cost_limits if run.cost_criterion == "undiscounted" else {}
    fallback = {
        n: declared.get(n) if run.cost_limit is None else run.cost_limit for n in env.cost_names
    }
    kinds = run.kinds
    limits = fallback | {name: limit.amount for name, limit in kinds.items()}
    missing = [name for name, limit in limits.items() if limit is None]
    if missing:
        called, named = run.env or "this environment", shlex.quote(run.env or "ENV")
        raise ValueError(
            f"{called} {_choice(missing, env.facts.cost_parts)}, the "
            "largest mean cost of an episode that you accept; "
            f"`holdfast check {named} --suggest-limit` shows what random actions cost."
        )
    known = {name: float(limit) for name, limit in limits.items() if limit is not None}
    check_costs(run, known | {name: limit.bound for name, limit in kinds.items()})
    return np.array([known[name] for name in env.cost_names])


def _choice(missing: Sequence[str], parts: Sequence[str]) -> str:
    """The costs without a limit, and the arguments that set one."""
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
    """The limit of each constraint with its kind, in the order of the resolved limits."""
    kinds = run.kinds
    return tuple(kinds.get(name, Limit(limit)) for name, limit in limits.items())


def refuse_untestable(run: Run, env: VecEnv) -> None:
    """Refuse limits beyond the mean if too few episodes are available to test them."""
    beyond = {name: limit for name, limit in run.kinds.items() if limit.kind != "mean"}
    missing = [name for name in beyond if name not in env.facts.budget_names]
    if missing:
        raise ValueError(
            f"the limit {missing[0]}={beyond[missing[0]]} needs its budget in the observations: "
            "make the batch with holdfast.train.environment.open_env(run, env)."
        )
    longest = env.facts.time_limit
    for name, limit in beyond.items():
        if run.evaluate_every and run.evaluate_episodes < limit.clean:
            raise ValueError(
                f"evaluate_episodes={run.evaluate_episodes} can never show that {name}={limit} "
                f"holds: raise it to {limit.clean} or more."
            )
        if longest is not None and POOL * run.epoch_steps < limit.fewest * longest:
            needed = -(-limit.fewest * longest // (POOL * run.num_envs)) * run.num_envs
            raise ValueError(
                f"the limit {name}={limit} cannot be tested with fewer than {limit.fewest:,} "
                f"episodes, and {POOL} epochs of {run.epoch_steps} steps may have only "
                f"{POOL * run.epoch_steps // longest}: raise epoch_steps to {needed}, or name a "
                "share that is less rare."
            )


Given = tuple[EnvSource | VecEnv | None, CostFunction | str | None]
"""Environment and cost function in the forms that a user can pass."""


def sources(
    run: Run, env: EnvSource | VecEnv | None, cost: CostFunction | str | None, trusted: bool
) -> tuple[EnvSource | VecEnv, CostFunction | str | None]:
    """The given environment and cost function, else those that the run names, with consent."""
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
    """The batch of environments of a run; `to_evaluate`: for evaluation, not for training.

    Without `env` (and `cost`) they are loaded by the names in the run. If that runs code outside of
    Holdfast, the run must be `trusted`: the user wrote it or allows it. The same holds for a
    barrier by name. The workers may be on a `cluster`.
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
    """The run with epochs fitted to a foreign environment; native tasks keep the default.

    An epoch has at least 20 episodes, or one of each environment. Otherwise it is at most a tenth
    of the run and at most the default. Without a declared time limit episodes are assumed to have
    1000 steps.
    """
    if is_task(run.env):
        return run
    longest = env.facts.time_limit or UNKNOWN_LENGTH
    least = max(FEWEST_EPISODES, run.num_envs) * longest
    wanted = max(least, min(run.epoch_steps, -(-run.steps // FEWEST_EPOCHS)))
    return replace(run, epoch_steps=divisible(wanted, run.num_envs))


def steps_in_lockstep(run: Run) -> bool:
    """Whether the loop itself steps the batch, as running observation statistics require."""
    return run.statistics == "running" or run.raw_final_obs


def describe_acting(run: Run, env: VecEnv) -> str:
    """A line on how a run collects its experience."""
    facts = env.facts
    where = f"in {facts.workers} worker processes" if facts.workers > 1 else "in this process"
    where = facts.place or where
    seen = {"running": "moving with every step", "epoch": "frozen for each epoch", "none": "unused"}
    count = "1 environment" if run.num_envs == 1 else f"{run.num_envs} environments"
    return f"{count} {where}, observation statistics {seen[run.statistics]}"


def refuse_biased(run: Run, env: VecEnv) -> None:
    """Refuse settings that bias every estimate of an episode's cost."""
    if run.epoch_reset == "always" and run.cost_estimate == "window":
        raise ValueError(
            "epoch_reset='always' cannot be used with cost_estimate='window': the window holds "
            "finished episodes, and the resets cut the long ones; use cost_estimate='epoch'."
        )
    steps = run.epoch_steps // run.num_envs
    limit = env.facts.time_limit
    if run.cost_estimate == "epoch" and limit is not None and steps < limit:
        raise ValueError(
            f"{steps} steps of each environment and epoch are too few for the cost of an episode "
            f"of up to {limit} steps; {longer_epochs(run, limit)}"
        )


def longer_epochs(run: Run, steps: int) -> str:
    """The remedy: epochs with so many steps of each environment."""
    fewer = run.epoch_steps // steps
    other = f" or lower num_envs to {fewer}" if fewer else ""
    return (
        f"raise epoch_steps to {steps * run.num_envs}{other}, or choose cost_estimate='window', "
        "which lags and in the first epochs favours short episodes."
    )
