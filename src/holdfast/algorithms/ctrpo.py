# SPDX-License-Identifier: Apache-2.0
"""C-TRPO: trust regions that contain only policies predicted safe (arXiv:2411.02957).

    maximise A_r(π)  subject to  D_C(π, π_k) ≤ δ
    D_C = KL(π_k, π) + Σ_i β_i D_φ(b_i − J_i − κ A_i(π) ‖ b_i − J_i)

Where J_i ≥ b_i no safe region exists. Then constraint i recovers: its A_i is reduced inside the
region of the others, until J_i < h b_i. With several constraints in recovery A_i / b_i is weighted
by (J_i − h b_i)₊ / b_i, so that units do not matter; the barriers of the others stay active.

J_i is the estimate plus a margin of z standard errors. No policy may reach h b_i. So recovery of a
constraint below its limit also ends once a further step would change its cost by less than the
margin. A run ends with a cost-repair phase: in its last updates the policy changes only to reduce
costs below h b_i. The phase is left out if all J_i ≤ (1 − h) b_i, far below the limits.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

import jax.numpy as jnp
from jax import Array

from holdfast.algorithms.abilities import ChecksLimits, ComparesCosts, HasBarrier, InTrustRegion
from holdfast.core.barrier import BARRIERS, Barriers, check_interior, check_name, recovery_weights
from holdfast.core.critic import CriticFit
from holdfast.core.move import Accept
from holdfast.core.policies import Policy
from holdfast.core.trust_region import TrustRegion
from holdfast.core.types import (
    Batch,
    CostScale,
    Improvement,
    Learner,
    Metrics,
    check_range,
    in_units,
)
from holdfast.settings import Suggested


@dataclass(frozen=True)
class CTRPO(InTrustRegion, ComparesCosts, HasBarrier, ChecksLimits):
    """Constrained trust region policy optimisation (Milosevic, Müller, Scherf 2025)."""

    beta: float | tuple[float, ...] = 1.0
    """β, weight of the barrier against the KL; several values: one for each constraint."""
    barrier: Annotated[str, Suggested(BARRIERS, "file.py:name")] = "log"
    """Generator φ of the barrier: entropy (x log x, published), log (−log x), reversed-entropy (x
    log x in reversed order), or your own, file.py:name."""
    hysteresis: float = 0.8
    """h: recovery of a constraint ends once its cost is below h·limit; 1: below the limit."""
    cost_scale: CostScale = "episode"
    """κ, factor from a mean cost advantage to the cost of an episode: 1/(1 − γ) (discount), the
    mean episode length (episode), or 1 (none)."""
    margin_confidence: float = 1.5
    """z: the slack is limit − (J_c + z standard errors); 0 (published) is off."""
    spent_confidence: float = 0.0
    """z: the accept test adds z standard errors to the predicted cost change; 0 is off."""
    start_recovering: bool = False
    """Begin in recovery, as the published code does, whatever the first cost estimate."""
    landing: float = 0.05
    """Share of the run for the final cost-repair phase: near a limit its updates only reduce the
    cost, to h·limit; 0 (published) is off."""
    line_search: bool = True
    """Search along the step; without it the natural step is only halved until it is inside the
    linearised safe set (C-NPG)."""
    region: TrustRegion = TrustRegion()
    critic: CriticFit = CriticFit(
        critic_lr=5e-3, critic_decay=True, critic_passes=3, critic_first=True, critic_apart=True
    )

    def __post_init__(self) -> None:
        self.region.check_search(self.line_search)
        check_name(self.barrier)
        betas = self.beta if isinstance(self.beta, tuple) else (self.beta,)
        if not all(0 < b < float("inf") for b in betas):
            raise ValueError(
                f"beta={self.beta} must be positive and finite; a small one (0.01) weakens the "
                "barrier, and 'trpo' has none."
            )
        check_range(self, "(0, 1]", "1.0 switches it off", "hysteresis")
        check_range(self, "[0, inf)", "0 is off", "margin_confidence", "spent_confidence")
        check_range(self, "[0, 1)", "0 switches it off", "landing")

    def check_limits(self, limits: Mapping[str, float]) -> None:
        check_interior(limits)

    def init(self, constraints: int, policy: Policy | None = None) -> Array:
        """[K] which constraints are in recovery."""
        if isinstance(self.beta, tuple) and len(self.beta) != constraints:
            raise ValueError(
                f"beta has {len(self.beta)} values for {constraints} constraint(s); give one "
                "number for all or one for each."
            )
        return jnp.full(constraints, self.start_recovering)

    def improve(self, learner: Learner, batch: Batch, key: Array) -> Improvement:
        batch = in_units(batch, self.cost_scale)
        margin = self.margin_confidence * batch.cost_error
        upper = batch.cost_return + margin
        near = (upper > (1 - self.hysteresis) * batch.cost_limit).any()
        lands = near & (batch.progress >= 1 - self.landing)
        recovering = self.mode(learner.extra | lands, batch, upper)
        share = recovery_weights(
            recovering, upper - self.hysteresis * batch.cost_limit, batch.cost_limit
        )
        advantage = jnp.where(lands, 0.0, batch.adv_r)
        advantage = jnp.where(recovering.any(), -batch.adv_c @ share, advantage)
        barriers = Barriers(
            kind=self.barrier,
            slack=batch.cost_limit - upper,
            beta=jnp.where(recovering, 0.0, jnp.asarray(self.beta, upper.dtype)),
            confidence=self.spent_confidence,
        )
        move = self.region.maximise(learner.policy, batch, advantage, barriers, self.accept())
        over = (upper < batch.cost_limit) & (jnp.abs(move.trial.spent) < margin)
        return move.improvement(recovering & ~over, self.report(recovering, barriers))

    def mode(self, was: Array, batch: Batch, upper: Array) -> Array:
        """[K] recovery is entered at J + z·se ≥ b and left once J < h·b and J + z·se < b."""
        entered = upper >= batch.cost_limit
        return entered | (was & (batch.cost_return >= self.hysteresis * batch.cost_limit))

    def accept(self) -> Accept | None:
        """The region's own test, or for C-NPG: inside the linearised safe set."""
        return None if self.line_search else lambda trial: jnp.isfinite(trial.divergence)

    def report(self, recovering: Array, barriers: Barriers) -> Metrics:
        return {
            "recovering": recovering.any(),
            "slack": barriers.slack.min(),
            "stiffness": barriers.curvature().max(),
        }


def c_npg() -> CTRPO:
    """Constrained natural policy gradient: C-TRPO's direction, halved only to stay safe."""
    return CTRPO(line_search=False, region=TrustRegion(backtracks=16, shrink=0.5))


def c_trpo_no_hysteresis() -> CTRPO:
    """The ablation of the printed table: recovery ends as soon as the cost is below the limit."""
    return CTRPO(hysteresis=1.0)
