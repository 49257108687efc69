# SPDX-License-Identifier: Apache-2.0
"""The training state: make it, start it by a seeded reset, or restore it."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from holdfast.algorithms import Algorithm
from holdfast.core.critic import init_critics
from holdfast.core.episodes import Episodes, Forecast
from holdfast.core.networks import Network
from holdfast.core.noise_time import NoiseTime
from holdfast.core.policies import Gaussian, Policy, init_categorical, init_gaussian
from holdfast.core.tails import Tally
from holdfast.core.types import Learner
from holdfast.envs.acting import Actor, Float32, Normaliser
from holdfast.envs.base import Floats, NotReproducible, Snapshot, VecEnv
from holdfast.envs.foreign.spaces import flat_parts
from holdfast.process import shared
from holdfast.run import Run
from holdfast.train.environment import Spaces, claims

INIT, NOISE, VALUE_NOISE, UPDATE, RESET, COST_NOISE, EVALUATION = range(7)
"""Purposes of random draws."""


def key_of(run: Run, epoch: int, purpose: int) -> Array:
    """The random key of (seed, epoch, purpose)."""
    return jax.random.fold_in(jax.random.fold_in(jax.random.key(run.seed), epoch), purpose)


@dataclass(frozen=True)
class State:
    """The training state: all inputs of the next epoch."""

    epoch: int
    learner: Learner
    normaliser: Normaliser
    episodes: Episodes
    regret: Floats
    """[2, K] summed positive parts of (smoothed, raw) cost minus limit."""
    forecast: Forecast
    """The last update's predicted cost changes, and the earlier ones beside the realised
    changes.
    """
    obs: Floats
    """[N, O] the current observations, not normalised."""
    memory: Float32
    """[N, memory] the memory of a recurrent policy; 0 at the start of an episode."""
    tally: Tally
    """Estimates for limits beyond the mean; empty without such limits."""
    noise: NoiseTime
    """The correlation time of the next epoch's action noise."""
    env: Snapshot | None
    """None: the environment cannot be restored, so the next epoch starts with a seeded reset."""


def first_state(run: Run, spaces: Spaces, shapes_only: bool = False) -> State:
    """Fresh networks and statistics; the environments are not reset yet.

    With `shapes_only` networks contain shapes and types without numbers, as a template for reading
    a checkpoint.
    """
    size, (acting, judging) = spaces.observation.shape[0], networks(run, spaces)
    constraints = len(spaces.limits)
    algorithm = run.algorithm
    sizes = choices(spaces.action)
    refuse_huge(run, spaces, acting)

    actions = sizes or outputs(spaces.action)
    make = _compiled_learner(algorithm, acting, judging, size, actions, run.hidden, constraints)
    key = key_of(run, 0, INIT)
    learner = jax.eval_shape(make, key) if shapes_only else make(key)
    return State(
        epoch=0,
        learner=learner,
        normaliser=first_view(acting, spaces),
        episodes=Episodes.create(run.num_envs, constraints),
        regret=np.zeros((2, constraints)),
        forecast=Forecast.create(constraints),
        obs=np.zeros((run.num_envs, size)),
        memory=np.zeros((run.num_envs, acting.memory), np.float32),
        tally=Tally.create(claims(run, spaces.limits)),
        noise=NoiseTime.create(run.noise_time),
        env=None,
    )


@shared
def _compiled_learner(
    algorithm: Algorithm,
    acting: Network,
    judging: Network,
    size: int,
    actions: int | tuple[int, ...],
    hidden: tuple[int, ...],
    constraints: int,
) -> Callable[[Array], Learner]:
    """A key → fresh networks, as one compiled function instead of many small ones."""

    def learner_of(key: Array) -> Learner:
        policy_key, critic_key = jax.random.split(key)
        if isinstance(actions, tuple):
            policy = init_categorical(policy_key, size, actions, hidden, network=acting)
        else:
            policy = init_gaussian(policy_key, size, actions, hidden, network=acting)
        seen = size + acting.memory  # critics see what the policy remembers
        critics = init_critics(critic_key, seen, constraints, hidden, judging)
        return Learner(policy, critics, algorithm.init(constraints, policy))

    return jax.jit(learner_of)


LARGEST = 10**9
"""Largest number of weights in a network, or of numbers in one step of all environments."""


def refuse_huge(run: Run, spaces: Spaces, network: Network) -> None:
    """Refuse networks and batches that are too large, before they are allocated."""
    last = max(outputs(spaces.action), len(spaces.limits))
    widths = [spaces.observation.shape[0], *run.hidden, last]
    weights = sum(a * b for a, b in network.shapes(widths[0], run.hidden, widths[-1]))
    if max(weights, run.num_envs * widths[0]) > LARGEST:
        raise ValueError(
            f"a network of widths {widths} has {weights:.1e} weights, and {run.num_envs} "
            f"environments show {run.num_envs * widths[0]:.1e} numbers at once; at most "
            f"{LARGEST:.0e} of each: lower hidden, memory, num_envs or the size of an observation."
        )


def networks(run: Run, spaces: Spaces) -> tuple[Network, Network]:
    """Layer widths of the policy and of its critics.

    Critics have no memory of their own: the policy's memory is part of their input.
    """
    plain = Network(run.activation)
    if run.encoder == "gru":
        return replace(plain, memory=run.memory), plain
    if run.encoder == "mlp":
        return plain, plain
    space, read = spaces.native_observation, replace(plain, channels=run.channels)
    found = images_of(space)
    if not found:
        raise ValueError(
            f"encoder=cnn reads images, and this environment gives {space}: use encoder=mlp, or "
            "wrap the environment to give a bounded Box of shape (height, width, colours), "
            "(colours, height, width) or (height, width), or a Dict or Tuple that holds one."
        )
    if isinstance(space, gym.spaces.Box):
        _, *image, first = found[0]
        read = replace(read, image=tuple(image), colours_first=first)
    else:
        read = replace(read, images=found, width=spaces.observation.shape[0])
    return read, read


def images_of(space: gym.Space[Any]) -> tuple[tuple[int, int, int, int, bool], ...]:
    """(first number, height, width, colours, whether colours come first) of each image."""
    found: list[tuple[int, int, int, int, bool]] = []
    for begin, part in flat_parts(space):
        shape = tuple(part.shape or ())
        if isinstance(part, gym.spaces.Box) and len(shape) in (2, 3) and bounded(part):
            across, along, deep = shape if len(shape) == 3 else (*shape, 1)
            first = across < deep  # there are fewer colours than pixels
            sizes = (along, deep, across) if first else (across, along, deep)
            found.append((begin, *sizes, first))
    return tuple(found)


def bounded(space: gym.spaces.Box) -> bool:
    return bool(np.isfinite(space.low).all() and np.isfinite(space.high).all())


def first_view(network: Network, spaces: Spaces) -> Normaliser:
    """Initial observation statistics; with images they are constant and map a pixel's bounds to [0,
    1].
    """
    size = spaces.observation.shape[0]
    if not network.channels:
        return Normaliser.create(size)
    mean, scale = np.zeros(size), np.ones(size)
    pixels = {image[0] for image in images_of(spaces.native_observation)}
    for begin, part in flat_parts(spaces.native_observation):
        if not isinstance(part, gym.spaces.Box):
            continue
        low, high = (np.asarray(x, np.float64).reshape(-1) for x in (part.low, part.high))
        here = slice(begin, begin + low.size)
        if begin in pixels:
            mean[here], scale[here] = low, high - low
        else:  # numbers beside images: to [-1, 1] where they have bounds
            known = (np.abs(low) < BEYOND) & (np.abs(high) < BEYOND)
            low, high = np.where(known, low, -1.0), np.where(known, high, 1.0)
            mean[here], scale[here] = (low + high) / 2, (high - low) / 2
    return Normaliser(mean, scale**2, 1.0)


BEYOND = 1e6
"""A bound beyond this is not used as a scale of the observation."""


def outputs(space: gym.Space[Any]) -> int:
    """The number of outputs of a policy's network for an action space."""
    return sum(choices(space)) or math.prod(space.shape or ())


def choices(space: gym.Space[Any]) -> tuple[int, ...]:
    """Number of choices of each component of a discrete action; empty for a Gaussian policy."""
    if isinstance(space, gym.spaces.Box):
        return ()
    if isinstance(space, gym.spaces.Discrete):
        return (int(space.n),)
    if isinstance(space, gym.spaces.MultiDiscrete):
        return tuple(int(n) for n in space.nvec)
    raise ValueError(
        f"actions of type {type(space).__name__} are not supported; use Box, Discrete or "
        "MultiDiscrete, for instance through a Gymnasium wrapper."
    )


def reset_state(run: Run, env: VecEnv, state: State, epoch: int) -> State:
    """The state after a seeded reset: the first uses the run's seed, later ones a seed of the
    epoch.
    """
    seed = run.seed
    if epoch > 1:
        address = np.random.SeedSequence([run.seed, epoch, RESET])
        seed = int(address.generate_state(1)[0] >> 1)
    obs = env.reset(seed)
    normaliser = state.normaliser
    if run.statistics == "running":
        normaliser = normaliser.merge(obs)
    episodes, memory = state.episodes.forget_running(), np.zeros_like(state.memory)
    return replace(state, obs=obs, memory=memory, normaliser=normaliser, episodes=episodes)


def restore_state(run: Run, env: VecEnv, state: State) -> State:
    """Restore the environments to their state in the checkpoint."""
    if state.env is None:
        return reset_state(run, env, state, state.epoch + 1)
    try:
        return replace(state, obs=env.restore(state.env))
    except NotReproducible as error:
        warnings.warn(
            f"{error} The run continues with new episodes, so its later epochs differ from those "
            "of an uninterrupted run.",
            stacklevel=2,
        )
        return reset_state(run, env, state, state.epoch + 1)


def resets_each_epoch(run: Run, env: VecEnv) -> bool:
    """Whether epochs start with a seeded reset: by setting, or since the env cannot be restored.

    Never with the window of finished episodes, because resets cut long episodes.
    """
    needed = not env.can_snapshot and run.cost_estimate == "epoch"
    return run.epoch_reset == "always" or (run.epoch_reset == "auto" and needed)


def actor_of(run: Run, state: State, on_device: bool = False) -> Actor:
    """The policy of a state with its observation statistics, in NumPy or `on_device`."""
    scaled = run.statistics != "none" or run.encoder == "cnn"
    seen = state.normaliser if scaled else None
    xp = jnp if on_device else np
    actor = numpy_actor(state.learner.policy, seen, run.clip_actions == "always", xp)
    return replace(actor, noise_time=state.noise.time)


def numpy_actor(
    policy: Policy, normaliser: Normaliser | None = None, clip: bool = False, xp: Any = np
) -> Actor:
    """The actor with the parameters of `policy`; with `jax.numpy` they stay where they are."""
    layers = tuple((xp.asarray(w), xp.asarray(b)) for w, b in policy.layers)
    if isinstance(policy, Gaussian):
        std = xp.exp(xp.asarray(policy.log_std))
        return Actor(layers, std, (), normaliser, clip, policy.network)
    return Actor(layers, None, policy.sizes, normaliser, clip, policy.network)
