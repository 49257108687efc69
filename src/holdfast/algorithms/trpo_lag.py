# SPDX-License-Identifier: Apache-2.0
"""TRPO-Lagrangian: TRPO on the priced advantage; the price rises while the limit is exceeded.

λ_i ← max(0, λ_i + step(J_i − b_i))                      once an epoch, before the step
maximise E[ratio · (A_r − Σ λ_i A_i) / (1 + Σ λ_i)]  subject to  KL(π_k, π) ≤ δ
"""

from dataclasses import dataclass

from jax import Array

from holdfast.algorithms.abilities import InTrustRegion
from holdfast.core.critic import CriticFit
from holdfast.core.multiplier import Multiplier, Price, mixed_advantage
from holdfast.core.policies import Policy
from holdfast.core.trust_region import TrustRegion
from holdfast.core.types import Batch, Improvement, Learner


@dataclass(frozen=True)
class TRPOLag(InTrustRegion):
    """Trust region policy optimisation with Lagrange multipliers (Ray, Achiam, Amodei 2019)."""

    multiplier: Multiplier = Multiplier()
    region: TrustRegion = TrustRegion()
    critic: CriticFit = CriticFit()

    def init(self, constraints: int, policy: Policy | None = None) -> Price:
        return self.multiplier.init(constraints)

    def improve(self, learner: Learner, batch: Batch, key: Array) -> Improvement:
        price = self.multiplier.update(learner.extra, batch)
        advantage = mixed_advantage(batch, price.value)
        move = self.region.maximise(learner.policy, batch, advantage)
        return move.improvement(price, {"multiplier": price.value.sum()}, predicts=False)
