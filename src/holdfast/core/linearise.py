# SPDX-License-Identifier: Apache-2.0
"""A policy's neighbourhood: gradients of surrogates and products with the Fisher matrix.

All come from one linearisation of the network on the batch; the matrix is never formed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
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
