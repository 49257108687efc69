# SPDX-License-Identifier: Apache-2.0
"""How wrong a prediction can be: the worst case of one update, next to what came of it.

    J(π') ≤ J(π) + κ E[(ρ − 1) A_c] + κ √(2 KL) · γ ε_c / (1 − γ),     ε_c = max_s |E_π' A_c(s, ·)|

KL is the mean KL(π ‖ π') over the states of π. What C-TRPO's barrier leaves of the radius for it is
δ(β) = δ − β D_φ, so KL ≤ δ(β). From samples ε_c is bounded by the largest |(ρ − 1) A_c| that was
seen: E_π' A_c = E_π (ρ − 1) A_c is a mean of such terms. On an enumerated CMDP the bound so made
always holds; from samples it holds as far as ε_c was seen.
"""

import jax.numpy as jnp
from jax import Array

from holdfast.core.policies import Policy
from holdfast.core.types import Batch, Metrics


def worst_case(old: Policy, new: Policy, batch: Batch, gamma: Array | float) -> Metrics:
    """`epsilon_c` and `worst_case`, the largest rise of J that the update can bring.

    Of several constraints the largest of either.
    """
    before, after = old.outputs(batch.obs), new.outputs(batch.obs)
    log_ratio = new.log_prob(after, batch.action) - old.log_prob(before, batch.action)
    change = jnp.expm1(log_ratio)[:, None] * batch.adv_c
    epsilon = jnp.where(batch.weight[:, None] > 0, jnp.abs(change), 0.0).max(0)
    kl = batch.weight @ old.kl(before, after)
    drift = jnp.sqrt(2 * jnp.maximum(kl, 0.0)) * gamma / (1 - gamma) * epsilon
    bound = batch.horizon * (batch.weight @ change + drift)
    return {"epsilon_c": epsilon.max(), "worst_case": bound.max()}
