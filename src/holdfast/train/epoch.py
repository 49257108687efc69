# SPDX-License-Identifier: Apache-2.0
"""One epoch: acting, the batch of the update, and the row of metrics."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from holdfast.algorithms import ComparesCosts, InTrustRegion
from holdfast.core.critic import CriticFit
from holdfast.core.diagnosis import signal_share, worst_case
from holdfast.core.episodes import Episodes, observes_every_age
from holdfast.core.estimate import episode_numbers, estimate
from holdfast.core.noise_time import NoiseTime
from holdfast.core.tails import Tally
from holdfast.core.trust_region import TrustRegion
from holdfast.core.types import Batch, Learner, in_units
from holdfast.envs.acting import Actor
from holdfast.envs.base import Floats, OnProgress, VecEnv
from holdfast.envs.rollout import (
    Collecting,
    NotFinite,
    OnDevice,
    Rollout,
    collect,
    reject_not_finite,
)
from holdfast.process import shared
from holdfast.run import Run
from holdfast.train.environment import longer_epochs, steps_in_lockstep
from holdfast.train.state import COST_NOISE, NOISE, State, actor_of, key_of
from holdfast.train.update import Advantages

TIME_COLUMNS = ("time_rollout", "time_estimate", "time_update")
"""Columns with the seconds of the parts of an epoch, in their order."""
CLOCK_COLUMNS = ("steps_per_second", *TIME_COLUMNS)
"""The only columns that differ between two runs with the same settings and seed."""


class TrainingError(RuntimeError):
    """Training cannot continue; all earlier epochs are kept."""


def collect_epoch(
    run: Run, env: VecEnv, state: State, index: int, on_progress: OnProgress | None
) -> tuple[Rollout, State]:
    """Act for an epoch; returns the state after it, with the learner unchanged."""
    device = device_of(run, env)
    actor = actor_of(run, state, on_device=device is not None)
    noise = _noise(run, device, actor, index)
    before = (index - 1) * run.epoch_steps
    within = on_progress and (lambda steps: on_progress(before + steps))
    try:
        if isinstance(env, Collecting) and not steps_in_lockstep(run):
            rollout = env.collect(actor, noise, within, state.memory)
            obs = env.observation
        else:
            rollout, obs, actor = collect(
                env,
                state.obs,
                actor,
                noise,
                memory=state.memory,
                moving=run.statistics == "running",
                raw_final_obs=run.raw_final_obs,
                on_progress=within,
            )
        reject_not_finite(rollout)
    except NotFinite as error:
        raise TrainingError(f"epoch {index}: {error}; correct the environment") from None
    episodes = state.episodes.after(rollout.summary(state.episodes.running, run.cost_gamma))
    if np.isnan(episodes.smooth).any():
        raise TrainingError(
            f"epoch {index}: no episode has ended within {run.epoch_steps // run.num_envs} steps "
            "of each environment, so the cost is unknown; give the environment a time limit or "
            f"raise epoch_steps (now {run.epoch_steps})"
        )
    if run.cost_estimate == "epoch" and not observes_every_age(rollout.done):
        steps, idle = len(rollout.done), int((~rollout.done.any(0)).argmax())
        raise TrainingError(
            f"epoch {index}: environment {idle} ended no episode in its {steps} steps, so "
            "episodes are longer than an epoch and their cost is unknown; "
            f"{longer_epochs(run, 2 * steps)}"
        )
    normaliser = actor.normaliser or state.normaliser
    if run.statistics == "epoch":
        each = run.epoch_steps // len(rollout.mean)
        normaliser = normaliser.merge_each(each, rollout.mean, rollout.var)
    memory = rollout.seen[-1, :, obs.shape[1] :]
    return rollout, replace(state, obs=obs, memory=memory, normaliser=normaliser, episodes=episodes)


def device_of(run: Run, env: VecEnv) -> OnDevice | None:
    """The environment if the steps of an epoch stay on its device; encoders act in NumPy."""
    stays = run.encoder == "mlp" and not steps_in_lockstep(run)
    return env if isinstance(env, OnDevice) and stays else None


def _noise(run: Run, device: OnDevice | None, actor: Actor, index: int) -> Any:
    """The noise [T, N, noise_size] of an epoch."""
    steps = run.epoch_steps // run.num_envs
    if device is not None:
        return device.draw(actor, key_of(run, index, NOISE), steps)
    rng = np.random.default_rng(np.random.SeedSequence([run.seed, index, NOISE]))
    return actor.draw(rng, (steps, run.num_envs))


def compiled_estimate(run: Run) -> Callable[..., dict[str, Array]]:
    """The advantages and targets of a run by its settings."""
    gamma, lam = (run.gamma, run.cost_gamma), (run.lam, run.cost_lam)
    return _compiled_estimate(gamma, lam, run.standardise_cost, run.cost_value_noise)


@shared
def _compiled_estimate(
    gamma: tuple[float, float],
    lam: tuple[float, float],
    standardise_cost: bool,
    cost_value_noise: float,
) -> Callable[..., dict[str, Array]]:
    settings = partial(
        estimate,
        gamma=gamma,
        lam=lam,
        standardise_cost=standardise_cost,
        cost_value_noise=cost_value_noise,
    )
    return jax.jit(settings)


def advantages_of(
    rollout: Rollout, estimate: Callable[..., dict[str, Array]], key: Array
) -> Advantages:
    """Advantages and targets of an epoch as a function of critics."""
    names = ("obs", "next_obs", "action", "terminated", "truncated")
    arrays = {name: getattr(rollout, name) for name in names}
    arrays |= {name: getattr(rollout, name).astype(np.float32) for name in ("reward", "cost")}
    return lambda critics: estimate(critics, arrays, key)


def cost_seen_by_update(run: Run, cost: Floats, index: int) -> Floats:
    """[K] the J_c of an epoch's update: the estimate, 0 in the first update (D3), with noise
    (D31).
    """
    if index == 1 and run.zero_first_estimate:
        return np.zeros_like(cost)
    rng = np.random.default_rng(np.random.SeedSequence([run.seed, index, COST_NOISE]))
    return cost + run.cost_estimate_noise * rng.standard_normal(cost.shape)


def batch_of(
    run: Run, state: State, rollout: Rollout, limits: Floats, advantages: Advantages, index: int
) -> tuple[Batch, dict[str, float]]:
    """The batch of an epoch, and the critics' explained variance of its targets."""
    parts = advantages(state.learner.critics)
    explained = [float(x) for x in np.asarray(parts.pop("explained"))]
    size = rollout.reward.size
    number = lambda x: jnp.asarray(x, jnp.float32)
    cost, error, length = measured(run, state)
    batch = Batch(
        obs=jnp.asarray(rollout.obs if state.memory.size else rollout.obs.reshape(size, -1)),
        action=jnp.asarray(rollout.action.reshape(size, -1)),
        weight=jnp.full(size, 1 / size),
        episode=jnp.asarray(_episode_numbers(rollout.done).reshape(size)),
        cost_return=number(cost_seen_by_update(run, cost, index)),
        cost_error=number(error),
        cost_limit=number(limits),
        horizon=number(1 / (1 - run.cost_gamma)),
        length=number(length),
        cost_lam=number(run.cost_lam),
        progress=number((index - 1) / run.schedule_epochs),
        **parts,
    )
    return batch, {"explained_reward": explained[0], "explained_cost": min(explained[1:])}


def _episode_numbers(done: Any) -> Any:
    return _numbers_on_device(done) if isinstance(done, Array) else episode_numbers(done)


_numbers_on_device = jax.jit(partial(episode_numbers, xp=jnp))


def cost_columns(run: Run, episodes: Episodes) -> slice:
    """The constrained quantity's columns in `Episodes`."""
    k = episodes.constraints
    return slice(2, 2 + k) if run.cost_criterion == "undiscounted" else slice(2 + k, None)


def cost_estimate(run: Run, episodes: Episodes) -> tuple[Floats, Floats, float]:
    """([K] Ĵ_c, [K] its standard error, mean episode length) of the chosen estimate."""
    columns = cost_columns(run, episodes)
    if run.cost_estimate == "window":
        known, error = episodes.smooth, episodes.smooth_error
    else:
        known, error = episodes.raw, episodes.raw_error
    return known[columns], error[columns], float(known[1])


def measured(run: Run, state: State) -> tuple[Floats, Floats, float]:
    """`cost_estimate` with the tail or the chance in place of the mean, if the limit is on it."""
    cost, error, length = cost_estimate(run, state.episodes)
    return *state.tally.override(cost, error), length


def bounded_costs(run: Run, state: State, rollout: Rollout, start: Floats) -> tuple[Rollout, State]:
    """The rollout with the costs for limits beyond the mean, and the state with their estimates.

    `start` [N, 2 + 2K] are the sums of the unfinished episodes at the start of the epoch.
    """
    if not state.tally.beyond:
        return rollout, state
    spent = start[:, 2 : 2 + state.episodes.constraints]
    told = np.asarray(rollout.cost), np.asarray(rollout.done)
    tally, cost = state.tally.advance(*told, spent, start[:, 1])
    return replace(rollout, cost=cost), replace(state, tally=tally)


def excess(run: Run, episodes: Episodes, limits: Floats, tally: Tally | None = None) -> Floats:
    """[2, K] positive part of (smoothed, raw) cost minus limit in this epoch.

    For a tail or a chance it uses the (pooled, raw) estimate.
    """
    columns = cost_columns(run, episodes)
    both = np.stack([episodes.smooth[columns], episodes.raw[columns]])
    for k in tally.beyond if tally else ():
        assert tally is not None
        both[:, k] = tally.found[[0, 2], k]
    return np.maximum(both - limits, 0.0)


def next_noise(run: Run, state: State, limits: Floats) -> NoiseTime:
    """The noise after this epoch: as set, or chosen by the uncertainty of this epoch's costs."""
    if run.noise_time != "auto":
        return state.noise
    _, error, length = cost_estimate(run, state.episodes)
    return state.noise.after(error, limits, length)


def with_forecast(
    run: Run, env: VecEnv, state: State, spent: Floats | None
) -> tuple[State, dict[str, float]]:
    """The state with the update's predicted cost changes [K], if any, and their columns."""
    if spent is None:
        return state, {}
    forecast, realised = state.forecast.after(measured(run, state)[0], spent)
    metrics = {"spent": forecast.spent, "realised": realised, "spent_ratio": forecast.ratio}
    ends = ["", *(f"/{cost}" for cost in env.cost_names)] if len(env.cost_names) > 1 else [""]
    row = {f"{name}{end}": float(v[i]) for name, v in metrics.items() for i, end in enumerate(ends)}
    return replace(state, forecast=forecast), row


def diagnose(
    run: Run,
    old: Learner,
    new: Learner,
    batch: Batch,
    advantages: Advantages,
    metrics: Mapping[str, float],
) -> dict[str, float]:
    """The optional columns on the step from `old` to `new`."""
    if not (run.worst_case or run.signal_share):
        return {}
    critic = run.algorithm.critic
    if isinstance(critic, CriticFit) and critic.comes_first(old.critics, len(batch.weight)):
        # These advantages made the step.
        seen = advantages(new.critics)
        batch = replace(batch, adv_r=seen["adv_r"], adv_c=seen["adv_c"])
    columns: dict[str, float] = {}
    if run.worst_case:
        columns |= worst_case_columns(run, old, new, batch, metrics)
    if run.signal_share:
        made = run.algorithm
        region = made.region if isinstance(made, InTrustRegion) else TrustRegion()
        columns |= {k: float(x) for k, x in _signal_share(old.policy, batch, region).items()}
    return columns


def worst_case_columns(
    run: Run, old: Learner, new: Learner, batch: Batch, metrics: Mapping[str, float]
) -> dict[str, float]:
    """The upper bound on the cost change of an update, and the barrier's share of the radius."""
    if isinstance(run.algorithm, ComparesCosts):
        batch = in_units(batch, run.algorithm.cost_scale)
    found = _worst_case(old.policy, new.policy, batch, run.cost_gamma)
    columns = {name: float(x) for name, x in found.items()}
    if isinstance(run.algorithm, InTrustRegion):
        barrier = metrics["divergence"] - metrics["kl"]
        columns["delta_beta"] = run.algorithm.region.radius - barrier
    return columns


_worst_case = jax.jit(worst_case)
_signal_share = jax.jit(signal_share, static_argnums=2)


def beyond_columns(env: VecEnv, state: State) -> dict[str, float]:
    """Estimates for limits beyond the mean with their errors: `tail`, `chance`, and a tail's ν."""
    row, tally = dict[str, float](), state.tally
    for k in tally.beyond:
        value, error, _ = tally.found[:, k]
        name = tally.limits[k].kind
        end = f"/{env.cost_names[k]}" if len(env.cost_names) > 1 else ""
        row |= {f"{name}{end}": float(value), f"{name}_error{end}": float(error)}
        if name == "tail":
            row[f"tail_level{end}"] = float(tally.level[k])
    return row


def progress_row(
    run: Run, env: VecEnv, state: State, metrics: Mapping[str, float], clock: list[float]
) -> dict[str, float | int]:
    """The row of progress.csv."""
    columns = cost_columns(run, state.episodes)
    smooth, raw = state.episodes.smooth, state.episodes.raw
    row: dict[str, float | int] = {
        "epoch": state.epoch,
        "env_steps": state.epoch * run.epoch_steps,
        "ep_return": float(smooth[0]),
        "ep_cost": float(smooth[columns].sum()),
        "ep_length": float(smooth[1]),
        "cost_regret": float(state.regret[0].sum()),
        "ep_return_raw": float(raw[0]),
        "ep_cost_raw": float(raw[columns].sum()),
        "cost_regret_raw": float(state.regret[1].sum()),
        "episodes": state.episodes.ended,
    }
    if len(env.cost_names) > 1:
        for i, name in enumerate(env.cost_names):
            row[f"ep_cost/{name}"] = float(smooth[columns][i])
            row[f"cost_regret/{name}"] = float(state.regret[0, i])
            row[f"ep_cost_raw/{name}"] = float(raw[columns][i])
            row[f"cost_regret_raw/{name}"] = float(state.regret[1, i])
    row |= beyond_columns(env, state)
    for name in ("kl", "divergence", "recovering"):
        row[name] = 0
    row |= {name: int(v) if isinstance(v, bool | int) else v for name, v in metrics.items()}
    speed = run.epoch_steps / (clock[-1] - clock[0])
    parts = (after - before for before, after in itertools.pairwise(clock))
    return row | dict(zip(CLOCK_COLUMNS, (speed, *parts), strict=True))
