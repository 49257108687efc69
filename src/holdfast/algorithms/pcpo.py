# SPDX-License-Identifier: Apache-2.0
"""PCPO: a reward step, then a projection onto the linearised constraints (arXiv:2010.03152).

    v = √(2δ / q) H⁻¹ g                                             TRPO's step
    u = argmin |u − v|  subject to  c_i + κ a_i·u ≤ 0 for all i      in the metric H, or plain L2

For one constraint u = v − max(0, (a·v + c) / s) H⁻¹ a with s = aᵀ H⁻¹ a. The published code moves
along g instead of H⁻¹ g, with the projection length of the natural step (`reward_direction`).
"""

from dataclasses import dataclass
from typing import Literal

import jax.numpy as jnp
from jax import Array

from holdfast.algorithms.abilities import ComparesCosts, InTrustRegion
from holdfast.core.cpo_step import check_constraints, projection
from holdfast.core.critic import CriticFit
from holdfast.core.move import Accept, Trial
from holdfast.core.policies import Policy
from holdfast.core.trust_region import TrustRegion
from holdfast.core.types import Batch, CostScale, Improvement, Learner, in_units


@dataclass(frozen=True)
class PCPO(InTrustRegion, ComparesCosts):
    """Projection-based constrained policy optimisation (Yang et al. 2020)."""

    cost_scale: CostScale = "none"
    """κ, factor from a mean cost advantage to the cost of an episode: 1/(1 − γ) (discount), the
    mean episode length (episode), or 1 (none)."""
    projection: Literal["kl", "l2"] = "kl"
    """Metric of the projection: that of the KL, or the Euclidean distance of parameters."""
    reward_direction: Literal["gradient", "natural"] = "gradient"
    """Direction of the reward step: g (gradient, published) or H⁻¹ g (natural, the paper)."""
    reward_test: bool = False
    """Reject steps that lose reward while the cost is within its limit; the published code does
    not."""
    region: TrustRegion = TrustRegion(backtracks=200)
    critic: CriticFit = CriticFit()

    def init(self, constraints: int, policy: Policy | None = None) -> None:
        """No state of its own."""
        check_constraints(constraints, "PCPO")

    def improve(self, learner: Learner, batch: Batch, key: Array) -> Improvement:
        batch = in_units(batch, self.cost_scale)
        of = self.region.programme(learner.policy, batch)
        x, rows = of.x, of.rows
        hx = of.fisher(x)
        length = jnp.sqrt(2 * self.region.radius / (x @ hx + 1e-8))
        c = batch.cost_return - batch.cost_limit
        columns = of.p if self.projection == "kl" else rows
        gram = rows @ columns.T
        flat = jnp.diagonal(gram) <= 1e-8 * of.local.power()
        length = jnp.where(jnp.any(flat & (c >= 0)), 0.0, length)  # beyond repair: no reward step
        mu = self.correction(gram, c + length * (rows @ x), flat)
        base = x if self.reward_direction == "natural" else hx
        move = self.region.take(of, length * base - mu @ columns, self.accept(c))
        return move.improvement(None, {"projected": jnp.any(mu > 0)})

    def correction(self, gram: Array, excess: Array, flat: Array) -> Array:
        """[K] μ of the projection; 0 for constraints without a gradient."""
        gram = jnp.where(flat[:, None] | flat, 0.0, gram) + jnp.diag(jnp.where(flat, 1.0, 0.0))
        return projection(gram, jnp.where(flat, 0.0, excess))

    def accept(self, c: Array) -> Accept:
        """Predicted cost change within the slack, KL ≤ δ, and with `reward_test` no loss of
        reward."""

        def test(trial: Trial) -> Array:
            within = jnp.all(trial.spent <= jnp.maximum(-c, 0.0))
            good = within & (trial.kl <= self.region.radius)
            return good & (jnp.any(c >= 0) | (trial.gain >= 0)) if self.reward_test else good

        return test
