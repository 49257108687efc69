# SPDX-License-Identifier: Apache-2.0
"""Policies: a pytree that holds its parameters, and closed forms on its outputs.

A policy maps observations to `outputs`, the parameters of its action distribution; log-probability,
KL and Fisher products are functions of outputs only, so one forward pass serves them all.

    Gaussian     outputs (mean [B, A], log_std [A]), the deviation independent of the state
    Categorical  outputs logits [B, ΣD], one block for each component of a MultiDiscrete action
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

Layers = tuple[tuple[Array, Array], ...]
"""(weight [in, out], bias [out]) for each layer."""


def init_mlp(key: Array, sizes: Sequence[int], dtype: Any = jnp.float32) -> Layers:
    """Weights and biases uniform in ±1/√fan_in, every layer included."""
    layers: list[tuple[Array, Array]] = []
    for layer_key, fan_in, fan_out in zip(
        jax.random.split(key, len(sizes) - 1), sizes[:-1], sizes[1:], strict=True
    ):
        bound = 1 / math.sqrt(fan_in)
        kw, kb = jax.random.split(layer_key)
        layers.append(
            (
                jax.random.uniform(kw, (fan_in, fan_out), dtype, -bound, bound),
                jax.random.uniform(kb, (fan_out,), dtype, -bound, bound),
            )
        )
    return tuple(layers)


def mlp(layers: Layers, x: Array) -> Array:
    """tanh between the layers, linear output."""
    for weight, bias in layers[:-1]:
        x = jnp.tanh(x @ weight + bias)
    weight, bias = layers[-1]
    return x @ weight + bias


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Gaussian:
    """Diagonal normal distribution; the deviation does not depend on the state."""

    layers: Layers
    log_std: Array
    """[A]"""

    @property
    def action_dims(self) -> int:
        """d_a, by which the published KL is divided."""
        return self.log_std.shape[0]

    def outputs(self, obs: Array) -> Any:
        return mlp(self.layers, obs), self.log_std

    @staticmethod
    def log_prob(outputs: tuple[Array, Array], action: Array) -> Array:
        """[B], summed over the action's dimensions."""
        mean, log_std = outputs
        z = (action - mean) * jnp.exp(-log_std)
        return (
            -0.5 * jnp.sum(z * z, -1)
            - jnp.sum(log_std)
            - 0.5 * mean.shape[-1] * math.log(2 * math.pi)
        )

    @staticmethod
    def kl(p: tuple[Array, Array], q: tuple[Array, Array]) -> Array:
        """[B] KL(p ‖ q) = Σ_j log(s_q/s_p) + (s_p² + (m_p − m_q)²) / (2 s_q²) − 1/2."""
        (mean_p, log_p), (mean_q, log_q) = p, q
        shift = ((mean_p - mean_q) * jnp.exp(-log_q)) ** 2
        spread = 2 * (log_p - log_q)
        return 0.5 * jnp.sum(shift + jnp.expm1(spread) - spread, -1)

    @staticmethod
    def fisher(
        outputs: tuple[Array, Array], tangent: tuple[Array, Array], weight: Array
    ) -> tuple[Array, Array]:
        """Weighted Hessian of the KL in output space: 1/s² for the mean, 2 for log_std."""
        scale = jnp.exp(-2 * outputs[1])
        return weight[:, None] * tangent[0] * scale, 2 * jnp.sum(weight) * tangent[1]

    @staticmethod
    def entropy(outputs: tuple[Array, Array]) -> Array:
        """[B] differential entropy."""
        mean, log_std = outputs
        constant = jnp.sum(log_std) + 0.5 * mean.shape[-1] * math.log(2 * math.pi * math.e)
        return jnp.full(mean.shape[0], constant)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Categorical:
    """One categorical distribution for each component of the action."""

    layers: Layers
    sizes: tuple[int, ...] = field(metadata={"static": True})
    """Number of choices of each component; (n,) for a Discrete action."""

    @property
    def action_dims(self) -> int:
        return len(self.sizes)

    def outputs(self, obs: Array) -> Any:
        logits = mlp(self.layers, obs)
        splits = list(np.cumsum(self.sizes)[:-1])
        return tuple(jax.nn.log_softmax(x) for x in jnp.split(logits, splits, axis=-1))

    @staticmethod
    def log_prob(outputs: tuple[Array, ...], action: Array) -> Array:
        """[B] for action [B, D]."""
        picked = [
            jnp.take_along_axis(block, action[:, d, None], -1)[:, 0]
            for d, block in enumerate(outputs)
        ]
        return sum(picked[1:], start=picked[0])

    @staticmethod
    def kl(p: tuple[Array, ...], q: tuple[Array, ...]) -> Array:
        """[B] KL(p ‖ q) = Σ_d Σ_a p log(p / q).

        Written as Σ p (d + e⁻ᵈ − 1) with d = log(p / q): every term is non-negative, and at p = q
        value and gradient are exactly 0, not a rounding error that Adam would blow up.
        """
        each = lambda a, b: jnp.exp(a) * ((a - b) + jnp.expm1(b - a))
        terms = [jnp.sum(each(a, b), -1) for a, b in zip(p, q, strict=True)]
        return sum(terms[1:], start=terms[0])

    @staticmethod
    def fisher(
        outputs: tuple[Array, ...], tangent: tuple[Array, ...], weight: Array
    ) -> tuple[Array, ...]:
        """Weighted Hessian of the KL in the space of log-probabilities: diag(p).

        The tangents are those of normalised log-probabilities, so p · tangent = 0 already holds.
        """
        return tuple(
            weight[:, None] * jnp.exp(block) * t for block, t in zip(outputs, tangent, strict=True)
        )

    @staticmethod
    def entropy(outputs: tuple[Array, ...]) -> Array:
        terms = [-jnp.sum(jnp.exp(block) * block, -1) for block in outputs]
        return sum(terms[1:], start=terms[0])


Policy = Gaussian | Categorical


def init_gaussian(
    key: Array, obs_size: int, action_size: int, hidden: Sequence[int], dtype: Any = jnp.float32
) -> Gaussian:
    """Deviation 1 at the start."""
    layers = init_mlp(key, (obs_size, *hidden, action_size), dtype)
    return Gaussian(layers, jnp.zeros(action_size, dtype))


def init_categorical(
    key: Array, obs_size: int, sizes: Sequence[int], hidden: Sequence[int], dtype: Any = jnp.float32
) -> Categorical:
    return Categorical(init_mlp(key, (obs_size, *hidden, sum(sizes)), dtype), tuple(sizes))
