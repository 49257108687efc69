# SPDX-License-Identifier: Apache-2.0
"""Acting: a policy as plain NumPy data.

A small MLP on a few observations is faster here than through a JAX dispatch, and worker processes
need not load JAX. Randomness is given, not drawn: who acts, and where, changes nothing. Nor does it
depend, to the last bit, on how a batch is split among workers: BLAS rounds a row differently in
products of different height, so each row is multiplied by itself, as a stack of [1, O] products;
elementwise functions round each number alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from holdfast.envs.base import Floats

Float32 = NDArray[np.float32]
Arrays = dict[str, NDArray[Any]]


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
