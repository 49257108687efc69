# SPDX-License-Identifier: Apache-2.0
"""C3PO: the central path by an exact penalty; an update may use only a share of the slack.

    loss = PPO's on A_r + κ_t Σ_i max(0, E[max(ρ A_i, clip(ρ, 1 ± ε) A_i)] − m_i)
    m_i = min(b_i − J_i, w (b_i − J_i))

Inside the limit only the share w of the slack has no penalty; outside it the whole violation is
penalised. κ_t grows linearly over training. The critics are fitted separately, the reward's with
twice the weight.
"""

from dataclasses import dataclass
from typing import Literal

import jax
import jax.numpy as jnp
import optax
from jax import Array

from holdfast.algorithms.abilities import ComparesCosts, InMinibatches
from holdfast.core.critic import CriticFit
from holdfast.core.first_order import (
    FirstOrder,
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
class C3PO(InMinibatches, ComparesCosts):
    """Central path proximal policy optimisation (Milosevic et al. 2025)."""

    clip: float = 0.2
    """ε of both surrogates."""
    slack_fraction: float = 0.05
    """w, the share of the slack that one update may use; 1 is P3O's rule."""
    kappa_start: float = 5.0
    """Penalty weight at the start of training."""
    kappa_end: float = 50.0
    """Penalty weight at the end of training."""
    hinge: Literal["relu", "softplus"] = "relu"
    """Positive part of the penalty: relu, or softplus, which is positive before the share is used
    (P2BPO)."""
    cost_scale: CostScale = "none"
    """κ, factor from a mean cost advantage to the cost of an episode: 1/(1 − γ) (discount), the
    mean episode length (episode), or 1 (none)."""
    centre: bool = False
    """Subtract each minibatch's mean cost advantage, so that its noise is not penalised."""
    loop: FirstOrder = FirstOrder(passes=10, minibatch=128, kl_stop=0.01)
    critic: CriticFit = CriticFit(critic_lr=3e-4, critic_reward_weight=2.0)

    def __post_init__(self) -> None:
        check_range(self, "(0, 1)", "0.2 is the usual choice", "clip")
        check_range(self, "(0, 1]", "0.05 is usual", "slack_fraction")
        check_range(self, "(0, inf)", "'ppo' has no penalty", "kappa_start", "kappa_end")

    def init(self, constraints: int, policy: Policy) -> optax.OptState:
        """The moments of the policy's Adam."""
        return self.loop.init(policy)

    def improve(self, learner: Learner, batch: Batch, key: Array) -> Improvement:
        batch = in_units(batch, self.cost_scale)
        slack = batch.cost_limit - batch.cost_return
        free = jnp.minimum(slack, self.slack_fraction * slack) / batch.horizon
        kappa = self.kappa_start + (self.kappa_end - self.kappa_start) * batch.progress
        loss: Loss = lambda policy, rows: self.loss(policy, rows, free, kappa)
        step = self.loop.actor(learner.policy, learner.extra, batch, key, loss)
        predicted = spent(learner.policy, step.policy, batch)
        return step.with_metrics({"penalty": kappa}, spent=predicted)

    def loss(self, policy: Policy, rows: Rows, free: Array, kappa: Array) -> Array:
        """`free` [K] is the cost change without penalty, in units of a mean advantage."""
        rho = ratio(policy, rows)
        positive = jax.nn.relu if self.hinge == "relu" else jax.nn.softplus
        change = clipped_cost(rho, rows.adv_c, rows, self.clip, self.centre)
        excess = positive(change - free)
        return kappa * excess.sum() - clipped_gain(rho, rows.adv_r, rows, self.clip)
