# SPDX-License-Identifier: Apache-2.0
"""Diagnostics of an update, logged by setting: gradient signal share, worst-case cost bound.

Signal share: the part of an epoch's gradient that another epoch would reproduce. The episodes are
divided into two halves with gradients a and b; the inner product is that of the trust region, ⟨a,
b⟩ = aᵀ (F + damping)⁻¹ b:

    c = 2 ⟨a, b⟩ / (⟨a, a⟩ + ⟨b, b⟩)          the halves' cosine
    share = 2 c / (1 + c)                      of the squared gradient of both halves together

The noise of the halves is independent, so E⟨a, b⟩ is the squared signal alone. The value of one
epoch is a rough estimate and can be negative; use its mean over epochs.

Worst case of one update:

    J(π') ≤ J(π) + κ E[(ρ − 1) A_c] + κ √(2 KL) · γ ε_c / (1 − γ),     ε_c = max_s |E_π' A_c(s, ·)|

KL is the mean KL(π ‖ π') over the states of π, summed over action dimensions. C-TRPO's barrier
reduces the radius to δ(β) = δ − β D_φ. It bounds the KL of the trust region, which is this KL if
`kl_average` is off. With `kl_average` (D1) the region measures KL / dims, so KL ≤ dims · δ(β). From
samples ε_c is estimated by the largest observed |(ρ − 1) A_c|: E_π' A_c = E_π (ρ − 1) A_c is a mean
of such terms. On an enumerated CMDP this bound always holds; from samples it holds if the largest
term was observed.
"""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array

from holdfast.core.linearise import linearise
from holdfast.core.policies import Policy
from holdfast.core.trust_region import TrustRegion
from holdfast.core.types import Batch, Metrics


def split_episodes(batch: Batch) -> Array:
    """[2, B] weights of every other episode, each summing to one."""
    inside = jnp.stack([batch.episode % 2 == k for k in (0, 1)])
    weight = jnp.where(inside, batch.weight, 0.0)
    return weight / jnp.maximum(weight.sum(1, keepdims=True), 1e-30)


def signal_share(policy: Policy, batch: Batch, region: TrustRegion) -> Metrics:
    """`share_reward`, and `share_cost`: the smallest of all costs."""
    local = linearise(policy, batch, region.kl_average)
    advantage = jnp.concatenate([batch.adv_r[:, None], batch.adv_c], 1)
    rows: list[Array] = []
    for weight in split_episodes(batch):
        centred = advantage - weight @ advantage
        rows.append(local.gradients(centred * (weight / batch.weight)[:, None]))
    a, b = rows
    solved = region.solve(region.damped(local), jnp.concatenate(rows))
    inner = lambda x, y: jnp.sum(x * y, 1)
    alone = inner(a, solved[: len(a)]) + inner(b, solved[len(a) :])
    cosine = 2 * inner(a, solved[len(a) :]) / jnp.maximum(alone, 1e-30)
    share = 2 * cosine / jnp.maximum(1 + cosine, 1e-3)
    return {"share_reward": share[0], "share_cost": share[1:].min()}


def worst_case(old: Policy, new: Policy, batch: Batch, gamma: Array | float) -> Metrics:
    """`epsilon_c` and `worst_case`, the upper bound on the rise of J by the update.

    With several constraints each is the largest over constraints.
    """
    before, after = old.outputs(batch.obs), new.outputs(batch.obs)
    log_ratio = new.log_prob(after, batch.action) - old.log_prob(before, batch.action)
    change = jnp.expm1(log_ratio)[:, None] * batch.adv_c
    epsilon = jnp.where(batch.weight[:, None] > 0, jnp.abs(change), 0.0).max(0)
    kl = batch.weight @ old.kl(before, after)
    drift = jnp.sqrt(2 * jnp.maximum(kl, 0.0)) * gamma / (1 - gamma) * epsilon
    bound = batch.horizon * (batch.weight @ change + drift)
    return {"epsilon_c": epsilon.max(), "worst_case": bound.max()}
