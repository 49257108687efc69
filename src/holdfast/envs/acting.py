# SPDX-License-Identifier: Apache-2.0
"""Acting: a policy as plain NumPy data.

A small network on a few observations is faster here than through a JAX dispatch, and acting
processes need not import JAX. Random numbers are arguments, so results do not depend on the process
that acts. Nor do they depend, to the last bit, on the division of a batch among workers. BLAS
rounds a row differently in products of different height, so each row is multiplied separately, as a
stack of [1, O] products (an image as one of [pixels, O]). Elementwise functions round each number
separately.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from holdfast.core.networks import DENSE, Network
from holdfast.envs.base import Floats
from holdfast.envs.noise import gumbel, slow_normal

Float32 = NDArray[np.float32]
Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Normaliser:
    """Mean and population variance of all observations so far, in float64."""

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
    """A policy with its observation statistics.

    x = normalised obs;  Gaussian: a = f(x) + std · noise;  Categorical: argmax(f(x) + noise)

    For a policy with a memory, x is followed by the memory, which is 0 at the start of an episode,
    and `act` also returns the next memory. Otherwise the memory has size 0.
    """

    layers: tuple[tuple[Float32, Float32], ...]
    """(weight [in, out], bias [out]) of f; (): the action is the noise alone."""
    std: Float32 | None
    """[A] standard deviation of a Gaussian policy."""
    sizes: tuple[int, ...] = ()
    """Choices of each component of a Categorical policy; () for a Gaussian one."""
    normaliser: Normaliser | None = None
    """Statistics of the observations; None leaves them as they are."""
    clip: bool = False
    """Whether actions are clipped to the bounds of the environment's Box (D9)."""
    network: Network = DENSE
    """The architecture of f."""
    noise_time: float = 0.0
    """Correlation time of the noise in steps; 0: independent in every step."""

    @property
    def obs_size(self) -> int:
        """O, without the memory."""
        network = self.network
        image = network.width or math.prod(network.image if network.image else (0,))
        return image or len(self.layers[0][0])

    @property
    def noise_size(self) -> int:
        return sum(self.sizes) if self.std is None else len(self.std)

    def draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Float32:
        """Noise [T, ..., noise_size] for `act` in T consecutive steps; `shape` is (T, ...).

        Standard normal, or Gumbel for choices.
        """
        return self.draw_on(rng, shape, None)[0]

    def draw_on(
        self, rng: np.random.Generator, shape: tuple[int, ...], before: Float32 | None
    ) -> tuple[Float32, Float32]:
        """(noise of T further steps, its last value), which is `before` of the next steps."""
        full = (*shape, self.noise_size)
        if self.std is None and not self.noise_time:
            noise = -np.log(rng.standard_exponential(full, np.float32) + np.float32(1e-30))
            return noise, noise[-1]
        normal = slow_normal(rng, full, self.noise_time, before)
        return normal if self.std is not None else gumbel(normal), normal[-1]

    def noise(self, seed: int | None, count: int) -> Iterator[Float32]:
        """The noise [count, noise_size] of each step of `count` parallel episodes."""
        rng, before = np.random.default_rng(seed), None
        while True:
            drawn, before = self.draw_on(rng, (1, count), before)
            yield drawn[0]

    def blank(self, count: int) -> Float32:
        """[count, memory] at the start of episodes."""
        return np.zeros((count, self.network.memory), np.float32)

    def recall(self, memory: Any, count: int) -> Float32:
        """Check a memory from a user, [count, memory] or [memory]; None: an empty one."""
        blank = self.blank(count)
        if memory is None:
            return blank
        kept = np.asarray(memory, np.float32)
        if not self.network.memory or kept.shape not in (blank.shape, blank.shape[1:]):
            raise ValueError(
                f"a memory of shape {kept.shape} does not fit this policy, whose memory has "
                f"{self.network.memory} numbers for each episode; pass the memory that `predict` "
                "returned."
            )
        if not np.isfinite(kept).all():
            raise ValueError(
                "the memory contains NaN or infinity: pass the memory that `predict` returned."
            )
        return kept.reshape(blank.shape)

    def fitting(self, noise: Any, count: int) -> Float32:
        """Check the noise from a user, [count, noise_size] or [noise_size]."""
        given = np.asarray(noise, np.float32)
        if given.shape not in ((count, self.noise_size), (self.noise_size,)):
            raise ValueError(
                f"noise of shape {given.shape} does not fit {count} observation(s): give "
                f"{(count, self.noise_size)}, such as next(agent.noise(seed, {count}))."
            )
        if not np.isfinite(given).all():
            raise ValueError("the noise contains NaN or infinity: pass next(agent.noise(seed)).")
        return given.reshape(-1, self.noise_size)

    def view(self, obs: NDArray[Any], memory: Float32 | None = None) -> Float32:
        """The policy's input from obs [n, O]: normalised, followed by its memory; None: an empty
        one.
        """
        seen = obs.astype(np.float32) if self.normaliser is None else self.normaliser(obs)
        return self.joined(seen, memory)

    def joined(self, seen: NDArray[Any], memory: Float32 | None) -> Float32:
        """[n, O + memory]"""
        if not self.network.memory:
            return seen
        return np.concatenate([seen, self.blank(len(seen)) if memory is None else memory], -1)

    def act(self, seen: Float32, noise: Float32 | None) -> tuple[NDArray[Any], Float32]:
        """(actions [n, A] or [n, D] in the policy's units, memory after them).

        Without noise the actions are the most likely ones.
        """
        out, memory = self.outputs(seen)
        if self.std is not None:
            return out if noise is None else out + self.std * noise, memory
        score = out if noise is None else out + noise
        splits = np.cumsum(self.sizes)[:-1]
        blocks = np.split(score, splits, axis=-1)
        return np.stack([block.argmax(-1) for block in blocks], -1), memory

    def outputs(self, seen: Float32) -> tuple[Float32, Float32]:
        """(the mean of a Gaussian policy or the scores of a Categorical one, memory after it)"""
        if not self.layers:
            return np.zeros((len(seen), self.noise_size), np.float32), self.blank(len(seen))
        out, memory = self.network(self.layers, seen[:, None, :], np)
        return out[:, 0], memory[:, 0]


def action_map(space: gym.Space[Any], clip: bool) -> Callable[[NDArray[Any]], NDArray[Any]]:
    """The map from the policy's actions to the environment's.

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
