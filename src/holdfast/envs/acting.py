# SPDX-License-Identifier: Apache-2.0
"""Acting: a policy as plain NumPy data, and the one loop that collects an epoch with it.

A small MLP on a few observations is faster here than through a JAX dispatch, and worker processes
need not load JAX. Randomness is given, not drawn: who acts, and where, changes nothing. Nor does it
depend, to the last bit, on how a batch is split among workers: BLAS rounds a row differently in
products of different height, so each row is multiplied by itself, as a stack of [1, O] products;
elementwise functions round each number alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from math import isfinite
from typing import Any, Protocol, runtime_checkable

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from holdfast.envs.base import Floats, OnProgress, Step, VecEnv

Float32 = NDArray[np.float32]
Arrays = dict[str, NDArray[Any]]

PATIENCE = 64
"""Vector steps between two calls of `on_progress`."""


class NotFinite(ValueError):
    """An environment produced NaN or infinity."""


@dataclass(frozen=True)
class Normaliser:
    """Mean and population variance of all observations seen, in float64."""

    mean: NDArray[np.float64]
    """[O]"""
    var: NDArray[np.float64]
    """[O]"""
    count: float

    @classmethod
    def create(cls, size: int) -> Normaliser:
        return cls(np.zeros(size), np.ones(size), 1e-4)

    def merge(self, obs: NDArray[Any]) -> Normaliser:
        """The statistics after a further batch [n, O]."""
        return self.combine(len(obs), *moments(np.asarray(obs, np.float64)))

    def merge_each(self, count: int, mean: Floats, var: Floats) -> Normaliser:
        """The statistics after `count` observations of each environment [N, O], in their order."""
        merged = self
        for pair in zip(mean, var, strict=True):
            merged = merged.combine(count, *pair)
        return merged

    def combine(self, n: int, mean: NDArray[Any], var: NDArray[Any]) -> Normaliser:
        """The statistics after n further observations, by the parallel-variance formula."""
        total = self.count + n
        shift = mean - self.mean
        spread = self.var * self.count + var * n + shift * shift * (self.count * n / total)
        return Normaliser(self.mean + shift * (n / total), spread / total, total)

    @property
    def scale(self) -> NDArray[np.float64]:
        """√(var + 1e-8)"""
        return np.sqrt(self.var + 1e-8)

    def __call__(self, obs: NDArray[Any]) -> Float32:
        """(o − mean) / scale, unclipped, as float32."""
        return ((obs - self.mean) / self.scale).astype(np.float32)


def moments(obs: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(mean, population variance) over the first axis."""
    mean = obs.sum(0) / len(obs)
    squares = obs - mean
    squares *= squares  # in place: these arrays are large
    return mean, squares.sum(0) / len(obs)


@dataclass(frozen=True)
class Actor:
    """A policy and its view of observations.

    x = normalised obs;  Gaussian: a = MLP(x) + std · noise;  Categorical: argmax(MLP(x) + noise)
    """

    layers: tuple[tuple[Float32, Float32], ...]
    """(weight [in, out], bias [out]) with tanh between; () lets the noise alone act."""
    std: Float32 | None
    """[A] of a Gaussian policy."""
    sizes: tuple[int, ...] = ()
    """Choices of each component of a Categorical policy; () for a Gaussian one."""
    normaliser: Normaliser | None = None
    """Statistics of the observations; None leaves them as they are."""
    clip: bool = False
    """Whether actions are clipped to the bounds of the environment's Box (D9)."""

    @property
    def noise_size(self) -> int:
        return sum(self.sizes) if self.std is None else len(self.std)

    def draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Float32:
        """Noise [*shape, noise_size] for `act`: standard normal, or Gumbel for choices."""
        full = (*shape, self.noise_size)
        if self.std is not None:
            return rng.standard_normal(full, np.float32)
        return -np.log(rng.standard_exponential(full, np.float32) + np.float32(1e-30))

    def view(self, obs: NDArray[Any]) -> Float32:
        """What the policy sees of obs [n, O]."""
        return obs.astype(np.float32) if self.normaliser is None else self.normaliser(obs)

    def act(self, seen: Float32, noise: Float32 | None) -> NDArray[Any]:
        """Actions [n, A] or [n, D], in the policy's units; without noise the most likely one."""
        out = self.outputs(seen) if self.layers else np.zeros((len(seen), self.noise_size), "f4")
        if self.std is not None:
            return out if noise is None else out + self.std * noise
        score = out if noise is None else out + noise
        splits = np.cumsum(self.sizes)[:-1]
        return np.stack([block.argmax(-1) for block in np.split(score, splits, axis=-1)], -1)

    def outputs(self, seen: Float32) -> Float32:
        """[n, noise_size] the mean of a Gaussian policy, the scores of a Categorical one."""
        x: NDArray[Any] = seen[:, None, :]
        for weight, bias in self.layers[:-1]:
            x = np.tanh(x @ weight + bias)
        weight, bias = self.layers[-1]
        return (x @ weight)[:, 0] + bias

    def to_arrays(self) -> Arrays:
        """Named arrays, for another process."""
        arrays: Arrays = {"sizes": np.array(self.sizes, np.int64), "clip": np.array([self.clip])}
        if self.std is not None:
            arrays["std"] = self.std
        if self.normaliser is not None:
            arrays |= {"mean": self.normaliser.mean, "var": self.normaliser.var}
            arrays["count"] = np.array([self.normaliser.count])
        for i, (weight, bias) in enumerate(self.layers):
            arrays |= {f"weight{i}": weight, f"bias{i}": bias}
        return arrays

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> Actor:
        """The inverse of `to_arrays`."""
        depth = sum(name.startswith("weight") for name in arrays)
        seen = None
        if "mean" in arrays:
            seen = Normaliser(arrays["mean"], arrays["var"], float(arrays["count"][0]))
        return cls(
            tuple((arrays[f"weight{i}"], arrays[f"bias{i}"]) for i in range(depth)),
            arrays.get("std"),
            tuple(arrays["sizes"].tolist()),
            seen,
            bool(arrays["clip"][0]),
        )


def action_map(space: gym.Space[Any], clip: bool) -> Callable[[NDArray[Any]], NDArray[Any]]:
    """From the policy's actions to the environment's.

    Box: [-1, 1] is mapped affinely to the bounds where these are finite, without clipping unless
    asked (D9). Discrete: the component itself, shifted by the space's start.
    """
    if isinstance(space, gym.spaces.Box):
        middle, half = box_scale(space)
        if clip:
            return lambda a: np.clip(middle + half * a, space.low, space.high)
        return lambda a: middle + half * a
    if isinstance(space, gym.spaces.Discrete):
        start = space.start
        return lambda a: a[..., 0] + start
    return lambda a: a


def box_scale(space: gym.spaces.Box) -> tuple[NDArray[Any], NDArray[Any]]:
    """(middle, half the width) of a Box, in its dtype; (0, 1) where a bound is infinite."""
    finite = np.isfinite(space.low) & np.isfinite(space.high)
    low, high = np.where(finite, space.low, -1.0), np.where(finite, space.high, 1.0)
    return ((low + high) / 2).astype(space.dtype), ((high - low) / 2).astype(space.dtype)


@dataclass(frozen=True)
class Rollout:
    """T steps of N environments; observations as the policy saw them."""

    seen: Float32
    """[T + 1, N, O] before each action, and before the next."""
    final: Float32
    """[M, O] true successors at the ends of episodes, by environment, then time."""
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
    mean: NDArray[np.float64]
    """[N, O] of what each environment gave to act on next, before normalising."""
    var: NDArray[np.float64]
    """[N, O]"""

    @property
    def obs(self) -> Float32:
        """[T, N, O]"""
        return self.seen[:-1]

    @property
    def next_obs(self) -> Float32:
        """[T, N, O] true successors."""
        out = self.seen[1:].copy()
        out.swapaxes(0, 1)[self.done.T] = self.final
        return out

    @property
    def done(self) -> NDArray[np.bool_]:
        return self.terminated | self.truncated

    def to_arrays(self) -> Arrays:
        """Field -> array, for another process."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @classmethod
    def join(cls, parts: list[Arrays]) -> Rollout:
        """One rollout of shares of a batch, in the order of their environments."""
        axis = {"final": 0, "mean": 0, "var": 0}
        whole = lambda name: np.concatenate([part[name] for part in parts], axis.get(name, 1))
        return cls(**{field.name: whole(field.name) for field in fields(cls)})


@runtime_checkable
class Collecting(Protocol):
    """A batch that can act by itself for a whole epoch, without a hand-over at every step."""

    @property
    def observation(self) -> Floats:
        """[N, O] what to act on next."""
        ...

    def collect(
        self, actor: Actor, noise: Float32, on_progress: OnProgress | None = None
    ) -> Rollout:
        """Act for noise.shape[0] steps with frozen statistics; noise [T, N, noise_size]."""
        ...


def collect(
    env: VecEnv,
    obs: Floats,
    actor: Actor,
    noise: Float32,
    *,
    moving: bool = False,
    raw_final_obs: bool = False,
    on_progress: OnProgress | None = None,
) -> tuple[Rollout, Floats, Actor]:
    """Act for noise.shape[0] vector steps from `obs`; returns also the last obs and the actor.

    `moving` statistics change with every step, as in the published runs (D8), so the actor that is
    returned has others; otherwise they are frozen, and `Rollout.mean` and `var` are what to merge.
    """
    check_noise(noise, len(obs), actor)
    shape, size = noise.shape[:2], obs.shape[1]
    choices = actor.std is None
    width, kind = (len(actor.sizes), np.int32) if choices else (actor.noise_size, np.float32)
    seen = np.empty((shape[0] + 1, shape[1], size), np.float32)
    action = np.empty((*shape, width), kind)
    raw = np.empty((0 if moving else shape[0], shape[1], size))
    reward, cost = np.empty(shape), np.empty((*shape, len(env.cost_names)))
    terminated, truncated = np.empty(shape, np.bool_), np.empty(shape, np.bool_)
    finals: list[list[NDArray[Any]]] = [[] for _ in range(shape[1])]
    to_env = action_map(env.action_space, actor.clip)
    seen[0] = actor.view(obs)
    for t in range(shape[0]):
        action[t] = actor.act(seen[t], noise[t])
        step = env.step(to_env(action[t]))
        reward[t], cost[t] = step.reward, step.cost
        terminated[t], truncated[t] = step.terminated, step.truncated
        if moving:
            _reject_broken_obs(step, t)
            assert actor.normaliser is not None
            actor = replace(actor, normaliser=actor.normaliser.merge(step.obs))
        else:
            raw[t] = step.obs
        seen[t + 1] = actor.view(step.obs)
        if step.obs is not step.next_obs:
            for i in np.flatnonzero(step.terminated | step.truncated):
                last = step.next_obs[i]
                finals[i].append(last if raw_final_obs else actor.view(last))
        obs = step.obs
        if on_progress is not None and (t + 1) % PATIENCE == 0:
            on_progress((t + 1) * shape[1])
    final = np.array([row for rows in finals for row in rows], np.float32).reshape(-1, size)
    parts = moments(raw) if len(raw) else (np.zeros((shape[1], 0)),) * 2
    rollout = Rollout(seen, final, action, reward, cost, terminated, truncated, *parts)
    return rollout, obs, actor


def check_noise(noise: NDArray[Any], num_envs: int, actor: Actor) -> None:
    """Refuse noise that does not fit the batch."""
    if noise.ndim != 3 or noise.shape[1:] != (num_envs, actor.noise_size):
        raise ValueError(
            f"noise of shape {noise.shape} does not fit: expected (steps, {num_envs}, "
            f"{actor.noise_size}), one row for each environment and step."
        )


def _reject_broken_obs(step: Step, t: int) -> None:
    """Before the moving statistics see it, or one bad number would spoil all environments."""
    ended = step.obs is not step.next_obs
    if isfinite(step.obs.sum()) and (not ended or isfinite(step.next_obs.sum())):
        return
    for obs in (step.next_obs, step.obs):
        bad = ~np.isfinite(obs).all(1)
        if bad.any():
            raise _not_finite(int(bad.argmax()), "an observation", t)


def reject_not_finite(rollout: Rollout) -> None:
    """Stop at the first NaN or infinity, naming what, where and when."""
    for name in ("next_obs", "reward", "cost"):
        bad = ~np.isfinite(getattr(rollout, name))
        if bad.any():
            t, env = (int(i) for i in np.argwhere(bad)[0][:2])
            raise _not_finite(env, "an observation" if name == "next_obs" else f"a {name}", t)


def _not_finite(env: int, what: str, t: int) -> NotFinite:
    return NotFinite(f"environment {env} gave {what} that is not finite at step {t} of this epoch")
