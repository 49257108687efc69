# SPDX-License-Identifier: Apache-2.0
"""The run of the next training or evaluation, from the arguments of `Agent` and its methods."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from holdfast.algorithms import Algorithm
from holdfast.envs.base import VecEnv
from holdfast.envs.foreign.source import EnvSource, name_env, name_function
from holdfast.envs.functional.functional_source import is_functional
from holdfast.envs.make import is_given, is_vectorised, num_envs_of
from holdfast.own_barrier import settled
from holdfast.register import PresetName
from holdfast.run import Run, divisible, make_run
from holdfast.train.environment import Given


@dataclass(frozen=True)
class Arguments:
    """The arguments of `Agent(...)`."""

    algorithm: str | Algorithm
    preset: PresetName | None
    settings: Mapping[str, Any]

    def run(self, **changes: Any) -> Run:
        """A first run; epochs of the usual length are adapted to `num_envs`."""
        chosen = {**self.settings, **changes}
        count, usual = chosen.get("num_envs", 0), Run().epoch_steps
        if "epoch_steps" not in chosen and isinstance(count, int):
            if divisible(usual, count) != usual:
                chosen["epoch_steps"] = divisible(usual, count)
        return make_run(self.algorithm, self.preset, **chosen)

    def fits_epochs(self, settings: Mapping[str, object]) -> bool:
        """Whether epochs are fitted to the task: nobody chose their length."""
        chosen = "epoch_steps" in self.settings or "epoch_steps" in settings
        return self.preset is None and not chosen


def plain_settings(settings: Mapping[str, object]) -> dict[str, Any]:
    """Settings in the form of `make_run`: a single number of `limits` is the limit of the cost."""
    plain: dict[str, Any] = dict(settings)
    limit = plain.get("limits")
    if isinstance(limit, int | float):
        if plain.get("cost_limit") is not None:
            raise ValueError(f"limits={limit} and cost_limit both limit the cost: give one.")
        del plain["limits"]
        plain["cost_limit"] = float(limit)
    return settled(plain)


def is_alone(env: object) -> bool:
    """Whether it is a single instance that cannot be copied; functional ones can be batched."""
    return is_given(env) and not is_vectorised(env) and not is_functional(env)


def named(given: Given, before: Given, arguments: Arguments) -> dict[str, Any]:
    """Settings that follow from the environment and the cost function passed to `learn`."""
    env, cost = given
    known: dict[str, Any] = {}
    if env is not None and env is not before[0]:
        known["env"], known["env_args"] = name_env(env)
    if env is not None and is_vectorised(env):
        known["num_envs"] = num_envs_of(env)
    elif is_alone(env) and "num_envs" not in arguments.settings:
        known["num_envs"] = 1
    if cost is not None:
        known["cost"] = cost if isinstance(cost, str) else name_function(cost)
    return known


def refuse_unused_limit(run: Run, settings: Mapping[str, object]) -> None:
    """Refuse a limit of the cost beside limits by name."""
    if run.limits and settings.get("cost_limit") is not None:
        raise ValueError(
            f"cost_limit={run.cost_limit} has no effect beside limits by name: "
            f"give limits={dict.fromkeys(run.limits, run.cost_limit)}."
        )


def run_elsewhere(run: Run, env: EnvSource | VecEnv, args: Mapping[str, object] | None) -> Run:
    """The run with another environment and its number of copies."""
    name, own = name_env(env)
    count = num_envs_of(env) if is_vectorised(env) else 1 if is_given(env) else run.num_envs
    changes = {"env": name, "env_args": dict(own if args is None else args)}
    return replace(run, num_envs=count, epoch_steps=count, **changes)
