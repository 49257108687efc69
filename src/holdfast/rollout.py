# SPDX-License-Identifier: Apache-2.0
"""Rollouts: an epoch of experience from N environments, and the batch made of it.

Collecting is the hot path. Only actions are needed there, so the policy acts in NumPy, and what
needs a network on all samples (values, log-probabilities) is one compiled call afterwards.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import isfinite
from typing import Any, Literal, Protocol

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from holdfast.core.actor import Actor
from holdfast.core.critic import values
from holdfast.core.estimate import Normaliser, gae, standardise
from holdfast.core.policies import Layers
from holdfast.envs.base import Floats, Step, VecEnv
from holdfast.envs.native.epoch import moments
from holdfast.envs.native.pilot import Pilot

Normalise = Literal["running", "epoch", "none"]


class NotFinite(ValueError):
    """An environment produced NaN or infinity."""


@dataclass(frozen=True)
class Rollout:
    """T steps of N environments; observations as the policy saw them."""

    obs: NDArray[np.float32]
    """[T, N, O], normalised."""
    next_obs: NDArray[np.float32]
    """[T, N, O] true successors, normalised by the statistics of that moment."""
    action: NDArray[Any]
    """[T, N, A] or [T, N, D], as the policy gave it."""
    reward: NDArray[np.float64]
    """[T, N]"""
    cost: NDArray[np.float64]
    """[T, N, K]"""
    terminated: NDArray[np.bool_]
    """[T, N]"""
    truncated: NDArray[np.bool_]
    """[T, N]"""

    @property
    def done(self) -> NDArray[np.bool_]:
        return self.terminated | self.truncated


def to_env(space: gym.Space[Any], action: NDArray[Any], clip: bool) -> NDArray[Any]:
    """The policy's action in the environment's units.

    Box: [-1, 1] is mapped affinely to the bounds where these are finite, without clipping unless
    asked (D9). Discrete: the component itself, shifted by the space's start.
    """
    if isinstance(space, gym.spaces.Box):
        middle, half = box_scale(space)
        scaled = middle + half * action
        return np.clip(scaled, space.low, space.high) if clip else scaled
    if isinstance(space, gym.spaces.Discrete):
        return action[..., 0] + space.start
    return action


def box_scale(space: gym.spaces.Box) -> tuple[NDArray[Any], NDArray[Any]]:
    """(middle, half width) of the bounds, (0, 1) where a bound is infinite."""
    finite = np.isfinite(space.low) & np.isfinite(space.high)
    low, high = np.where(finite, space.low, -1.0), np.where(finite, space.high, 1.0)
    return ((low + high) / 2).astype(space.dtype), ((high - low) / 2).astype(space.dtype)


class Watch(Protocol):
    """Called now and then with the steps done in this epoch; may raise to stop."""

    def __call__(self, steps: int) -> None: ...


def collect(
    env: VecEnv,
    obs: Floats,
    actor: Actor,
    normaliser: Normaliser,
    noise: NDArray[np.float32],
    *,
    normalise: Normalise = "running",
    raw_final_obs: bool = False,
    clip_actions: bool = False,
    watch: Watch | None = None,
) -> tuple[Rollout, Floats, Normaliser]:
    """Act for noise.shape[0] vector steps from `obs`; also returns the last obs and statistics.

    `running` statistics move at every step, as in the published runs (D8); those of `epoch` are
    frozen and merged at the end, so that a batch which can act by itself does.
    """
    if (
        normalise != "running"
        and not raw_final_obs
        and hasattr(env, "collect")
        and actor.sizes == ()
    ):
        return _delegate(env, actor, normaliser, noise, normalise, clip_actions, watch)
    steps, num_envs = noise.shape[:2]
    size, constraints = obs.shape[1], len(env.cost_names)
    space = env.action_space
    if isinstance(space, gym.spaces.Box):
        middle, half = box_scale(space)
        convert: Callable[[NDArray[Any]], NDArray[Any]] = (
            (lambda a: np.clip(middle + half * a, space.low, space.high))
            if clip_actions
            else (lambda a: middle + half * a)
        )
    else:
        convert = lambda a: to_env(space, a, False)
    out = Rollout(
        obs=np.empty((steps, num_envs, size), np.float32),
        next_obs=np.empty((steps, num_envs, size), np.float32),
        action=np.empty(
            (steps, num_envs, len(actor.sizes) or actor.noise_size),
            np.float32 if actor.std is not None else np.int32,
        ),
        reward=np.empty((steps, num_envs)),
        cost=np.empty((steps, num_envs, constraints)),
        terminated=np.empty((steps, num_envs), np.bool_),
        truncated=np.empty((steps, num_envs), np.bool_),
    )
    seen = np.empty((steps, num_envs, size)) if normalise == "epoch" else None
    view: Callable[[Floats], NDArray[np.float32]] = (
        (lambda x: x.astype(np.float32)) if normalise == "none" else normaliser
    )
    x = view(obs)
    for t in range(steps):
        action = actor.act(x, noise[t])
        step = env.step(convert(action))
        _reject_broken_obs(step, t)
        out.obs[t], out.action[t] = x, action
        out.reward[t], out.cost[t] = step.reward, step.cost
        out.terminated[t], out.truncated[t] = step.terminated, step.truncated
        if normalise == "running":
            normaliser = view = normaliser.merge(step.obs)
        elif seen is not None:
            seen[t] = step.obs
        x = out.next_obs[t] = view(step.obs)
        ended = step.terminated | step.truncated
        if ended.any():
            x = x.copy()
            final = step.next_obs[ended]
            out.next_obs[t, ended] = final if raw_final_obs else view(final)
        obs = step.obs
        if watch is not None and t % 64 == 63:
            watch((t + 1) * num_envs)
    _reject_not_finite(out)
    if seen is not None:
        normaliser = after_epoch(normaliser, steps, *moments(seen))
    return out, obs, normaliser


def after_epoch(normaliser: Normaliser, steps: int, mean: Floats, var: Floats) -> Normaliser:
    """Statistics frozen for an epoch, merged with each environment's [N, O] in their order."""
    for pair in zip(mean, var, strict=True):
        normaliser = normaliser.combine(steps, *pair)
    return normaliser


def _reject_broken_obs(step: Step, t: int) -> None:
    """Before the running statistics see it, or one bad number would spoil all environments."""
    ended = step.obs is not step.next_obs
    if isfinite(step.obs.sum()) and (not ended or isfinite(step.next_obs.sum())):
        return
    for obs in (step.next_obs, step.obs):
        bad = ~np.isfinite(obs).all(1)
        if bad.any():
            raise NotFinite(
                f"environment {int(bad.argmax())} gave an observation that is not finite at step "
                f"{t} of this epoch"
            )


def _delegate(
    env: Any,
    actor: Actor,
    normaliser: Normaliser,
    noise: NDArray[np.float32],
    normalise: Normalise,
    clip: bool,
    watch: Watch | None,
) -> tuple[Rollout, Floats, Normaliser]:
    """An epoch without a hand-over at every step; the same to the last bit for any workers."""
    space: Any = env.action_space
    middle, half = box_scale(space)
    plain = normalise == "none"
    assert actor.std is not None
    pilot = Pilot(
        layers=actor.layers,
        std=actor.std,
        mean=np.zeros_like(normaliser.mean) if plain else normaliser.mean,
        deviation=np.ones_like(normaliser.var) if plain else np.sqrt(normaliser.var + 1e-8),
        middle=middle,
        half=half,
        low=space.low if clip else None,
        high=space.high if clip else None,
    )
    within = (lambda t: watch(t * noise.shape[1])) if watch else None
    epoch = env.collect(pilot, noise, within)
    out = Rollout(**{name: getattr(epoch, name) for name in Rollout.__dataclass_fields__})
    _reject_not_finite(out)
    if not plain:
        normaliser = after_epoch(normaliser, len(noise), epoch.mean, epoch.var)
    return out, env.observation, normaliser


def _reject_not_finite(rollout: Rollout) -> None:
    """Stop at the first NaN or infinity, naming what, where and when."""
    for name in ("next_obs", "reward", "cost"):
        values_ = getattr(rollout, name)
        bad = ~np.isfinite(values_)
        if bad.any():
            t, env = (int(i) for i in np.argwhere(bad)[0][:2])
            what = "an observation" if name == "next_obs" else f"a {name}"
            raise NotFinite(
                f"environment {env} gave {what} that is not finite at step {t} of this epoch"
            )


def estimate(
    layers: Layers,
    rollout: Rollout,
    key: Array,
    *,
    gamma: tuple[float, float],
    lam: tuple[float, float],
    standardise_cost: bool,
    cost_value_noise: float,
) -> dict[str, Array]:
    """Advantages and critic targets of a rollout: the fields of a batch that need the critics.

    `gamma` and `lam` are (reward, cost). The noise is that of the ablation: every stored and every
    bootstrapped cost value is off by an independent normal error, also after termination.
    """
    steps, num_envs = rollout.reward.shape
    size = rollout.obs.shape[-1]
    flat_values = lambda obs: values(layers, jnp.asarray(obs).reshape(-1, size))
    value = flat_values(rollout.obs).reshape(steps, num_envs, -1)
    next_value = flat_values(rollout.next_obs).reshape(value.shape)
    terminated, done = jnp.asarray(rollout.terminated), jnp.asarray(rollout.done)
    next_value = jnp.where(terminated[..., None], 0.0, next_value)
    if cost_value_noise:
        shift = cost_value_noise * jax.random.normal(key, (2, *value[..., 1:].shape))
        value = value.at[..., 1:].add(shift[0])
        # A stored value is also the bootstrap of the step before it, with the same error.
        follows = jnp.concatenate([shift[0, 1:], shift[1, -1:]])
        next_value = next_value.at[..., 1:].add(jnp.where(done[..., None], shift[1], follows))
    signal = jnp.concatenate([rollout.reward[..., None], rollout.cost], -1).astype(value.dtype)
    each = lambda pair: jnp.asarray([pair[0]] + [pair[1]] * (signal.shape[-1] - 1), value.dtype)
    never, end = jnp.zeros_like(done)[..., None], done[..., None]
    advantage = gae(signal, value, next_value, never, end, gamma=each(gamma), lam=each(lam))
    flat = advantage.reshape(-1, signal.shape[-1])
    adv_c = flat[:, 1:] - flat[:, 1:].mean(0)
    if standardise_cost:
        adv_c = adv_c / (flat[:, 1:].std(0, ddof=1) + 1e-8)
    return {
        "adv_r": standardise(flat[:, 0]),
        "adv_c": adv_c,
        "target": (advantage + value).reshape(flat.shape),
        "explained": _explained(value.reshape(flat.shape), (advantage + value).reshape(flat.shape)),
    }


def _explained(value: Array, target: Array) -> Array:
    """[1 + K] share of the targets' variance that the critics explained before their fit."""
    return 1 - (target - value).var(0) / (target.var(0) + 1e-8)


def episode_numbers(done: NDArray[np.bool_]) -> NDArray[np.int32]:
    """[T, N] a number for each episode (or piece of one) in the rollout."""
    within = np.concatenate([np.zeros((1, done.shape[1]), np.int64), done[:-1].cumsum(0)])
    first = np.concatenate([[0], (within[-1] + 1).cumsum()[:-1]])
    return (within + first).astype(np.int32)
