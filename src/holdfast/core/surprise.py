# SPDX-License-Identifier: Apache-2.0
"""Surprise: by how much costs rose beyond what the steps foresaw, and what that allows next.

A step of length s = √(KL / δ) that predicts the change `spent` of a cost leaves a surprise one
epoch later, what the cost rose by beyond that:

    r_k = J_{k+1} − J_k − spent_k
    M   = Σ_j f^j s r / (Σ_j f^j s² + ¼)         over the reward steps so far, f = 1 − 1/memory

M is the unforeseen rise of a step of full length, and the next one is at most as long as the slack
bears: s ≤ slack / M. Where predictions come true M is about 0 and nothing is shortened. The ¼ is a
quarter of a full step without surprise, so that one short, unlucky step does not say everything.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
from jax import Array

PRIOR = 0.25
SHORTEST = 0.05
"""Of the full length: a step that is never quite 0 goes on measuring."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Surprise:
    """What is remembered of the steps so far."""

    cost: Array
    """[K] Ĵ_c before the last step."""
    spent: Array
    """[K] the change that it predicted."""
    length: Array
    """[] its length; 0: nothing to learn from it."""
    cross: Array
    """[K] Σ f^j s r."""
    square: Array
    """[] Σ f^j s²."""

    @classmethod
    def create(cls, constraints: int) -> Surprise:
        none, zero = jnp.zeros(constraints), jnp.zeros(())
        return cls(none, none, zero, none, zero)

    def measured(self, cost: Array, memory: float) -> Surprise:
        """After an epoch that measured `cost` [K]; `memory` in reward steps."""
        keep = jnp.where(self.length > 0, 1 - 1 / memory, 1.0)
        surprise = cost - self.cost - self.spent
        return replace(
            self,
            cost=cost,
            cross=keep * self.cross + self.length * surprise,
            square=keep * self.square + self.length**2,
        )

    def taken(self, spent: Array, length: Array) -> Surprise:
        """After a step; length 0 for one that does not count."""
        return replace(self, spent=spent, length=length)

    def rise(self) -> Array:
        """[K] M, at least 0."""
        return jnp.maximum(self.cross / (self.square + PRIOR), 0.0)

    def reach(self, slack: Array) -> Array:
        """[] the longest step that every slack [K] bears, in units of the full one."""
        bears = slack / jnp.maximum(self.rise(), 1e-9)
        return jnp.clip(bears.min(), SHORTEST, 1.0)
