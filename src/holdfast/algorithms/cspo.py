# SPDX-License-Identifier: Apache-2.0
"""CSPO: a price, and a correction by the distance to the limit (arXiv:2606.14415).

    loss = PPO's on A_r + Σ_i λ_i ĝ_i + (α/2) w_i max(0, ĝ_i)²
    ĝ_i = (J_i − b_i) / κ + E[(ρ − 1) A_i]        w_i = 1 / (|∇ĝ_i|² + ε)

To first order √w ĝ is the distance in parameters to the limit. So the correction is strong where
the cost is flat, weak where it is steep, and free of units. It vanishes with its gradient at ĝ = 0,
so the constrained optimum is unchanged. λ rises on J_i − b_i once an epoch. w is measured at the
old policy on the whole batch, capped, and averaged over epochs.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import optax
from jax import Array

from holdfast.algorithms.abilities import ComparesCosts, InMinibatches
from holdfast.core.first_order import (
    FirstOrder,
    JointCritic,
    Loss,
    Rows,
    clipped_gain,
    ratio,
    spent,
)
from holdfast.core.linearise import linearise
from holdfast.core.multiplier import Multiplier, Price
from holdfast.core.policies import Policy
from holdfast.core.types import Batch, CostScale, Improvement, Learner, check_range, in_units


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Sensitive:
    """State of CSPO."""

    price: Price
    weight: Array
    """[K] averaged w; 0 before the first update."""
    moments: optax.OptState
    """Moments of the policy's Adam."""


@dataclass(frozen=True)
class CSPO(InMinibatches, ComparesCosts):
    """Constraint-sensitive policy optimisation (Belouadah, Kubler, Le Traon 2026)."""

    clip: float = 0.2
    """ε of PPO's surrogate for the reward; the cost's surrogate is not clipped."""
    correction: float = 1.0
    """α, weight of the correction; 0: no correction."""
    weight_max: float = 100.0
    """Largest weight w of the correction."""
    weight_keep: float = 0.9
    """Share of the past in the average of w over epochs; 0: no averaging."""
    cost_scale: CostScale = "discount"
    """κ, factor from a mean cost advantage to the cost of an episode: 1/(1 − γ) (discount), the
    mean episode length (episode), or 1 (none)."""
    multiplier: Multiplier = Multiplier()
    loop: FirstOrder = FirstOrder()
    critic: JointCritic = JointCritic()

    def __post_init__(self) -> None:
        check_range(self, "(0, 1)", "0.2 is the usual choice", "clip")
        check_range(self, "[0, inf)", "0 switches it off", "correction")
        check_range(self, "(0, inf)", "correction=0 switches it off", "weight_max")
        check_range(self, "[0, 1)", "0 is off", "weight_keep")

    def init(self, constraints: int, policy: Policy) -> Sensitive:
        price = self.multiplier.init(constraints)
        return Sensitive(price, jnp.zeros_like(price.value), self.loop.init(policy))

    def improve(self, learner: Learner, batch: Batch, key: Array) -> Improvement:
        batch = in_units(batch, self.cost_scale)
        state: Sensitive = learner.extra
        price = self.multiplier.update(state.price, batch)
        weight = self.weight(learner.policy, batch, state.weight)
        offset = (batch.cost_return - batch.cost_limit) / batch.horizon
        like = lambda x: x.astype(offset.dtype)
        loss: Loss = lambda policy, rows: self.loss(
            policy, rows, offset, like(price.value), like(weight)
        )
        step = self.loop.joint(learner, state.moments, batch, key, loss, self.critic)
        return step.with_metrics(
            {"multiplier": price.value.sum(), "sensitivity": weight.max()},
            extra=Sensitive(price, weight, step.extra),
            spent=spent(learner.policy, step.policy, batch),
        )

    def weight(self, policy: Policy, batch: Batch, before: Array) -> Array:
        """[K] w = 1 / (|∇ĝ|² + ε), capped and averaged with earlier values."""
        rows = linearise(policy, batch, False).gradients(batch.adv_c)
        fresh = 1 / (jnp.sum(rows * rows, 1) + 1e-8)
        fresh = jnp.minimum(fresh, self.weight_max).astype(before.dtype)
        keep = self.weight_keep
        return jnp.where(before > 0, keep * before + (1 - keep) * fresh, fresh)

    def loss(self, policy: Policy, rows: Rows, offset: Array, price: Array, weight: Array) -> Array:
        """`offset` [K] is the violation before the update, in units of a mean advantage."""
        rho = ratio(policy, rows)
        excess = offset + (rows.weight * (rho - 1)) @ rows.adv_c
        distance = 0.5 * self.correction * weight * jax.nn.relu(excess) ** 2
        return (price * excess + distance).sum() - clipped_gain(rho, rows.adv_r, rows, self.clip)
