# SPDX-License-Identifier: Apache-2.0
"""A policy's neighbourhood: gradients of surrogates and products with the Fisher matrix.

All come from one linearisation of the network on the batch; the matrix is never formed.

Pessimistic gradients (SHAPO, arXiv:2606.10228) are seen from where things look worse:

    f(θ) = E[π_θ / π_old · A],  v = ∇f(θ)       ε = ± √(2d / vᵀF⁻¹v) F⁻¹v       ∇f(θ + ε)

ε is the step of divergence d that changes f most: downward for what is to rise (reward), upward for
what is to fall (cost). What a small step would lose counts more, what is safe already counts less.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import jax
import jax.numpy as jnp
from jax import Array
from jax.flatten_util import ravel_pytree

from holdfast.core.policies import Policy
from holdfast.core.solve import Product
from holdfast.core.types import Batch


@dataclass(frozen=True)
class Linearised:
    """A policy seen from its own parameters: outputs, gradients and Fisher products on a batch."""

    batch: Batch
    theta: Array
    """[P] all parameters as one vector."""
    moved: Callable[[Array], Policy]
    """step [P] → the policy at theta + step."""
    outputs: Any
    log_prob: Array
    """[B] of the batch's actions under the policy itself."""
    fisher: Product
    """v → F v, F = E[score scoreᵀ], divided by d_a if the KL is averaged."""
    gradients: Callable[[Array], Array]
    """[B, m] advantages → [m, P] gradients of E[ratio · advantage]."""

    def power(self) -> Array:
        """[K] κ² E[A_c²]: what squares of the costs' gradients are measured against."""
        return self.batch.horizon**2 * (self.batch.weight @ self.batch.adv_c**2)


def linearise(policy: Policy, batch: Batch, kl_average: bool) -> Linearised:
    """Everything the quadratic model needs, from one linearisation of the network."""
    theta, unravel = ravel_pytree(policy)
    outputs, push = jax.linearize(lambda t: unravel(t).outputs(batch.obs), theta)
    pull = jax.linear_transpose(push, theta)
    log_prob, pull_log = jax.vjp(lambda out: policy.log_prob(out, batch.action), outputs)
    scale = 1 / policy.action_dims if kl_average else 1.0

    def fisher(v: Array) -> Array:
        return scale * pull(policy.fisher(outputs, push(v), batch.weight))[0]

    def gradients(advantages: Array) -> Array:
        one = lambda adv: pull(pull_log(batch.weight * adv)[0])[0]
        return jax.vmap(one, in_axes=1)(advantages)

    return Linearised(
        batch, theta, lambda step: unravel(theta + step), outputs, log_prob, fisher, gradients
    )


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
