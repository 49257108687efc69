# SPDX-License-Identifier: Apache-2.0
"""The twin of `acting.Actor` in JAX: acts where the environments are.

Matrix products round a row differently in products of different height. So the policy reads rows in
blocks of one height, and how many environments a device has does not change what they do.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from holdfast.core.networks import ACTIVATIONS
from holdfast.envs.acting import Actor, box_scale

ROWS = {"cpu": 32}
"""Height of a block by platform: small where rows cost time, else `MANY`."""
MANY = 1024


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class DevicePolicy:
    """Arrays in float32, what decides the program as static fields."""

    layers: tuple[tuple[Array, Array], ...]
    std: Array | None
    """[A] of a Gaussian policy."""
    mean: Array | None
    """[O] of the observations; None leaves them as they are."""
    scale: Array | None
    sizes: tuple[int, ...] = field(metadata={"static": True})
    clip: bool = field(metadata={"static": True})
    activation: str = field(metadata={"static": True})

    @classmethod
    def of(cls, actor: Actor) -> DevicePolicy:
        seen, narrow = actor.normaliser, lambda x: np.asarray(x, np.float32)
        shift, scale = (None, None) if seen is None else (narrow(seen.mean), narrow(seen.scale))
        numpy: Any = (actor.layers, actor.std, shift, scale)  # a program takes them as its own
        layers, std, mean, scale = numpy
        return cls(layers, std, mean, scale, actor.sizes, actor.clip, actor.network.activation)

    def view(self, obs: Array) -> Array:
        """What the policy sees of obs [n, O]."""
        if self.mean is None or self.scale is None:
            return obs
        return (obs - self.mean) / self.scale

    def act(self, seen: Array, noise: Array) -> Array:
        """Actions [n, A] or [n, D], in the policy's units."""
        rows = ROWS.get(jax.default_backend(), MANY)
        filled = lambda x: jnp.pad(x, ((0, -len(x) % rows), (0, 0)))
        blocks = lambda x: filled(x).reshape(-1, rows, x.shape[-1])
        # The barriers keep the compiler from computing less, and so from rounding differently.
        given = jax.lax.optimization_barrier((blocks(seen), blocks(noise)))
        action = jax.lax.optimization_barrier(jax.lax.map(lambda x: self._act(*x), given))
        return action.reshape(-1, action.shape[-1])[: len(seen)]

    def _act(self, seen: Array, noise: Array) -> Array:
        out = self._outputs(seen) if self.layers else jnp.zeros_like(noise)
        if self.std is not None:
            return out + self.std * noise
        blocks = jnp.split(out + noise, np.cumsum(self.sizes)[:-1], axis=-1)
        return jnp.stack([block.argmax(-1) for block in blocks], -1).astype(jnp.int32)

    def _outputs(self, x: Array) -> Array:
        for weight, bias in self.layers[:-1]:
            product = jnp.matmul(x, weight, precision="highest") + bias
            x = ACTIVATIONS[self.activation](product, jnp)
        weight, bias = self.layers[-1]
        return jnp.matmul(x, weight, precision="highest") + bias

    def to_env(self, space: gym.Space[Any], action: Array) -> Array:
        """The twin of `acting.action_map` for plain spaces."""
        if isinstance(space, gym.spaces.Box):
            middle, half = map(jnp.asarray, box_scale(space))
            moved = middle + half * action
            return jnp.clip(moved, space.low, space.high) if self.clip else moved
        return action[..., 0] if isinstance(space, gym.spaces.Discrete) else action
