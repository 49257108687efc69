# SPDX-License-Identifier: Apache-2.0
"""Checks of a run: values out of range, and settings that cannot be used together."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from holdfast.algorithms import ChecksLimits, ComparesCosts, InMinibatches, RewardOnly
from holdfast.core.limits import refuse_number
from holdfast.core.types import check_range
from holdfast.judge.verdict import FEWEST
from holdfast.settings import shown

if TYPE_CHECKING:
    from holdfast.run.fields import Run

MOST = {"seed": 2**32 - 1, "num_envs": 10**6, "workers": 10**4, "epoch_steps": 10**10}
"""Largest values: beyond them random keys would repeat, or a run would not fit in memory."""


def check_run(run: Run) -> None:
    """Refuse a run that cannot be trained; the error names the value, the reason and a remedy."""
    _check_sizes(run)
    _check_networks(run)
    _check_limits(run)
    _check_kinds(run)
    _check_args(run)
    check_range(run, "[0, 1)", "try 0.99", "gamma", "cost_gamma")
    check_range(run, "[0, 1]", "try 0.95", "lam", "cost_lam")
    check_range(run, "[0, inf)", "0 waits for ever", "step_timeout")
    check_range(run, "[0, inf)", "0 is off", "cost_value_noise", "cost_estimate_noise")
    if run.noise_time != "auto":
        check_range(run, "[0, inf)", "0 is white noise, auto finds a time", "noise_time")


def _check_sizes(run: Run) -> None:
    sizes = ("steps", "num_envs", "epoch_steps", "save_every", "keep")
    check_range(run, "[1, inf)", "the defaults are usual", *sizes)
    check_range(run, "[0, inf)", "0 is usual", "seed", "workers", "schedule_steps")
    check_range(run, "[0, inf)", "0 is off", "evaluate_every")
    if not FEWEST <= run.evaluate_episodes <= 10**6:
        raise ValueError(
            f"evaluate_episodes={run.evaluate_episodes} must be at least {FEWEST} and at most "
            "a million: fewer do not show how far costs spread; 20 is usual."
        )
    if 0 < run.schedule_steps < run.steps:
        raise ValueError(
            f"schedule_steps={run.schedule_steps} must be 0 or at least steps={run.steps}: a "
            "schedule does not define the steps after its end."
        )
    for name, most in MOST.items():
        if getattr(run, name) > most:
            raise ValueError(f"{name}={getattr(run, name)} must be at most {most}.")
    if run.epoch_steps % run.num_envs:
        fitting = run.epoch_steps // run.num_envs * run.num_envs or run.num_envs
        raise ValueError(
            f"epoch_steps={run.epoch_steps} is not a multiple of num_envs={run.num_envs}; "
            f"use epoch_steps={fitting} so that every environment makes equally many steps."
        )


def _check_networks(run: Run) -> None:
    for name in ("hidden", "channels"):
        widths: tuple[int, ...] = getattr(run, name)
        if len(widths) > 100 or any(not 0 < width <= 10**6 for width in widths):
            raise ValueError(f"{name}={shown(widths)} must hold positive widths, such as 64 64.")
    if not 0 < run.memory <= 10**6 or not run.channels:
        raise ValueError(
            f"memory={run.memory} and channels={shown(run.channels)} must not be empty; use "
            "encoder=mlp for a network without either."
        )
    if run.encoder == "gru" and isinstance(run.algorithm, InMinibatches):
        raise ValueError(
            f"encoder=gru cannot be used with {run.name}: it learns from shuffled steps, and "
            "a memory is learned from steps in their order; use a trust-region method, such "
            "as c-trpo, or encoder=mlp."
        )


def _check_args(run: Run) -> None:
    for name, value in run.env_args.items():
        try:
            plain = json.loads(json.dumps(value)) == value
        except (TypeError, ValueError, RecursionError):
            plain = False
        if not plain:
            raise ValueError(
                f"env_args has {name}={shown(value)}, which run.json cannot keep: use numbers, "
                "texts, lists and dictionaries, or pass a function that makes the environment."
            )


def _check_limits(run: Run) -> None:
    given = {} if run.cost_limit is None else {"cost_limit": run.cost_limit}
    for name, limit in given.items():
        refuse_number(name, limit)
    check_costs(run, {name: limit.bound for name, limit in run.kinds.items()} | given)


def _check_kinds(run: Run) -> None:
    """Limits beyond the mean need an algorithm and settings that support them."""
    for name, limit in run.kinds.items():
        if limit.kind == "mean":
            continue
        called = f"the limit {name}={limit}"
        reward_only = isinstance(run.algorithm, RewardOnly)
        if limit.is_constraint and reward_only:
            raise ValueError(
                f"{called} is a constraint, and {run.name} keeps none: use a method that "
                f"does, such as c-trpo, or '{limit.amount:g} budget', a penalty."
            )
        if not limit.is_constraint and not reward_only:
            raise ValueError(
                f"{called} changes the reward in place of a constraint, and {run.name} keeps "
                "constraints: use a method for reward alone, such as trpo or ppo, or 'worst "
                "5%' or 'in 95%' after the number."
            )
        if run.cost_criterion == "discounted":
            raise ValueError(
                f"{called} is on the plain sum of an episode and cannot be used with "
                "cost_criterion=discounted; leave that out."
            )
        if run.cost_estimate == "window":
            raise ValueError(
                f"{called} has an estimate of its own, pooled over epochs, and cannot be used "
                "with cost_estimate=window; use cost_estimate=epoch."
            )
        if run.encoder == "cnn":
            raise ValueError(
                f"{called} appends the remaining budget to the observation, which an "
                "image has no place for; use encoder=mlp."
            )


def check_costs(run: Run, limits: Mapping[str, float]) -> None:
    """Whether the algorithm can work on these costs, under these limits."""
    if isinstance(run.algorithm, ComparesCosts):
        _check_units(run, run.algorithm)
    if isinstance(run.algorithm, ChecksLimits):
        run.algorithm.check_limits(limits)


def _check_units(run: Run, algorithm: ComparesCosts) -> None:
    """Predicted and measured cost can be compared only in the same units."""
    if run.standardise_cost:
        raise ValueError(
            f"standardise_cost cannot be used with {type(algorithm).__name__}: it compares "
            "predicted with measured cost, and standardised advantages have lost their units; "
            "leave it off."
        )
    if run.cost_criterion == "discounted" and algorithm.cost_scale == "episode":
        raise ValueError(
            "cost_scale=episode predicts the plain sum of an episode and cannot be used with "
            "cost_criterion=discounted; use cost_scale=discount, which predicts the discounted "
            "one."
        )
