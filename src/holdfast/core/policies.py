# SPDX-License-Identifier: Apache-2.0
"""Policies: a pytree with its parameters, and closed forms on its outputs.

A policy maps observations to `outputs`, the parameters of its action distribution; log-probability,
KL and Fisher products are functions of outputs only, so one forward pass is enough for all.

    Gaussian     outputs (mean [B, A], log_std [A]), the deviation independent of the state
    Categorical  outputs logits [B, ΣD], one block for each component of a MultiDiscrete action

The encoder, `network`, is part of the function of the parameters, so gradients and Fisher products
pass through it, and through time for a memory.
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

from holdfast.core.networks import DENSE, Network, affine, remembered

Layers = tuple[tuple[Array, Array], ...]
"""(weight [in, out], bias [out]) for each layer."""


DRAWN_AT_ONCE = 2**20
"""Largest number of parameters that are drawn by one call, which compiles in half the time."""


def init_layers(key: Array, shapes: Sequence[tuple[int, int]], dtype: Any = jnp.float32) -> Layers:
    """Weights and biases uniform in ±1/√fan_in, every layer included."""
    keys = jax.vmap(jax.random.split)(jax.random.split(key, len(shapes)))
    bounds = [1 / math.sqrt(fan_in) for fan_in, _ in shapes]
    sizes = [fan_in * fan_out for fan_in, fan_out in shapes]
    at_once = 2 * len(sizes) * max(sizes) <= DRAWN_AT_ONCE

    def draw(key: Array, bound: Any, shape: tuple[int, ...]) -> Array:
        return jax.random.uniform(key, shape, dtype, -bound, bound)

    def longest(key: Array, bound: Array) -> Array:
        return draw(key, bound, (max(sizes),))

    def part(layer: int, which: int, shape: tuple[int, ...]) -> Array:
        if not at_once:
            return draw(keys[layer, which], bounds[layer], shape)
        # A number depends on its key and its place in the flat array, not on how many follow it.
        return drawn[layer, which, : math.prod(shape)].reshape(shape)

    if at_once:
        drawn = jax.vmap(jax.vmap(longest, (0, None)))(keys, jnp.asarray(bounds, dtype))
    return tuple(
        (part(i, 0, (fan_in, fan_out)), part(i, 1, (fan_out,)))
        for i, (fan_in, fan_out) in enumerate(shapes)
    )


def forward(network: Network, layers: Layers, obs: Array) -> Array:
    """[B, out] of rows [B, O], or of the steps [T, N, O] of N environments, in order, B = T·N.

    Steps are only for a memory. It is recomputed by these parameters from the recorded memory
    before the first step, and reset wherever the recorded one is: at the start of an episode.
    """
    if obs.ndim == 2:
        return network(layers, obs, jnp)[0]
    seen, recorded = obs[..., : -network.memory], obs[..., -network.memory :]
    (weight, bias), (recurrent, shift) = layers[:2]

    def step(memory: Array, x: tuple[Array, Array]) -> tuple[Array, Array]:
        given, begins = x
        memory = jnp.where(begins[:, None], 0.0, memory)
        memory = remembered(given, memory @ recurrent + shift, memory, jnp)
        return memory, memory

    begins = jnp.all(recorded == 0, -1)
    memory = jax.lax.scan(step, recorded[0], (affine(seen, weight, bias, jnp), begins))[1]
    rows = jnp.concatenate([seen, memory], -1)
    return network.dense(layers, rows.reshape(-1, rows.shape[-1]), jnp)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Gaussian:
    """Diagonal normal distribution; the deviation does not depend on the state."""

    layers: Layers
    log_std: Array
    """[A]"""
    network: Network = field(default=DENSE, metadata={"static": True})

    @property
    def action_dims(self) -> int:
        """d_a, the divisor of the published KL."""
        return self.log_std.shape[0]

    def outputs(self, obs: Array) -> Any:
        return forward(self.network, self.layers, obs), self.log_std

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


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Categorical:
    """One categorical distribution for each component of the action."""

    layers: Layers
    sizes: tuple[int, ...] = field(metadata={"static": True})
    """Number of choices of each component; (n,) for a Discrete action."""
    network: Network = field(default=DENSE, metadata={"static": True})

    @property
    def action_dims(self) -> int:
        return len(self.sizes)

    def outputs(self, obs: Array) -> Any:
        logits = forward(self.network, self.layers, obs)
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

        It is computed as Σ p (d + e⁻ᵈ − 1) with d = log(p / q), whose terms are non-negative. At p
        = q value and gradient are exactly 0, not a rounding error that Adam would amplify.
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


Policy = Gaussian | Categorical


def init_gaussian(
    key: Array,
    obs_size: int,
    action_size: int,
    hidden: Sequence[int],
    dtype: Any = jnp.float32,
    network: Network = DENSE,
) -> Gaussian:
    """A fresh policy with standard deviation 1."""
    layers = init_layers(key, network.shapes(obs_size, hidden, action_size), dtype)
    return Gaussian(layers, jnp.zeros(action_size, dtype), network)


def init_categorical(
    key: Array,
    obs_size: int,
    sizes: Sequence[int],
    hidden: Sequence[int],
    dtype: Any = jnp.float32,
    network: Network = DENSE,
) -> Categorical:
    layers = init_layers(key, network.shapes(obs_size, hidden, sum(sizes)), dtype)
    return Categorical(layers, tuple(sizes), network)
