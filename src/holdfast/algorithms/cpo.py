# SPDX-License-Identifier: Apache-2.0
"""CPO: the best step of the linearised problem, constraints included (arXiv:1705.10528).

    maximise g·u  subject to  c_i + κ a_i·u ≤ 0 for all i,  ½ uᵀ H u ≤ δ,   c = J_c − b

| case | c        | the region and the constraints      | step                              |
|------|----------|-------------------------------------|-----------------------------------|
| 4    | < 0      | no cost gradient                    | TRPO's                            |
| 3    | < 0      | the whole region is safe            | TRPO's                            |
| 2    | < 0      | a limit cuts the region             | the programme's                   |
| 1    | some ≥ 0 | a safe point lies inside the region | the programme's                   |
| 0    | some ≥ 0 | none does                           | down the cost, the reward ignored |

With hysteresis, case 0 continues until every J_i < h b_i.
"""

from dataclasses import dataclass
from typing import Literal

import jax.numpy as jnp
from jax import Array

from holdfast.algorithms.abilities import ComparesCosts, InTrustRegion
from holdfast.core.barrier import recovery_weights
from holdfast.core.cpo_step import check_constraints, constrained_step, published_dual
from holdfast.core.critic import CriticFit
from holdfast.core.move import Accept, Trial
from holdfast.core.policies import Policy
from holdfast.core.trust_region import TrustRegion
from holdfast.core.types import Batch, CostScale, Improvement, Learner, check_range, in_units


@dataclass(frozen=True)
class CPO(InTrustRegion, ComparesCosts):
    """Constrained policy optimisation (Achiam, Held, Tamar, Abbeel 2017)."""

    cost_scale: CostScale = "none"
    """κ, factor from a mean cost advantage to the cost of an episode: 1/(1 − γ) (discount), the
    mean episode length (episode), or 1 (none)."""
    dual: Literal["exact", "flipped"] = "exact"
    """Dual solution: exact, or with the sign error of the published code (flipped; one constraint
    only)."""
    hysteresis: float = 1.0
    """h: infeasible recovery ends once the cost is below h·limit; 1: below the limit."""
    sticky: Literal["infeasible", "violated"] = "infeasible"
    """Cases that hysteresis prolongs: case 0 alone (infeasible, published), or 0 and 1
    (violated)."""
    region: TrustRegion = TrustRegion()
    critic: CriticFit = CriticFit()

    def __post_init__(self) -> None:
        check_range(self, "(0, 1]", "1.0 switches it off", "hysteresis")

    def init(self, constraints: int, policy: Policy | None = None) -> Array:
        """Whether the last step was a recovery."""
        check_constraints(constraints, "CPO")
        if self.dual == "flipped" and constraints > 1:
            raise ValueError(
                f"dual='flipped' reproduces a formula for one constraint, but there are "
                f"{constraints}; use dual='exact'."
            )
        return jnp.zeros((), bool)

    def improve(self, learner: Learner, batch: Batch, key: Array) -> Improvement:
        batch = in_units(batch, self.cost_scale)
        of = self.region.programme(learner.policy, batch)
        x, p, rows = of.x, of.p, of.rows
        c = batch.cost_return - batch.cost_limit
        flat = jnp.sum(rows * rows, 1) <= 1e-6 * of.local.power()
        t, mu, case = self.plan(x @ of.fisher(x), rows @ p.T, rows @ x, flat, batch, learner.extra)
        move = self.region.take(of, t * x - mu @ p, self.accept(case, c, batch))
        sticky = case <= (0 if self.sticky == "infeasible" else 1)
        return move.improvement(sticky, {"case": case, "recovering": case == 0})

    def plan(
        self, q: Array, gram: Array, r: Array, flat: Array, batch: Batch, was: Array
    ) -> tuple[Array, Array, Array]:
        """(t, μ, case): the step is t x − μ p. `flat` [K]: whose cost has no gradient."""
        radius, c = self.region.radius, batch.cost_return - batch.cost_limit
        share = self.recovery_weights(batch)
        idle = flat & (c < 0)  # nothing to gain or lose there: a limit that is out of reach
        seen = jnp.where(idle[:, None] | idle, 0.0, gram)
        seen = seen + jnp.diag(jnp.where(idle, 1.0, 0.0))
        s = jnp.diagonal(seen)
        r, c_seen = jnp.where(idle, 0.0, r), jnp.where(idle, -2 * (2 * radius) ** 0.5, c)
        t, mu, feasible = constrained_step(q, r, seen, c_seen, radius)
        cut = c_seen * c_seen <= 2 * radius * s
        safe = jnp.all(c < 0)
        inside = jnp.where(jnp.any(cut), 2, jnp.where(jnp.all(idle), 4, 3))
        case = jnp.where(safe, inside, jnp.where(feasible, 1, 0))
        case = jnp.where(self.must_recover(was, batch), 0, case).astype(jnp.int32)
        if self.dual == "flipped":
            bent = published_dual(q, r[0], s[0] + 1e-8, c_seen[0], radius)
            constrained = (case == 1) | (case == 2)
            t, mu = jnp.where(constrained, bent[0], t), jnp.where(constrained, bent[1][None], mu)
        down = share @ gram @ share
        some = down > 1e-6 * (share * share) @ jnp.diagonal(gram)  # costs may pull apart
        away = jnp.where(some, jnp.sqrt(2 * radius / jnp.where(some, down, 1.0)), 0.0) * share
        return jnp.where(case == 0, 0.0, t), jnp.where(case == 0, away, mu), case

    def must_recover(self, was: Array, batch: Batch) -> Array:
        """After a recovery the cost has to fall below h·b before the table applies again."""
        if self.hysteresis == 1.0:
            return jnp.zeros((), bool)
        return was & jnp.any(batch.cost_return >= self.hysteresis * batch.cost_limit)

    def recovery_weights(self, batch: Batch) -> Array:
        """[K] weights of the costs in the direction of a recovery."""
        target = self.hysteresis * batch.cost_limit
        excess = batch.cost_return - target
        return recovery_weights(excess >= 0, excess, batch.cost_limit)

    def accept(self, case: Array, c: Array, batch: Batch) -> Accept:
        """gain ≥ 0 unless the cost is reduced, predicted cost change within the slack, KL ≤ δ."""
        allowed = jnp.maximum(-c, 0.0)
        share = self.recovery_weights(batch)

        def test(trial: Trial) -> Array:
            each = trial.spent <= allowed
            repaired = jnp.all(each | (c >= 0)) & (share @ trial.spent <= share @ allowed)
            within = jnp.where(case == 0, repaired, jnp.all(each))
            return ((case < 2) | (trial.gain >= 0)) & within & (trial.kl <= self.region.radius)

        return test


def cpo_hysteresis() -> CPO:
    """CPO whose infeasible recovery continues until the cost is below 0.8 of the limit."""
    return CPO(hysteresis=0.8)
