# SPDX-License-Identifier: Apache-2.0
"""Signal share: how much of an epoch's gradient another epoch would show again.

The episodes fall into two halves with gradients a and b, sizes and angles as the trust region
measures them, ⟨a, b⟩ = aᵀ (F + damping)⁻¹ b:

    c = 2 ⟨a, b⟩ / (⟨a, a⟩ + ⟨b, b⟩)          the halves' cosine
    share = 2 c / (1 + c)                      of the squared gradient of both halves together

Noise of a half is independent of the other's, so E⟨a, b⟩ is the squared signal alone. One epoch
tells this roughly, also below 0; its mean over epochs is what counts.
"""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array

from holdfast.core.linearise import linearise
from holdfast.core.policies import Policy
from holdfast.core.trust_region import TrustRegion
from holdfast.core.types import Batch, Metrics


def halves(batch: Batch) -> Array:
    """[2, B] weights of every other episode, each summing to one."""
    inside = jnp.stack([batch.episode % 2 == k for k in (0, 1)])
    weight = jnp.where(inside, batch.weight, 0.0)
    return weight / jnp.maximum(weight.sum(1, keepdims=True), 1e-30)


def signal_share(policy: Policy, batch: Batch, region: TrustRegion) -> Metrics:
    """`share_reward`, and `share_cost`: the smallest of all costs."""
    local = linearise(policy, batch, region.kl_average)
    advantage = jnp.concatenate([batch.adv_r[:, None], batch.adv_c], 1)
    rows: list[Array] = []
    for weight in halves(batch):
        centred = advantage - weight @ advantage
        rows.append(local.gradients(centred * (weight / batch.weight)[:, None]))
    a, b = rows
    solved = region.solve(region.damped(local), jnp.concatenate(rows))
    inner = lambda x, y: jnp.sum(x * y, 1)
    alone = inner(a, solved[: len(a)]) + inner(b, solved[len(a) :])
    cosine = 2 * inner(a, solved[len(a) :]) / jnp.maximum(alone, 1e-30)
    share = 2 * cosine / jnp.maximum(1 + cosine, 1e-3)
    return {"share_reward": share[0], "share_cost": share[1:].min()}
