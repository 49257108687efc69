# SPDX-License-Identifier: Apache-2.0
"""Find faults of an environment before a long run, with a remedy for each.

`check_env` runs a few random episodes three times (in a new environment, in the same one again, in
another new one) and applies rules to the recorded steps. An empty list means ready to train.
"""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from holdfast.envs.base import ActionSpace, VecEnv
from holdfast.envs.check.chance import Chance, suggest_limit
from holdfast.envs.check.evidence import Finding, Recording, print_findings, record, same
from holdfast.envs.check.rules import (
    action_space_findings,
    early_end_findings,
    episode_findings,
    number_findings,
    observation_findings,
    observation_space_findings,
    sum_findings,
    type_findings,
)
from holdfast.envs.check.vec_env import check_vec_env
from holdfast.envs.failure import EnvFailure, describe_error
from holdfast.envs.foreign.costs import CostFunction, find_cost, read_cost
from holdfast.envs.foreign.references import load
from holdfast.envs.foreign.source import (
    EnvSource,
    Factory,
    is_instance,
    label_of,
    open_single,
)
from holdfast.envs.foreign.spaces import flat_observation_space, is_space, plain_action_space
from holdfast.envs.functional.functional_source import Functional, described, is_functional
from holdfast.envs.make import find_source, is_task, is_vectorised, make_env, num_envs_of
from holdfast.envs.worker import unsendable

__all__ = ["Chance", "Finding", "check_env", "print_findings", "suggest_limit"]


def check_env(
    env: EnvSource | VecEnv,
    *,
    env_args: Mapping[str, object] | None = None,
    constraints: Sequence[str] | None = None,
    cost: CostFunction | str | None = None,
    seed: int = 0,
    max_steps: int = 10_000,
) -> list[Finding]:
    """All faults of an environment, errors first; arguments as for `make_env`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # environments warn of what is judged here
        costs: CostFunction | None = load(cost) if isinstance(cost, str) else cost
        task = isinstance(env, str) and is_task(env)
        source = env if task or is_vectorised(env) else find_source(env, env_args)
        whole = isinstance(source, Factory) and source.takes_num_envs
        if task or is_vectorised(env) or whole or isinstance(source, Functional):
            found = _check_batch(source, env_args, constraints, costs, seed)
        else:
            plan = _Plan(source, constraints, costs, seed, max_steps)
            found = list(_check_single(plan))
    found = dict.fromkeys(found)  # each once, in order
    return sorted(found, key=lambda finding: ("error", "warning", "note").index(finding.severity))


@dataclass(frozen=True)
class _Plan:
    """The arguments of `check_env`."""

    source: EnvSource
    constraints: Sequence[str] | None
    cost: CostFunction | None
    seed: int
    max_steps: int


def _check_batch(
    env: Any,
    env_args: Mapping[str, object] | None,
    constraints: Sequence[str] | None,
    cost: CostFunction | None,
    seed: int,
) -> list[Finding]:
    found: list[Finding] = []
    count = num_envs_of(env) if is_vectorised(env) else 2
    try:
        envs = make_env(env, count, env_args=env_args, constraints=constraints, cost=cost)
    except ValueError as error:
        return [_split("construction", error)]
    try:
        for finding in check_vec_env(envs, seed):  # one by one: it may raise after some
            found.append(finding)
    except Exception as error:
        found.append(_failure("running", error, "actions were inside action_space."))
    if not is_vectorised(env):
        envs.close()
    return found


def _check_single(plan: _Plan) -> Iterator[Finding]:
    try:
        env = open_single(plan.source)
    except ValueError as error:
        yield _split("construction", error)
        return
    except EnvFailure as error:
        yield Finding("error", "construction", str(error), "make one by hand to see more.")
        return
    if is_functional(env):
        yield from _check_batch(described(env), None, plan.constraints, plan.cost, plan.seed)
        return
    if is_vectorised(env):
        yield from _check_batch(env, None, plan.constraints, plan.cost, plan.seed)
        yield from _close(env)
        return
    try:
        actions, broken = _spaces(env)
        yield from broken
        if actions is not None:
            yield from _dynamics(plan, env, actions)
    finally:
        if not is_instance(plan.source):
            yield from _close(env)
    error = None if is_instance(plan.source) else unsendable(plan.source)
    if error is not None:
        yield Finding(
            "note", "worker processes",
            f"the factory cannot be sent to worker processes: {type(error).__name__}: {error}",
            "open files, locks and simulators inside the factory; vectorise='sync' works as it is.",
        )  # fmt: skip


def _spaces(env: Any) -> tuple[ActionSpace | None, list[Finding]]:
    """The plain action space (None if the environment cannot be run) and the faults of the
    spaces.
    """
    found: list[Finding] = []
    label, actions = label_of(env), None
    observed, acted = getattr(env, "observation_space", None), getattr(env, "action_space", None)
    try:
        if is_space(observed):
            found += observation_space_findings(observed)
        if not found or found[0].severity != "error":
            flat_observation_space(observed, label)
    except ValueError as error:
        found.append(_split("observation space", error))
    try:
        actions = plain_action_space(acted, label)
        found += action_space_findings(acted)
    except ValueError as error:
        found.append(_split("action space", error))
    runnable = not any(finding.severity == "error" for finding in found)
    return actions if runnable else None, found


def _dynamics(plan: _Plan, env: Any, actions: ActionSpace) -> Iterator[Finding]:
    size = flat_observation_space(env.observation_space, "").shape[0]
    detail = min(1000 if size <= 10_000 else 50, plan.max_steps)  # images are large
    seen = record(env, actions, plan.seed, detail, plan.max_steps)
    if seen.failure is not None:
        yield _failure(f"{seen.failed_in}()", seen.failure, _failure_remedy(seen))
    yield from observation_findings(env.observation_space, seen)
    mistyped = list(type_findings(seen))
    yield from mistyped
    readable = not any(finding.severity == "error" for finding in mistyped)
    if seen.steps and readable:
        yield from _costs(plan, label_of(env), seen)
        yield from sum_findings(seen)
    spec = getattr(env, "spec", None)
    yield from episode_findings(seen, plan.max_steps, getattr(spec, "max_episode_steps", None))
    if seen.changed_action:
        yield Finding(
            "warning", "action changed", "step() writes into the action it is given.",
            "copy the action first.",
        )  # fmt: skip
    if seen.failure is None and readable:
        yield from _determinism(plan, env, actions, seen)


def _costs(plan: _Plan, label: str, seen: Recording) -> Iterator[Finding]:
    reward = np.array([np.asarray(step.reward).item() for step in seen.steps], np.float64)
    try:
        source = find_cost(label, seen.steps[0], plan.constraints, plan.cost)
        rows = [np.reshape(read_cost(source, step), -1) for step in seen.steps]
        cost = np.array(rows, np.float64)
    except Exception as error:
        yield _split("cost", error)
        yield from number_findings(reward, np.empty((0, 0)), ())
        return
    yield from number_findings(reward, cost, source.names)
    yield from early_end_findings(seen, cost, source.names)


def _determinism(plan: _Plan, env: Any, actions: ActionSpace, seen: Recording) -> Iterator[Finding]:
    """Repeat the same seed and actions in another environment, then in this one."""
    detail = len(seen.steps)
    if not is_instance(plan.source):
        other = open_single(plan.source)
        fresh = record(other, actions, plan.seed, detail, detail)
        yield from _close(other)
        if not same(seen, fresh):
            yield Finding(
                "error", "seed",
                "two new environments with the same seed and actions did different things.",
                "draw all random numbers from self.np_random, which super().reset(seed=seed) sets.",
            )  # fmt: skip
            return
    if not same(seen, record(env, actions, plan.seed, detail, detail)):
        yield Finding(
            "error", "reset",
            "reset(seed=...) did not bring the environment back: the same actions led elsewhere.",
            "set all state in reset(), and draw random numbers from self.np_random.",
        )  # fmt: skip


def _close(env: Any) -> Iterator[Finding]:
    try:
        if hasattr(env, "close"):
            env.close()
    except Exception as error:
        yield Finding(
            "warning", "close", f"close() raised {describe_error(error)}.",
            "make it safe to call once.",
        )  # fmt: skip


def _failure(where: str, error: Exception, remedy: str) -> Finding:
    return Finding("error", where, f"{where} raised {describe_error(error)}.", remedy)


def _failure_remedy(seen: Recording) -> str:
    if isinstance(seen.failure, TypeError) and seen.failed_in == "reset" and not seen.firsts:
        return "declare it as reset(self, *, seed=None, options=None)."
    return f"it happened after {seen.total} steps, with actions inside action_space."


def _split(check: str, error: Exception) -> Finding:
    """(problem, remedy) of an error: Holdfast's own messages have the remedy after the colon."""
    problem, _, remedy = str(error).partition(": ")
    if not isinstance(error, ValueError) or not remedy:
        problem, remedy = f"{type(error).__name__}: {error}", "see the message."
    return Finding("error", check, problem + ".", remedy)
