# SPDX-License-Identifier: Apache-2.0
"""FOCOPS: towards the optimal non-parametric policy, state by state (arXiv:2002.06506).

loss = E[m (KL(π ‖ π_old) − ρ A / temperature)],   A = (A_r − Σ ν_i A_i) / (1 + Σ ν_i)
m(s) = 1 where KL(π ‖ π_old)(s) ≤ η, else 0: other states do not learn

The published code masks the minibatch, E[m KL] − E[m] E[ρ A] / temperature (`mask`).
"""

from dataclasses import dataclass, replace
from typing import Literal

import jax
import jax.numpy as jnp
from jax import Array

from holdfast.algorithms.abilities import InMinibatches
from holdfast.core.first_order import FirstOrder, JointCritic, Loss, Rows
from holdfast.core.multiplier import Multiplier, Priced, mixed_advantage, priced
from holdfast.core.policies import Policy
from holdfast.core.types import Batch, Improvement, Learner, check_range


@dataclass(frozen=True)
class FOCOPS(InMinibatches):
    """First order constrained optimisation in policy space (Zhang, Vuong, Ross 2020)."""

    temperature: float = 1.5
    """λ of the paper: small values follow the advantage, large ones the old policy."""
    state_kl: float = 0.02
    """η, the largest KL(new ‖ old) of a state that still learns."""
    mask: Literal["batch", "sample"] = "batch"
    """What η masks: the whole minibatch, in proportion to the states beyond η (batch, published),
    or each state (sample)."""
    rescale: bool = True
    """Divide the priced advantage by 1 + Σ ν, as in the published code; the paper does not."""
    multiplier: Multiplier = Multiplier(multiplier_max=2.0)
    loop: FirstOrder = FirstOrder()
    critic: JointCritic = JointCritic()

    def __post_init__(self) -> None:
        check_range(self, "(0, inf)", "1.5 and 0.02 are usual", "temperature", "state_kl")

    def init(self, constraints: int, policy: Policy) -> Priced:
        return Priced(self.multiplier.init(constraints), self.loop.init(policy))

    def improve(self, learner: Learner, batch: Batch, key: Array) -> Improvement:
        price = self.multiplier.update(learner.extra.price, batch)
        batch = replace(batch, adv_r=mixed_advantage(batch, price.value, self.rescale))
        loss: Loss = lambda policy, rows: self.loss(learner.policy, policy, rows)
        step = self.loop.joint(learner, learner.extra.moments, batch, key, loss, self.critic)
        return priced(step, price)

    def loss(self, old: Policy, policy: Policy, rows: Rows) -> Array:
        """`rows.adv_r` holds the priced advantage."""
        outputs = policy.outputs(rows.obs)
        rho = jnp.exp(policy.log_prob(outputs, rows.action) - rows.log_prob)
        kl = policy.kl(outputs, old.outputs(rows.obs))
        near = jax.lax.stop_gradient((kl <= self.state_kl).astype(kl.dtype))
        gain = rho * rows.adv_r / self.temperature
        if self.mask == "sample":
            return rows.weight @ (near * (kl - gain))
        return rows.weight @ (near * kl) - (rows.weight @ near) * (rows.weight @ gain)
