# SPDX-License-Identifier: Apache-2.0
"""The one training loop: an iterator of epochs.

    for epoch in train(run, env):        # everything is a function of (run, env)
        print(epoch.metrics["ep_return"], epoch.metrics["ep_cost"])

Randomness has an address: every draw comes from (seed, epoch, purpose), so resuming needs the state
of one epoch and no generator. Logging and saving are loop bodies; the usual one is
`holdfast.runs.training.train_in_folder`.
"""

from __future__ import annotations

import itertools
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from holdfast.core.critic import init_critics
from holdfast.core.episodes import Episodes, observes_every_age
from holdfast.core.estimate import episode_numbers, estimate
from holdfast.core.forecast import Forecast
from holdfast.core.policies import Gaussian, Policy, init_categorical, init_gaussian
from holdfast.core.types import Batch, Learner, Metrics
from holdfast.envs.acting import (
    Actor,
    Collecting,
    Normaliser,
    NotFinite,
    Rollout,
    collect,
    reject_not_finite,
)
from holdfast.envs.base import Floats, NotReproducible, OnProgress, Snapshot, VecEnv
from holdfast.envs.make import make_env
from holdfast.run import Run
from holdfast.update import concurrent, split

INIT, NOISE, VALUE_NOISE, UPDATE, RESET = range(5)
"""Purposes of randomness."""


@dataclass(frozen=True)
class State:
    """All that the next epoch depends on."""

    epoch: int
    learner: Learner
    normaliser: Normaliser
    episodes: Episodes
    regret: Floats
    """[2, K] summed positive parts of (smoothed, raw) cost minus limit."""
    forecast: Forecast
    """The change of the costs that the last update predicts, and how earlier ones came true."""
    obs: Floats
    """[N, O] what the policy acts on next, as the environment gave it."""
    env: Snapshot | None
    """None: the environment cannot be put back, so the next epoch starts with a seeded reset."""


@dataclass(frozen=True)
class Epoch:
    """One pass of the loop: what happened and where it leads."""

    index: int
    """From 1."""
    env_steps: int
    metrics: dict[str, float | int]
    state: State
    """`train(run, env, state)` continues from here."""


class TrainingError(RuntimeError):
    """Training cannot go on; nothing before this epoch is lost."""


def train(
    run: Run, env: VecEnv, state: State | None = None, on_progress: OnProgress | None = None
) -> Iterator[Epoch]:
    """Epochs of a run, from the start or from a state."""
    limits = resolve_limits(run, env)
    refuse_biased(run, env)
    state = state or first_state(run, Spaces.of(run, env))
    estimate_, update = compiled(run)
    keys = lambda purpose, epoch: jax.random.fold_in(
        jax.random.fold_in(jax.random.key(run.seed), epoch), purpose
    )
    stitch = resets_each_epoch(run, env)
    resumed = state.epoch > 0
    if resumed and not stitch:
        state = put_back(run, env, state)
    for index in range(state.epoch + 1, run.epochs + 1):
        clock = [time.perf_counter()]
        if stitch or index == 1:
            state = started(run, env, state, index)
        rollout, state = _collect(run, env, state, index, on_progress)
        clock.append(time.perf_counter())
        batch, explained = _batch(
            run, state, rollout, limits, estimate_, keys(VALUE_NOISE, index), index
        )
        clock.append(time.perf_counter())
        learner, metrics = update(state.learner, batch, keys(UPDATE, index))
        metrics = jax.device_get(metrics)
        spent = metrics.pop("spent", None)
        metrics = {name: value.item() for name, value in metrics.items()}
        clock.append(time.perf_counter())
        state = replace(
            state,
            epoch=index,
            learner=learner,
            regret=state.regret + excess(run, state.episodes, limits),
            env=env.snapshot() if env.can_snapshot and not stitch else None,
        )
        _reject_broken(learner.policy, index)
        state, compared = foresee(run, env, state, spent)
        shown = report(run, env, state, metrics | compared | explained, clock)
        yield Epoch(index, index * run.epoch_steps, shown, state)


def resolve_limits(run: Run, env: VecEnv) -> NDArray[np.float64]:
    """[K] the limit of each of the environment's constraints."""
    unknown = [name for name in run.limits if name not in env.cost_names]
    if unknown:
        raise ValueError(
            f"no constraint is called '{unknown[0]}'; this environment reports "
            f"{', '.join(env.cost_names)}."
        )
    return np.array([run.limits.get(name, run.cost_limit) for name in env.cost_names])


def resets_each_epoch(run: Run, env: VecEnv) -> bool:
    """Whether epochs start with a seeded reset: by choice, or as the env cannot be put back.

    Not with the window of finished episodes, which would miss the long ones that a reset cuts.
    """
    needed = not env.can_snapshot and run.cost_estimate == "epoch"
    return run.epoch_reset == "always" or (run.epoch_reset == "auto" and needed)


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
            f"{limit} costs; {_longer_epochs(run, limit)}"
        )


def _longer_epochs(run: Run, steps: int) -> str:
    """The remedy: an epoch of so many steps of each environment."""
    fewer = run.epoch_steps // steps
    other = f" or lower num_envs to {fewer}" if fewer else ""
    return (
        f"raise epoch_steps to {steps * run.num_envs}{other}, or choose cost_estimate='window', "
        "which lags and in the first epochs favours short episodes."
    )


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


def open_env(run: Run, env: Any, cost: Any = None, lockstep: bool = False) -> VecEnv:
    """The batch of environments that a run asks for; `lockstep`: to be stepped, not to train."""
    return make_env(
        env,
        run.num_envs,
        constraints=run.constraints,
        cost=cost,
        vectorise=run.vectorise,
        workers=run.workers,
        lockstep=lockstep or steps_in_lockstep(run),
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


def first_state(run: Run, spaces: Spaces, shapes_only: bool = False) -> State:
    """Fresh networks and statistics; the environments are not reset yet.

    With `shapes_only` networks are shapes and types without numbers: to read a checkpoint by.
    """
    size = spaces.observation.shape[0]
    constraints = len(spaces.limits)
    algorithm = run.algorithm

    def networks(key: Array) -> Learner:
        policy_key, critic_key = jax.random.split(key)
        policy = init_policy(policy_key, size, spaces.action, run.hidden)
        critics = init_critics(critic_key, size, constraints, run.hidden)
        return Learner(policy, critics, algorithm.init(constraints, policy))

    key = jax.random.fold_in(jax.random.fold_in(jax.random.key(run.seed), 0), INIT)
    # Compiled: once, instead of once for every small operation.
    learner = jax.eval_shape(networks, key) if shapes_only else jax.jit(networks)(key)
    return State(
        epoch=0,
        learner=learner,
        normaliser=Normaliser.create(size),
        episodes=Episodes.create(run.num_envs, constraints),
        regret=np.zeros((2, constraints)),
        forecast=Forecast.create(constraints),
        obs=np.zeros((run.num_envs, size)),
        env=None,
    )


def init_policy(
    key: Array, obs_size: int, space: gym.Space[Any], hidden: tuple[int, ...]
) -> Policy:
    """Gaussian for Box actions, Categorical for Discrete and MultiDiscrete ones."""
    if isinstance(space, gym.spaces.Box):
        return init_gaussian(key, obs_size, space.shape[0], hidden)
    if isinstance(space, gym.spaces.Discrete):
        return init_categorical(key, obs_size, (int(space.n),), hidden)
    if isinstance(space, gym.spaces.MultiDiscrete):
        return init_categorical(key, obs_size, tuple(int(n) for n in space.nvec), hidden)
    raise ValueError(
        f"actions of type {type(space).__name__} are not supported; use Box, Discrete or "
        "MultiDiscrete, for instance through a Gymnasium wrapper."
    )


Update = Callable[[Learner, Batch, Array], tuple[Learner, Metrics]]


def compiled(run: Run) -> tuple[Callable[..., dict[str, Array]], Update]:
    """The two compiled functions of a run: estimate and update."""

    def estimate_(layers: Any, arrays: Mapping[str, Array], key: Array) -> dict[str, Array]:
        return estimate(
            layers,
            arrays,
            key,
            gamma=(run.gamma, run.cost_gamma),
            lam=(run.lam, run.cost_lam),
            standardise_cost=run.standardise_cost,
            cost_value_noise=run.cost_value_noise,
        )

    return jax.jit(estimate_), concurrent(split(run.algorithm))


def started(run: Run, env: VecEnv, state: State, epoch: int) -> State:
    """After a seeded reset: the seed itself at first, then one for each epoch."""
    seed = run.seed
    if epoch > 1:
        address = np.random.SeedSequence([run.seed, epoch, RESET])
        seed = int(address.generate_state(1)[0] >> 1)
    obs = env.reset(seed)
    normaliser = state.normaliser
    if run.normalise == "running":
        normaliser = normaliser.merge(obs)
    return replace(state, obs=obs, normaliser=normaliser, episodes=state.episodes.forget_running())


def put_back(run: Run, env: VecEnv, state: State) -> State:
    """The environments as they were when the state was taken."""
    if state.env is None:
        return started(run, env, state, state.epoch + 1)
    try:
        return replace(state, obs=env.restore(state.env))
    except NotReproducible as error:
        warnings.warn(
            f"{error} The run goes on with new episodes, and from here on differs from one that "
            "was never stopped.",
            stacklevel=2,
        )
        return started(run, env, state, state.epoch + 1)


def actor_of(run: Run, state: State) -> Actor:
    """The policy of a state, with its view of observations, in NumPy."""
    seen = None if run.normalise == "none" else state.normaliser
    return numpy_actor(state.learner.policy, seen, run.clip_actions == "always")


def numpy_actor(policy: Policy, normaliser: Normaliser | None = None, clip: bool = False) -> Actor:
    """The actor that does what `policy` says."""
    layers = tuple((np.asarray(w), np.asarray(b)) for w, b in policy.layers)
    if isinstance(policy, Gaussian):
        return Actor(layers, np.exp(np.asarray(policy.log_std)), (), normaliser, clip)
    return Actor(layers, None, policy.sizes, normaliser, clip)


def _collect(
    run: Run, env: VecEnv, state: State, index: int, on_progress: OnProgress | None
) -> tuple[Rollout, State]:
    actor = actor_of(run, state)
    rng = np.random.default_rng(np.random.SeedSequence([run.seed, index, NOISE]))
    noise = actor.draw(rng, (run.epoch_steps // run.num_envs, run.num_envs))
    try:
        if isinstance(env, Collecting) and not steps_in_lockstep(run):
            rollout = env.collect(actor, noise, on_progress)
            obs = env.observation
        else:
            rollout, obs, actor = collect(
                env,
                state.obs,
                actor,
                noise,
                moving=run.normalise == "running",
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
            f"outlast an epoch and their cost is unknown; {_longer_epochs(run, 2 * steps)}"
        )
    normaliser = actor.normaliser or state.normaliser
    if run.normalise == "epoch":
        normaliser = normaliser.merge_each(len(noise), rollout.mean, rollout.var)
    return rollout, replace(state, obs=obs, normaliser=normaliser, episodes=episodes)


def _batch(
    run: Run,
    state: State,
    rollout: Rollout,
    limits: Floats,
    estimate_: Callable[..., dict[str, Array]],
    key: Array,
    index: int,
) -> tuple[Batch, dict[str, float]]:
    """The batch of an epoch, and how well the critics had explained its targets."""
    names = ("obs", "next_obs", "action", "terminated", "truncated")
    arrays = {name: getattr(rollout, name) for name in names}
    arrays |= {name: getattr(rollout, name).astype(np.float32) for name in ("reward", "cost")}
    parts = estimate_(state.learner.critics.layers, arrays, key)
    explained = [float(x) for x in np.asarray(parts.pop("explained"))]
    size = rollout.reward.size
    number = lambda x: jnp.asarray(x, jnp.float32)
    cost, error, length = cost_estimate(run, state.episodes)
    first = index == 1 and run.zero_first_estimate
    batch = Batch(
        obs=jnp.asarray(rollout.obs.reshape(size, -1)),
        action=jnp.asarray(rollout.action.reshape(size, -1)),
        weight=jnp.full(size, 1 / size),
        episode=jnp.asarray(episode_numbers(rollout.done).reshape(size)),
        cost_return=number(np.zeros_like(cost) if first else cost),
        cost_error=number(error),
        cost_limit=number(limits),
        horizon=number(1 / (1 - run.cost_gamma)),
        length=number(length),
        cost_lam=number(run.cost_lam),
        progress=number((index - 1) / run.epochs),
        **parts,
    )
    return batch, {"explained_reward": explained[0], "explained_cost": min(explained[1:])}


def cost_columns(run: Run, episodes: Episodes) -> slice:
    """Where the constrained quantity stands in the rows of `Episodes`."""
    k = episodes.constraints
    return slice(2, 2 + k) if run.cost_criterion == "undiscounted" else slice(2 + k, None)


def cost_estimate(run: Run, episodes: Episodes) -> tuple[Floats, Floats, float]:
    """([K] Ĵ_c, [K] its standard error, mean episode length), all of the estimate in use."""
    columns = cost_columns(run, episodes)
    if run.cost_estimate == "window":
        known, error = episodes.smooth, episodes.smooth_error
    else:
        known, error = episodes.raw, episodes.raw_error
    return known[columns], error[columns], float(known[1])


def excess(run: Run, episodes: Episodes, limits: Floats) -> Floats:
    """[2, K] positive part of (smoothed, raw) cost minus limit in this epoch."""
    columns = cost_columns(run, episodes)
    both = np.stack([episodes.smooth[columns], episodes.raw[columns]])
    return np.maximum(both - limits, 0.0)


def foresee(
    run: Run, env: VecEnv, state: State, spent: Floats | None
) -> tuple[State, dict[str, float]]:
    """The state with what the update predicts [K], if it does, and the columns that tell of it."""
    if spent is None:
        return state, {}
    forecast, realised = state.forecast.after(cost_estimate(run, state.episodes)[0], spent)
    metrics = {"spent": forecast.spent, "realised": realised, "spent_ratio": forecast.ratio}
    ends = ["", *(f"/{cost}" for cost in env.cost_names)] if len(env.cost_names) > 1 else [""]
    row = {f"{name}{end}": float(v[i]) for name, v in metrics.items() for i, end in enumerate(ends)}
    return replace(state, forecast=forecast), row


def report(
    run: Run, env: VecEnv, state: State, metrics: Mapping[str, float], clock: list[float]
) -> dict[str, float | int]:
    """The row of progress.csv."""
    columns = cost_columns(run, state.episodes)
    smooth, raw = state.episodes.smooth, state.episodes.raw
    rollout, prepare, update = (b - a for a, b in itertools.pairwise(clock))
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
    for name in ("kl", "divergence", "recovering"):
        row[name] = 0
    row |= {name: int(v) if isinstance(v, bool | int) else v for name, v in metrics.items()}
    row |= {
        "steps_per_second": run.epoch_steps / (clock[-1] - clock[0]),
        "time_rollout": rollout,
        "time_estimate": prepare,
        "time_update": update,
    }
    return row


CLOCK_COLUMNS = ("steps_per_second", "time_rollout", "time_estimate", "time_update")
"""The only columns that differ between two runs of the same (config, seed)."""


def _reject_broken(policy: Policy, epoch: int) -> None:
    for leaf in jax.tree.leaves(policy):
        if not bool(jnp.isfinite(leaf).all()):
            raise TrainingError(
                f"epoch {epoch}: a parameter of the policy is not finite; lower the radius or "
                "check the scale of rewards and observations"
            )
