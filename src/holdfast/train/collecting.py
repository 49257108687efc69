# SPDX-License-Identifier: Apache-2.0
"""An epoch's experience: acting, and the batch that an update learns from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from holdfast.core.episodes import observes_every_age
from holdfast.core.estimate import episode_numbers, estimate
from holdfast.core.networks import Network
from holdfast.core.types import Batch
from holdfast.envs.base import Floats, OnProgress, VecEnv
from holdfast.envs.rollout import Collecting, NotFinite, Rollout, collect, reject_not_finite
from holdfast.run import Run
from holdfast.train.environment import longer_epochs, steps_in_lockstep
from holdfast.train.metrics import cost_estimate
from holdfast.train.state import COST_NOISE, NOISE, State, actor_of
from holdfast.update import Advantages


class TrainingError(RuntimeError):
    """Training cannot go on; nothing before this epoch is lost."""


def collect_epoch(
    run: Run, env: VecEnv, state: State, index: int, on_progress: OnProgress | None
) -> tuple[Rollout, State]:
    """Act for an epoch; the state after it, still with the learner that acted."""
    actor = actor_of(run, state)
    rng = np.random.default_rng(np.random.SeedSequence([run.seed, index, NOISE]))
    noise = actor.draw(rng, (run.epoch_steps // run.num_envs, run.num_envs))
    try:
        if isinstance(env, Collecting) and not steps_in_lockstep(run):
            rollout = env.collect(actor, noise, on_progress, state.memory)
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
                on_progress=on_progress,
            )
        reject_not_finite(rollout)
    except NotFinite as error:
        raise TrainingError(f"epoch {index}: {error}; mend the environment") from None
    episodes = state.episodes.advance(rollout.reward, rollout.cost, rollout.done, run.cost_gamma)
    if np.isnan(episodes.smooth).any():
        raise TrainingError(
            f"epoch {index}: no episode has ended within {run.epoch_steps // run.num_envs} steps "
            "of each environment, so the cost is unknown; give the environment a time limit or "
            f"raise epoch_steps (now {run.epoch_steps})"
        )
    if run.cost_estimate == "epoch" and not observes_every_age(rollout.done):
        steps, idle = len(rollout.done), int((~rollout.done.any(0)).argmax())
        raise TrainingError(
            f"epoch {index}: environment {idle} ended no episode in its {steps} steps, so episodes "
            f"outlast an epoch and their cost is unknown; {longer_epochs(run, 2 * steps)}"
        )
    normaliser = actor.normaliser or state.normaliser
    if run.statistics == "epoch":
        normaliser = normaliser.merge_each(len(noise), rollout.mean, rollout.var)
    memory = rollout.seen[-1, :, obs.shape[1] :]
    return rollout, replace(state, obs=obs, memory=memory, normaliser=normaliser, episodes=episodes)


def compiled_estimate(run: Run) -> Callable[..., dict[str, Array]]:
    """The advantages and targets of a run, as its settings want them."""

    def run_estimate(
        layers: Any, arrays: Mapping[str, Array], key: Array, network: Network
    ) -> dict[str, Array]:
        return estimate(
            layers,
            arrays,
            key,
            gamma=(run.gamma, run.cost_gamma),
            lam=(run.lam, run.cost_lam),
            standardise_cost=run.standardise_cost,
            cost_value_noise=run.cost_value_noise,
            network=network,
        )

    return jax.jit(run_estimate, static_argnums=3)


def advantages_of(
    rollout: Rollout, estimate: Callable[..., dict[str, Array]], key: Array
) -> Advantages:
    """Advantages and targets of an epoch as a function of critics."""
    names = ("obs", "next_obs", "action", "terminated", "truncated")
    arrays = {name: getattr(rollout, name) for name in names}
    arrays |= {name: getattr(rollout, name).astype(np.float32) for name in ("reward", "cost")}
    return lambda critics: estimate(critics.layers, arrays, key, critics.network)


def believed(run: Run, cost: Floats, index: int) -> Floats:
    """[K] what the update of an epoch takes for J_c: measured, 0 at first (D3), disturbed (D31)."""
    if index == 1 and run.zero_first_estimate:
        return np.zeros_like(cost)
    rng = np.random.default_rng(np.random.SeedSequence([run.seed, index, COST_NOISE]))
    return cost + run.cost_estimate_noise * rng.standard_normal(cost.shape)


def batch_of(
    run: Run, state: State, rollout: Rollout, limits: Floats, advantages: Advantages, index: int
) -> tuple[Batch, dict[str, float]]:
    """The batch of an epoch, and how well the critics had explained its targets."""
    parts = advantages(state.learner.critics)
    explained = [float(x) for x in np.asarray(parts.pop("explained"))]
    size = rollout.reward.size
    number = lambda x: jnp.asarray(x, jnp.float32)
    cost, error, length = cost_estimate(run, state.episodes)
    batch = Batch(
        obs=jnp.asarray(rollout.obs if state.memory.size else rollout.obs.reshape(size, -1)),
        action=jnp.asarray(rollout.action.reshape(size, -1)),
        weight=jnp.full(size, 1 / size),
        episode=jnp.asarray(episode_numbers(rollout.done).reshape(size)),
        cost_return=number(believed(run, cost, index)),
        cost_error=number(error),
        cost_limit=number(limits),
        horizon=number(1 / (1 - run.cost_gamma)),
        length=number(length),
        cost_lam=number(run.cost_lam),
        progress=number((index - 1) / run.epochs),
        **parts,
    )
    return batch, {"explained_reward": explained[0], "explained_cost": min(explained[1:])}
