# SPDX-License-Identifier: Apache-2.0
"""IPO: PPO inside a logarithmic barrier (arXiv:1910.09615).

    all J_i < b_i   loss = PPO's on A_r + Σ_i w_i E[ρ A_i],   w_i = κ / (t (b_i − J_i))
    otherwise       loss = E[max(ρ A, clip(ρ, 1 ± ε) A)],     A the violated costs, shares by excess

w is the slope of −(1/t) log(b − J): the barrier is linearised at the current policy.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import jax.numpy as jnp
import optax
from jax import Array

from holdfast.algorithms.abilities import ChecksLimits, ComparesCosts, InMinibatches
from holdfast.core.barrier import check_interior, recovery_weights
from holdfast.core.first_order import (
    FirstOrder,
    JointCritic,
    Loss,
    Rows,
    clipped_cost,
    clipped_gain,
    ratio,
    spent,
)
from holdfast.core.policies import Policy
from holdfast.core.types import Batch, CostScale, Improvement, Learner, check_range, in_units


@dataclass(frozen=True)
class IPO(InMinibatches, ComparesCosts, ChecksLimits):
    """Interior-point policy optimisation (Liu, Ding, Liu 2020)."""

    clip: float = 0.2
    """ε of both surrogates."""
    sharpness: float = 20.0
    """t: the barrier's weight is 1/t; with large values the policy comes closer to the limit."""
    flip_sign: bool = False
    """Reward cost inside the limit: the sign error of the published code."""
    cost_scale: CostScale = "none"
    """κ, factor from a mean cost advantage to the cost of an episode: 1/(1 − γ) (discount), the
    mean episode length (episode), or 1 (none)."""
    loop: FirstOrder = FirstOrder()
    critic: JointCritic = JointCritic()

    def __post_init__(self) -> None:
        check_range(self, "(0, 1)", "0.2 is the usual choice", "clip")
        check_range(self, "(0, inf)", "20 is usual", "sharpness")

    def check_limits(self, limits: Mapping[str, float]) -> None:
        check_interior(limits)

    def init(self, constraints: int, policy: Policy) -> optax.OptState:
        """The moments of the policy's Adam."""
        return self.loop.init(policy)

    def improve(self, learner: Learner, batch: Batch, key: Array) -> Improvement:
        batch = in_units(batch, self.cost_scale)
        slack = batch.cost_limit - batch.cost_return
        recovering = jnp.any(slack <= 0)
        weight, share = self.weight(batch), recovery_weights(slack <= 0, -slack, batch.cost_limit)
        loss: Loss = lambda policy, rows: self.loss(policy, rows, weight, share, recovering)
        step = self.loop.joint(learner, learner.extra, batch, key, loss, self.critic)
        metrics = {
            "recovering": recovering,
            "penalty": jnp.where(recovering, 0.0, weight.sum()),
        }
        return step.with_metrics(metrics, spent=spent(learner.policy, step.policy, batch))

    def weight(self, batch: Batch) -> Array:
        """[K] κ / (t (b − J)), defined only inside the limits."""
        slack = batch.cost_limit - batch.cost_return
        sign = -1.0 if self.flip_sign else 1.0
        return sign * batch.horizon / (self.sharpness * jnp.where(slack > 0, slack, 1.0))

    def loss(
        self, policy: Policy, rows: Rows, weight: Array, share: Array, recovering: Array
    ) -> Array:
        rho = ratio(policy, rows)
        inside = rows.weight @ (rho * (rows.adv_c @ weight))
        inside = inside - clipped_gain(rho, rows.adv_r, rows, self.clip)
        outside = clipped_cost(rho, (rows.adv_c @ share)[:, None], rows, self.clip)[0]
        return jnp.where(recovering, outside, inside)
