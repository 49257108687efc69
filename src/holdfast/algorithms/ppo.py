# SPDX-License-Identifier: Apache-2.0
"""PPO: a clipped surrogate in minibatches; reward only (arXiv:1707.06347).

    loss = −E[min(ρ A_r, clip(ρ, 1 ± ε) A_r)],   ρ = π / π_old

Costs are ignored; their critics are still fitted and logged.
"""

from dataclasses import dataclass

import optax
from jax import Array

from holdfast.algorithms.abilities import InMinibatches, RewardOnly
from holdfast.core.first_order import FirstOrder, JointCritic, clipped_loss
from holdfast.core.policies import Policy
from holdfast.core.types import Batch, Improvement, Learner, check_range


@dataclass(frozen=True)
class PPO(RewardOnly, InMinibatches):
    """Proximal policy optimisation (Schulman et al. 2017)."""

    clip: float = 0.2
    """ε: ratios beyond 1 ± ε are clipped."""
    loop: FirstOrder = FirstOrder()
    critic: JointCritic = JointCritic()

    def __post_init__(self) -> None:
        check_range(self, "(0, 1)", "0.2 is the usual choice", "clip")

    def init(self, constraints: int, policy: Policy) -> optax.OptState:
        """The moments of the policy's Adam."""
        return self.loop.init(policy)

    def improve(self, learner: Learner, batch: Batch, key: Array) -> Improvement:
        loss = clipped_loss(self.clip)
        return self.loop.joint(learner, learner.extra, batch, key, loss, self.critic)
