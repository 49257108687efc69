# SPDX-License-Identifier: Apache-2.0
"""C-MDPO: constrained mirror descent, C-TRPO's geometry by minibatch steps.

    maximise E[ρ A_r] − D̄_C(π ‖ π_k) / t
    D̄_C = KL(π ‖ π_k) + Σ_i β_i D_φ(b_i − J_i − κ E[(ρ − 1) A_i] ‖ b_i − J_i)

Mirror descent policy optimisation (Tomar et al.) with the divergence of C-TRPO in place of the KL.
No system is solved, so it suits networks whose conjugate gradients are slow. For t → 0 the maximum
is C-NPG's natural step. Recovery, margin and hysteresis are those of C-TRPO. A minibatch estimates
the cost change with noise, so beyond `REACH` of the slack the barrier is a straight line. A step
that uses more than `REACH` of the slack on the whole batch is halved until it does not.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, cast

import jax
import jax.numpy as jnp
from jax import Array

from holdfast.algorithms.abilities import ChecksLimits, ComparesCosts, HasBarrier, InMinibatches
from holdfast.algorithms.ctrpo import CTRPO
from holdfast.core.barrier import BARRIERS, check_interior, check_name, recovery_weights
from holdfast.core.critic import CriticFit
from holdfast.core.first_order import FirstOrder, Rows, ratio, spent
from holdfast.core.policies import Policy
from holdfast.core.types import Batch, CostScale, Improvement, Learner, check_range, in_units
from holdfast.settings import Suggested

REACH = 0.9
"""Share of the slack that an update may use."""
HALVINGS = 20
"""Largest number of halvings of a step that uses more; after them the step is 0."""


@dataclass(frozen=True)
class CMDPO(InMinibatches, ComparesCosts, HasBarrier, ChecksLimits):
    """Constrained mirror descent policy optimisation."""

    step: float = 3.0
    """t, step size: weight of the gain against the divergence; a small t gives natural steps."""
    beta: float = 1.0
    """β, weight of the barrier against the KL."""
    barrier: Annotated[str, Suggested(BARRIERS, "file.py:name")] = "log"
    """Generator φ of the barrier: entropy (x log x, published), log (−log x), reversed-entropy (x
    log x in reversed order), or your own, file.py:name."""
    hysteresis: float = 0.8
    """h: recovery of a constraint ends once its cost is below h·limit; 1: below the limit."""
    cost_scale: CostScale = "episode"
    """κ, factor from a mean cost advantage to the cost of an episode: 1/(1 − γ) (discount), the
    mean episode length (episode), or 1 (none)."""
    margin_confidence: float = 1.5
    """z: the slack is limit − (J_c + z standard errors); 0 is off."""
    loop: FirstOrder = FirstOrder(passes=10, minibatch=512, kl_stop=0.02)
    critic: CriticFit = CriticFit()

    def __post_init__(self) -> None:
        check_range(self, "(0, inf)", "3 is usual", "step")
        check_range(self, "(0, inf)", "1 is usual", "beta")
        check_range(self, "(0, 1]", "1.0 switches it off", "hysteresis")
        check_range(self, "[0, inf)", "0 is off", "margin_confidence")
        check_name(self.barrier)

    def check_limits(self, limits: Mapping[str, float]) -> None:
        check_interior(limits)

    def init(self, constraints: int, policy: Policy) -> tuple[Array, Any]:
        """([K] which constraints are in recovery, the moments of the policy's Adam)."""
        return jnp.zeros(constraints, bool), self.loop.init(policy)

    def improve(self, learner: Learner, batch: Batch, key: Array) -> Improvement:
        batch = in_units(batch, self.cost_scale)
        was, moments = learner.extra
        upper = batch.cost_return + self.margin_confidence * batch.cost_error
        recovering = CTRPO(hysteresis=self.hysteresis).mode(was, batch, upper)
        excess = upper - self.hysteresis * batch.cost_limit
        share = recovery_weights(recovering, excess, batch.cost_limit)
        slack = jnp.where(recovering, jnp.inf, batch.cost_limit - upper)
        old = learner.policy
        loss = lambda policy, rows: self.loss(
            policy, old, rows, self._gain(rows, share, recovering), slack / batch.horizon
        )
        step = self.loop.actor(old, moments, batch, key, loss)
        policy, halved, predicted = self._inside(old, step.policy, batch, slack)
        metrics = {
            "recovering": recovering.any(),
            "slack": (batch.cost_limit - upper).min(),
            "halved": halved,
        }
        extra = (recovering, step.extra)
        return step.with_metrics(metrics, policy=policy, extra=extra, spent=predicted)

    def _gain(self, rows: Rows, share: Array, recovering: Array) -> Array:
        """[m] the advantage to maximise: the reward's, or minus that of the costs in recovery."""
        return jnp.where(recovering.any(), -rows.adv_c @ share, rows.adv_r)

    def loss(self, policy: Policy, old: Policy, rows: Rows, gain: Array, slack: Array) -> Array:
        """`slack` [K] in units of a mean advantage; infinite without a barrier."""
        rho = ratio(policy, rows)
        kl = rows.weight @ policy.kl(policy.outputs(rows.obs), old.outputs(rows.obs))
        used = (rows.weight * (rho - 1)) @ rows.adv_c
        walls = self.beta * jax.vmap(self._wall)(slack, used)
        return (kl + walls.sum()) / self.step - rows.weight @ (rho * gain)

    def _wall(self, slack: Array, used: Array) -> Array:
        """D_φ, linear beyond `REACH` of the slack; 0 without a barrier."""
        finite = jnp.isfinite(slack)
        room = jnp.where(finite, slack, 1.0)
        inner = lambda x: BARRIERS[self.barrier].divergence(room, x)
        edge = REACH * room
        slope = jax.grad(inner)(edge)
        within = inner(jnp.minimum(used, edge))
        return jnp.where(finite, within + slope * jnp.maximum(used - edge, 0.0), 0.0)

    def _inside(
        self, old: Policy, new: Policy, batch: Batch, slack: Array
    ) -> tuple[Policy, Array, Array]:
        """(the step, halved until it uses at most `REACH` of each slack; number of halvings; [K]
        spent)"""
        reached = lambda scale: cast(
            Policy, jax.tree.map(lambda a, b: a + scale * (b - a), old, new)
        )
        used = lambda scale: spent(old, reached(scale), batch)
        fits = lambda scale: (used(scale) <= REACH * slack).all()
        continues = lambda state: (state[0] < HALVINGS) & ~fits(state[1])
        start = jnp.zeros((), jnp.int32), jnp.ones((), batch.weight.dtype)
        count, scale = jax.lax.while_loop(continues, lambda s: (s[0] + 1, s[1] / 2), start)
        scale = jnp.where(fits(scale), scale, 0.0)
        return reached(scale), count, used(scale)
