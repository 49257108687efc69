# SPDX-License-Identifier: Apache-2.0
"""All that the next epoch depends on: made, started by a seeded reset, or restored."""

from __future__ import annotations

import itertools
import warnings
from dataclasses import dataclass, replace
from typing import Any

import gymnasium as gym
import jax
import numpy as np
from jax import Array

from holdfast.core.critic import init_critics
from holdfast.core.episodes import Episodes
from holdfast.core.forecast import Forecast
from holdfast.core.policies import Gaussian, Policy, init_categorical, init_gaussian
from holdfast.core.types import Learner
from holdfast.envs.acting import Actor, Normaliser
from holdfast.envs.base import Floats, NotReproducible, Snapshot, VecEnv
from holdfast.run import Run
from holdfast.train.environment import Spaces

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


def first_state(run: Run, spaces: Spaces, shapes_only: bool = False) -> State:
    """Fresh networks and statistics; the environments are not reset yet.

    With `shapes_only` networks are shapes and types without numbers: to read a checkpoint by.
    """
    size = spaces.observation.shape[0]
    constraints = len(spaces.limits)
    algorithm = run.algorithm
    refuse_huge(run, spaces)

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


LARGEST = 10**9
"""Numbers in a network, or in one step of all environments."""


def refuse_huge(run: Run, spaces: Spaces) -> None:
    """What no machine could hold is refused before it is allocated."""
    space = spaces.action
    choices = space.n if isinstance(space, gym.spaces.Discrete) else spaces.action.shape[0]  # pyright: ignore[reportOptionalSubscript]
    if isinstance(space, gym.spaces.MultiDiscrete):
        choices = sum(space.nvec.tolist())
    widths = [spaces.observation.shape[0], *run.hidden, max(int(choices), len(spaces.limits))]
    weights = sum(a * b for a, b in itertools.pairwise(widths))
    if max(weights, run.num_envs * widths[0]) > LARGEST:
        raise ValueError(
            f"a network of widths {widths} has {weights:.1e} weights, and {run.num_envs} "
            f"environments show {run.num_envs * widths[0]:.1e} numbers at once; at most "
            f"{LARGEST:.0e} of each: lower hidden, num_envs or the size of an observation."
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


def reset_state(run: Run, env: VecEnv, state: State, epoch: int) -> State:
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


def restore_state(run: Run, env: VecEnv, state: State) -> State:
    """The environments as they were when the state was taken."""
    if state.env is None:
        return reset_state(run, env, state, state.epoch + 1)
    try:
        return replace(state, obs=env.restore(state.env))
    except NotReproducible as error:
        warnings.warn(
            f"{error} The run goes on with new episodes, and from here on differs from one that "
            "was never stopped.",
            stacklevel=2,
        )
        return reset_state(run, env, state, state.epoch + 1)


def resets_each_epoch(run: Run, env: VecEnv) -> bool:
    """Whether epochs start with a seeded reset: by choice, or as the env cannot be put back.

    Not with the window of finished episodes, which would miss the long ones that a reset cuts.
    """
    needed = not env.can_snapshot and run.cost_estimate == "epoch"
    return run.epoch_reset == "always" or (run.epoch_reset == "auto" and needed)


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
