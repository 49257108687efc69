# SPDX-License-Identifier: Apache-2.0
"""SB-TRPO: reduce the cost and improve the reward in one step (arXiv:2512.23770).

    Δ_r = √(2δ / gᵀH⁻¹g) H⁻¹g        Δ_c = −√(2δ / aᵀH⁻¹a) H⁻¹a        a = κ ∇A_c
    Δ = (1 − μ) Δ_r + μ Δ_c            the smallest μ in [0, 1] with  a·Δ ≤ allowed

Above the limit `allowed` is β a·Δ_c: the step keeps a share β of the best descent and improves the
reward with the rest of the region. Costs are not negative, so with a limit of 0 that is always the
case, as in the published method. Below the limit `allowed` is the slack b − J_c, so that the policy
can reach a limit above 0. Violated constraints count as one, weighted as in a recovery. If none is
violated, those count that the reward's step would break.
"""

from dataclasses import dataclass

import jax.numpy as jnp
from jax import Array

from holdfast.algorithms.abilities import ComparesCosts, InTrustRegion
from holdfast.core.barrier import recovery_weights
from holdfast.core.critic import CriticFit
from holdfast.core.move import Accept, Trial
from holdfast.core.policies import Policy
from holdfast.core.trust_region import TrustRegion
from holdfast.core.types import Batch, CostScale, Improvement, Learner, check_range, in_units


@dataclass(frozen=True)
class SBTRPO(InTrustRegion, ComparesCosts):
    """Safety-biased trust region policy optimisation (Kanwar, Wagner, Ong 2025)."""

    safety_bias: float = 0.75
    """β, the share of the best descent that a step above the limit keeps; 1 repairs only."""
    cost_scale: CostScale = "discount"
    """κ, factor from a mean cost advantage to the cost of an episode: 1/(1 − γ) (discount), the
    mean episode length (episode), or 1 (none)."""
    region: TrustRegion = TrustRegion()
    critic: CriticFit = CriticFit()

    def __post_init__(self) -> None:
        hint = "1 repairs only, and 'trpo' ignores the cost"
        check_range(self, "(0, 1]", hint, "safety_bias")

    def init(self, constraints: int, policy: Policy | None = None) -> None:
        """No state of its own."""

    def improve(self, learner: Learner, batch: Batch, key: Array) -> Improvement:
        batch = in_units(batch, self.cost_scale)
        of = self.region.programme(learner.policy, batch)
        power = batch.weight @ (batch.adv_r * batch.adv_r)
        up = self.reach(of.gradient @ of.x, power) * of.x
        c = batch.cost_return - batch.cost_limit
        violated = jnp.any(c >= 0)
        excess = jnp.where(violated, c, c + of.rows @ up)
        share = recovery_weights(excess >= 0, excess, batch.cost_limit)
        a, p = share @ of.rows, share @ of.p
        down = -self.reach(a @ p, share**2 @ of.local.power()) * p
        allowed = jnp.where(violated, self.safety_bias * (a @ down), -share @ c)
        mu = mixture(a @ up, a @ down, allowed)
        move = self.region.take(of, (1 - mu) * up + mu * down, self.accept(c, share))
        return move.improvement(None, {"mixture": mu, "recovering": violated})

    def reach(self, quadratic: Array, power: Array) -> Array:
        """√(2δ / quadratic), the longest step in the region; 0 without a gradient."""
        some = quadratic > 1e-8 * power
        return jnp.where(some, jnp.sqrt(2 * self.region.radius / jnp.where(some, quadratic, 1)), 0)

    def accept(self, c: Array, share: Array) -> Accept:
        """KL ≤ δ, cost change within the slack; above a limit the cost falls, below no loss of
        reward."""
        violated = jnp.any(c >= 0)

        def test(trial: Trial) -> Array:
            within = jnp.all((trial.spent <= -c) | (c >= 0))
            better = jnp.where(violated, share @ trial.spent <= 0, trial.gain >= 0)
            return within & better & (trial.kl <= self.region.radius)

        return test


def mixture(rise: Array, fall: Array, allowed: Array) -> Array:
    """The smallest μ in [0, 1] with (1 − μ) rise + μ fall ≤ allowed, where fall ≤ rise; else 1."""
    gap = rise - fall
    return jnp.where(gap > 0, jnp.clip((rise - allowed) / jnp.where(gap > 0, gap, 1), 0, 1), 0)
