# SPDX-License-Identifier: Apache-2.0
"""Estimators: generalised advantages and the running observation normaliser.

Shapes: T steps, N environments. The same function serves reward and every cost.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray


def gae(
    signal: Array,
    value: Array,
    next_value: Array,
    terminated: Array,
    done: Array,
    *,
    gamma: float | Array,
    lam: float | Array,
) -> Array:
    """Advantages A_t = Σ_k (γλ)^k δ_{t+k} within an episode, all arrays [T, N].

    Several signals at once stand on a last axis, with a γ and λ for each.

    δ_t = f_t + γ v(s') − v(s) with s' the true successor, worth 0 after a terminal state. The sum
    stops where `done` (terminated or truncated) and at the end of the rollout.
    """
    td_error = signal + gamma * jnp.where(terminated, 0.0, next_value) - value

    def back(tail: Array, x: tuple[Array, Array]) -> tuple[Array, Array]:
        error, end = x
        tail = error + gamma * lam * jnp.where(end, 0.0, tail)
        return tail, tail

    return jax.lax.scan(back, jnp.zeros_like(value[0]), (td_error, done), reverse=True)[1]


def standardise(x: Array) -> Array:
    """(x − mean) / (std + 1e-8), std with n − 1."""
    return (x - x.mean()) / (x.std(ddof=1) + 1e-8)


@dataclass(frozen=True)
class Normaliser:
    """Running mean and population variance of all observations seen, in float64."""

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
        obs = np.asarray(obs, np.float64)
        n = obs.shape[0]
        mean = obs.sum(0) / n
        centred = obs - mean
        return self.combine(n, mean, (centred * centred).sum(0) / n)

    def combine(self, n: int, mean: NDArray[Any], var: NDArray[Any]) -> Normaliser:
        """The statistics after n further observations, by the parallel-variance formula."""
        total = self.count + n
        shift = mean - self.mean
        spread = self.var * self.count + var * n + shift * shift * (self.count * n / total)
        return Normaliser(self.mean + shift * (n / total), spread / total, total)

    def __call__(self, obs: NDArray[Any]) -> NDArray[np.float32]:
        """(o − mean) / √(var + 1e-8), unclipped, as float32."""
        return ((obs - self.mean) / np.sqrt(self.var + 1e-8)).astype(np.float32)
