# SPDX-License-Identifier: Apache-2.0
"""P3O: PPO with an exact penalty for predicted violation (arXiv:2205.11814).

    loss = PPO's on A_r + κ Σ_i max(0, E[max(ρ A_i, clip(ρ, 1 ± ε) A_i)] + (1 − γ)(J_i − b_i))

A penalty weight κ above the optimal multiplier makes the penalised optimum the constrained one. The
positive part acts in each minibatch.
"""

from dataclasses import dataclass, replace

import jax
import optax
from jax import Array

from holdfast.algorithms.abilities import ComparesCosts, InMinibatches
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
class P3O(InMinibatches, ComparesCosts):
    """Penalised proximal policy optimisation (Zhang et al. 2022)."""

    clip: float = 0.2
    """ε of both surrogates."""
    kappa: float = 10.0
    """κ, the penalty's weight: 10 in the published runs, 20 in the paper."""
    cost_scale: CostScale = "discount"
    """κ, factor from a mean cost advantage to the cost of an episode: 1/(1 − γ) (discount), the
    mean episode length (episode), or 1 (none)."""
    centre: bool = False
    """Subtract each minibatch's mean cost advantage, so that its noise is not penalised."""
    loop: FirstOrder = FirstOrder()
    critic: JointCritic = JointCritic()

    def __post_init__(self) -> None:
        check_range(self, "(0, 1)", "0.2 is the usual choice", "clip")
        check_range(self, "(0, inf)", "'ppo' has no penalty", "kappa")

    def init(self, constraints: int, policy: Policy) -> optax.OptState:
        """The moments of the policy's Adam."""
        return self.loop.init(policy)

    def improve(self, learner: Learner, batch: Batch, key: Array) -> Improvement:
        batch = in_units(batch, self.cost_scale)
        offset = (batch.cost_return - batch.cost_limit) / batch.horizon
        loss: Loss = lambda policy, rows: self.loss(policy, rows, offset)
        step = self.loop.joint(learner, learner.extra, batch, key, loss, self.critic)
        return replace(step, spent=spent(learner.policy, step.policy, batch))

    def loss(self, policy: Policy, rows: Rows, offset: Array) -> Array:
        """`offset` [K] is the violation before the update, in units of a mean advantage."""
        rho = ratio(policy, rows)
        change = clipped_cost(rho, rows.adv_c, rows, self.clip, self.centre)
        excess = jax.nn.relu(change + offset)
        return self.kappa * excess.sum() - clipped_gain(rho, rows.adv_r, rows, self.clip)
