# SPDX-License-Identifier: Apache-2.0
"""TRPO and NPG: reward only, the unconstrained relatives of C-TRPO and C-NPG.

    TRPO   maximise A_r(π)  subject to  KL(π_k, π) ≤ δ
    NPG    the full step of TRPO's quadratic model, without a search

Costs are ignored; their critics are still fitted and logged.
"""

from dataclasses import dataclass

import jax.numpy as jnp
from jax import Array

from holdfast.algorithms.abilities import InTrustRegion, RewardOnly
from holdfast.core.critic import CriticFit
from holdfast.core.policies import Policy
from holdfast.core.trust_region import TrustRegion
from holdfast.core.types import Batch, Improvement, Learner


@dataclass(frozen=True)
class TRPO(RewardOnly, InTrustRegion):
    """Trust region policy optimisation (Schulman et al. 2015)."""

    region: TrustRegion = TrustRegion()
    critic: CriticFit = CriticFit()
    line_search: bool = True
    """Search along the step; without it the whole natural step is taken (NPG)."""

    def __post_init__(self) -> None:
        self.region.check_search(self.line_search)

    def init(self, constraints: int, policy: Policy | None = None) -> None:
        """No state of its own."""

    def improve(self, learner: Learner, batch: Batch, key: Array) -> Improvement:
        accept = None if self.line_search else lambda trial: jnp.isfinite(trial.kl)
        move = self.region.maximise(learner.policy, batch, batch.adv_r, accept=accept)
        return move.improvement(None, {}, predicts=False)


def npg() -> TRPO:
    """Natural policy gradient: one full step, never shortened."""
    return TRPO(line_search=False, region=TrustRegion(backtracks=1))
