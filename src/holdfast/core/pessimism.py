# SPDX-License-Identifier: Apache-2.0
"""Pessimistic gradients (SHAPO, arXiv:2606.10228): seen from where things look worse.

    f(θ) = E[π_θ / π_old · A],  v = ∇f(θ)       ε = ± √(2d / vᵀF⁻¹v) F⁻¹v       ∇f(θ + ε)

ε is the step of divergence d that changes f most: downward for what is to rise (reward), upward for
what is to fall (cost). What a small step would lose counts more, what is safe already counts less.
"""

from typing import Literal

import jax
import jax.numpy as jnp
from jax import Array

from holdfast.core.linearise import Linearised, linearise

Worse = Literal["lower", "higher"]
"""Where f is worse."""


def pessimistic(
    local: Linearised,
    advantages: Array,
    gradients: Array,
    solved: Array,
    distance: float,
    worse: Worse,
) -> Array:
    """[m, P] gradients at θ + ε of advantages [B, m], from the plain ones v and F⁻¹v, both [m, P].

    The ratios at θ + ε weight the samples; where ε rounds to nothing they are 1, and the gradients
    are the plain ones to the last digit.
    """
    size = jnp.sum(gradients * solved, 1)
    some = size > 0
    length = jnp.where(some, jnp.sqrt(2 * distance / jnp.where(some, size, 1.0)), 0.0)
    steps = length[:, None] * solved * (1.0 if worse == "higher" else -1.0)

    def one(step: Array, advantage: Array) -> Array:
        there = linearise(local.moved(step), local.batch, kl_average=False)
        ratio = jnp.exp(there.log_prob - local.log_prob)
        return there.gradients((ratio * advantage)[:, None])[0]

    return jax.vmap(one, in_axes=(0, 1))(steps, advantages)
