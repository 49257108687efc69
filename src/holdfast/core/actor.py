# SPDX-License-Identifier: Apache-2.0
"""Acting in NumPy: a small MLP on a few observations is faster here than through a JAX dispatch.

The randomness is given, not drawn: `noise` is standard normal for Gaussian policies and standard
Gumbel for Categorical ones, so that who acts, and where, does not change what is done.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.core.policies import Gaussian, Policy

Float32 = NDArray[np.float32]


@dataclass(frozen=True)
class Actor:
    """A policy as NumPy arrays."""

    layers: tuple[tuple[Float32, Float32], ...]
    std: Float32 | None
    """[A] of a Gaussian policy."""
    sizes: tuple[int, ...]
    """Choices of each component of a Categorical policy; () for a Gaussian one."""

    @property
    def noise_size(self) -> int:
        return sum(self.sizes) if self.std is None else len(self.std)

    def draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Float32:
        """Noise [*shape, noise_size] for `act`."""
        full = (*shape, self.noise_size)
        if self.std is not None:
            return rng.standard_normal(full, np.float32)
        return -np.log(rng.standard_exponential(full, np.float32) + np.float32(1e-30))

    def act(self, obs: Float32, noise: Float32 | None) -> NDArray[Any]:
        """Actions [n, A] or [n, D] for normalised obs [n, O]; without noise the most likely one."""
        x = obs
        for weight, bias in self.layers[:-1]:
            x = np.tanh(x @ weight + bias)
        weight, bias = self.layers[-1]
        out = x @ weight + bias
        if self.std is not None:
            return out if noise is None else out + self.std * noise
        score = out if noise is None else out + noise
        if len(self.sizes) == 1:
            return score.argmax(-1)[:, None]
        splits = np.cumsum(self.sizes)[:-1]
        return np.stack([block.argmax(-1) for block in np.split(score, splits, axis=-1)], -1)


def numpy_actor(policy: Policy) -> Actor:
    """The actor that does what `policy` says."""
    layers = tuple((np.asarray(w), np.asarray(b)) for w, b in policy.layers)
    if isinstance(policy, Gaussian):
        return Actor(layers, np.exp(np.asarray(policy.log_std)), ())
    return Actor(layers, None, policy.sizes)
