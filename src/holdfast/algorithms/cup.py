# SPDX-License-Identifier: Apache-2.0
"""CUP: a PPO step on the reward, then a projection that reduces cost (arXiv:2209.07089).

    stage 1   π_half:  PPO on A_r, critics included
    stage 2   loss = C Σ ν_i E[ρ A_i] + E[KL(π ‖ π_half)],   ρ = π / π_old,  C = (1 − γλ) / (1 − γ)

Each stage stops by its own KL: from π_old, then from π_half.
"""

from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
from jax import Array

from holdfast.algorithms.abilities import InMinibatches
from holdfast.core.first_order import FirstOrder, JointCritic, Loss, Rows, clipped_loss
from holdfast.core.multiplier import Multiplier, Priced, priced
from holdfast.core.policies import Policy
from holdfast.core.types import Batch, Improvement, Learner, check_range


@dataclass(frozen=True)
class CUP(InMinibatches):
    """Constrained update projection (Yang et al. 2022)."""

    clip: float = 0.2
    """ε of PPO's surrogate in stage 1."""
    multiplier: Multiplier = Multiplier(multiplier_max=0.2)
    loop: FirstOrder = FirstOrder()
    critic: JointCritic = JointCritic()

    def __post_init__(self) -> None:
        check_range(self, "(0, 1)", "0.2 is the usual choice", "clip")

    def init(self, constraints: int, policy: Policy) -> Priced:
        return Priced(self.multiplier.init(constraints), self.loop.init(policy))

    def improve(self, learner: Learner, batch: Batch, key: Array) -> Improvement:
        price = self.multiplier.update(learner.extra.price, batch)
        old = learner.policy
        first, second = jax.random.split(key)
        gain = clipped_loss(self.clip)
        gained = self.loop.joint(learner, learner.extra.moments, batch, first, gain, self.critic)
        half = gained.policy
        weight = self.coefficient(batch) * price.value.astype(batch.adv_c.dtype)
        repay: Loss = lambda policy, rows: self.projection(half, policy, rows, weight)
        repaid = self.loop.actor(half, gained.extra, batch, second, repay, acted=old)
        metrics = gained.metrics | {
            "projection_kl": repaid.metrics["kl"],
            "projection_passes": repaid.metrics["passes"],
            "projection_loss": repaid.metrics["actor_loss"],
        }
        return priced(replace(repaid, metrics=metrics, critics=gained.critics), price)

    def coefficient(self, batch: Batch) -> Array:
        """C = (1 − γλ) / (1 − γ) of the costs, from the horizon 1 / (1 − γ)."""
        return batch.horizon - batch.cost_lam * (batch.horizon - 1)

    def projection(self, half: Policy, policy: Policy, rows: Rows, weight: Array) -> Array:
        """Σ_i weight_i E[ρ A_i] + E[KL(π ‖ π_half)], ρ against the policy that acted."""
        outputs = policy.outputs(rows.obs)
        rho = jnp.exp(policy.log_prob(outputs, rows.action) - rows.log_prob)
        kl = policy.kl(outputs, half.outputs(rows.obs))
        return rows.weight @ (rho * (rows.adv_c @ weight) + kl)
