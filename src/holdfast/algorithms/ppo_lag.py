# SPDX-License-Identifier: Apache-2.0
"""PPO-Lagrangian and CPPO-PID: PPO on the priced advantage.

    loss = −E[min(ρ A, clip(ρ, 1 ± ε) A)],   A = (A_r − Σ λ_i A_i) / (1 + Σ λ_i)

λ changes once an epoch, before the update. PPO-Lagrangian uses gradient ascent on λ (J_c − b),
CPPO-PID a PID controller on J_c − b, which oscillates less (arXiv:2007.03964).
"""

from dataclasses import dataclass, replace

from jax import Array

from holdfast.algorithms.abilities import InMinibatches
from holdfast.core.first_order import FirstOrder, JointCritic, clipped_loss
from holdfast.core.multiplier import PID, Multiplier, Priced, mixed_advantage, priced
from holdfast.core.policies import Policy
from holdfast.core.types import Batch, Improvement, Learner, check_range


@dataclass(frozen=True)
class PPOLag(InMinibatches):
    """Proximal policy optimisation with Lagrange multipliers (Ray, Achiam, Amodei 2019)."""

    clip: float = 0.2
    """ε: ratios beyond 1 ± ε are clipped."""
    multiplier: Multiplier | PID = Multiplier()
    loop: FirstOrder = FirstOrder()
    critic: JointCritic = JointCritic()

    def __post_init__(self) -> None:
        check_range(self, "(0, 1)", "0.2 is the usual choice", "clip")

    def init(self, constraints: int, policy: Policy) -> Priced:
        return Priced(self.multiplier.init(constraints), self.loop.init(policy))

    def improve(self, learner: Learner, batch: Batch, key: Array) -> Improvement:
        price = self.multiplier.update(learner.extra.price, batch)
        batch = replace(batch, adv_r=mixed_advantage(batch, price.value))
        loss = clipped_loss(self.clip)
        step = self.loop.joint(learner, learner.extra.moments, batch, key, loss, self.critic)
        return priced(step, price)


def cppo_pid() -> PPOLag:
    """PPO whose price is set by a PID controller (Stooke, Achiam, Abbeel 2020)."""
    return PPOLag(multiplier=PID())
