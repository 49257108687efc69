# SPDX-License-Identifier: Apache-2.0
"""The one training loop: an iterator of epochs.

    for epoch in train(run, env):        # everything is a function of (run, env)
        print(epoch.metrics["ep_return"], epoch.metrics["ep_cost"])

Every random draw is a function of (seed, epoch, purpose), so resuming needs the state of one epoch
and no generator. Logging and saving belong into the body of the loop; the usual one is
`holdfast.runs.training.train_in_folder`.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np

from holdfast.core.policies import Policy
from holdfast.envs.base import OnProgress, VecEnv
from holdfast.run import Run
from holdfast.train.environment import Spaces, claims, refuse_biased, refuse_untestable
from holdfast.train.epoch import (
    TrainingError,
    advantages_of,
    batch_of,
    bounded_costs,
    collect_epoch,
    compiled_estimate,
    device_of,
    diagnose,
    excess,
    next_noise,
    progress_row,
    with_forecast,
)
from holdfast.train.state import (
    UPDATE,
    VALUE_NOISE,
    State,
    first_state,
    key_of,
    reset_state,
    resets_each_epoch,
    restore_state,
)
from holdfast.train.update import make_update

SHOWN = ("ep_return", "ep_cost", "cost_regret_raw")
"""The metrics in the repr of an epoch."""


@dataclass(frozen=True, repr=False)
class Epoch:
    """One pass of the loop: its metrics and the state after it."""

    index: int
    """The number of the epoch; the first is 1."""
    env_steps: int
    metrics: dict[str, float | int]
    state: State
    """`train(run, env, state)` continues from here."""

    def __repr__(self) -> str:
        metrics = ", ".join(f"{n} {self.metrics[n]:.4g}" for n in SHOWN if n in self.metrics)
        return f"Epoch({self.index}, {self.env_steps:,} steps, {metrics})"


def train(
    run: Run, env: VecEnv, state: State | None = None, on_progress: OnProgress | None = None
) -> Generator[Epoch]:
    """Epochs of a run, from the start or from a state.

    `on_progress` is called from time to time within an epoch with the run's number of steps.
    """
    spaces = Spaces.of(run, env)
    limits = np.array([claim.bound for claim in claims(run, spaces.limits)])
    refuse_biased(run, env)
    refuse_untestable(run, env)
    state = state or first_state(run, spaces)
    device = device_of(run, env)
    if device is not None:
        state = replace(state, learner=device.place(state.learner))
    estimate, update = compiled_estimate(run), make_update(run.algorithm, device is not None)
    stitch = resets_each_epoch(run, env)
    resumed = state.epoch > 0
    if resumed and not stitch:
        state = restore_state(run, env, state)
    for index in range(state.epoch + 1, run.epochs + 1):
        clock = [time.perf_counter()]
        if stitch or index == 1:
            state = reset_state(run, env, state, index)
        begun = state.episodes.running
        rollout, state = collect_epoch(run, env, state, index, on_progress)
        rollout, state = bounded_costs(run, state, rollout, begun)
        clock.append(time.perf_counter())
        advantages = advantages_of(rollout, estimate, key_of(run, index, VALUE_NOISE))
        batch, explained = batch_of(run, state, rollout, limits, advantages, index)
        clock.append(time.perf_counter())
        key = key_of(run, index, UPDATE)
        learner, metrics, spent = update(state.learner, batch, key, advantages)
        metrics, spent = jax.device_get((metrics, spent))
        metrics = {name: value.item() for name, value in metrics.items()}
        metrics |= diagnose(run, state.learner, learner, batch, advantages, metrics)
        clock.append(time.perf_counter())
        lasted = {"noise_time": state.noise.time}
        state = replace(
            state,
            epoch=index,
            learner=learner,
            regret=state.regret + excess(run, state.episodes, limits, state.tally),
            noise=next_noise(run, state, limits),
            env=env.snapshot() if env.can_snapshot and not stitch else None,
        )
        _reject_broken(learner.policy, index)
        state, compared = with_forecast(run, env, state, spent)
        shown = progress_row(run, env, state, metrics | compared | explained | lasted, clock)
        yield Epoch(index, index * run.epoch_steps, shown, state)


def _reject_broken(policy: Policy, epoch: int) -> None:
    for leaf in jax.tree.leaves(policy):
        if not bool(jnp.isfinite(leaf).all()):
            raise TrainingError(
                f"epoch {epoch}: a parameter of the policy is not finite; lower the radius or "
                "check the scale of rewards and observations"
            )
