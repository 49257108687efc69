# SPDX-License-Identifier: Apache-2.0
"""Trust regions: the best step for a linearised objective inside a ball of a divergence.

    maximise  E[ratio · advantage]   subject to   D(π) ≤ radius
    D(π) = mean KL + Σ_i β_i D_φ(slack_i − spent_i(π) ‖ slack_i)

At the old policy the Hessian of D is the Fisher matrix F plus one rank-one term for each barrier, H
= F + Σ_i w_i a_i a_iᵀ. Here w_i = β_i φ''(slack_i), and a_i is the gradient of the predicted cost
change. F is applied without being formed. The barrier terms are inverted exactly inside the one
solve, for any number and stiffness. The step is scaled by the quadratic model; then the *actual* D
and objective determine its length.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import jax
import jax.numpy as jnp
from jax import Array

from holdfast.core.barrier import Barriers
from holdfast.core.linearise import (
    Linearised,
    Product,
    Worse,
    conjugate_gradients,
    dense,
    linearise,
    mean_diagonal,
    pessimistic,
    woodbury,
)
from holdfast.core.move import Accept, Found, Move, Status, Trial, TryOut, backtrack, bracket
from holdfast.core.policies import Policy
from holdfast.core.types import Batch, check_range


@dataclass(frozen=True)
class Programme:
    """The linearised problem: maximise g·u, a_i·u bounded, ½ uᵀHu ≤ δ; with H⁻¹ applied."""

    local: Linearised
    fisher: Product
    """H."""
    gradient: Array
    """[P] g."""
    rows: Array
    """[K, P] a_i."""
    x: Array
    """[P] H⁻¹ g."""
    p: Array
    """[K, P] H⁻¹ a_i."""


@dataclass(frozen=True)
class TrustRegion:
    """Size and metric of the trust region, and the search for a step in it."""

    radius: float = 0.01
    """δ, the largest divergence of one policy update."""
    kl_average: bool = True
    """Average the KL over action dimensions, as in the published code, instead of summing it."""
    kl_order: Literal["old-new", "new-old"] = "old-new"
    """KL(old ‖ new), as in the published code, or KL(new ‖ old), as in the paper's text; they are
    equal to second order."""
    solver: Literal["woodbury", "sum", "dense"] = "woodbury"
    """Linear solver: CG with the barrier terms inverted exactly (woodbury), CG on the plain sum (as
    in the published code), or a dense matrix."""
    damping: float = 0.1
    """Number added to the diagonal of the Fisher matrix."""
    damping_rule: Literal["absolute", "relative"] = "absolute"
    """Unit of damping: absolute, or relative to the Fisher matrix's mean diagonal."""
    cg_steps: int = 15
    """Iterations of conjugate gradients."""
    cg_eps: float = 0.0
    """Number added to CG's denominators; the published runs used 1e-6."""
    search: Literal["backtrack", "bracket"] = "backtrack"
    """Line search: shorten the step until it is accepted, or bracket the longest acceptable step,
    which may be longer than the first."""
    backtracks: int = 15
    """Number of candidates of the line search."""
    shrink: float = 0.8
    """Factor between two candidates of the backtracking search."""
    quit_not_finite: bool = False
    """End the line search at a KL that is not finite, as the published CPO and PCPO do."""
    pessimism: float = 0.0
    """Divergence of the unfavourable step before each gradient (SHAPO: 1e-5); 0 is off."""

    def __post_init__(self) -> None:
        check_range(self, "(0, inf)", "0.01 is the usual choice", "radius")
        check_range(self, "(0, 1)", "0.8 is the usual choice", "shrink")
        check_range(self, "[0, inf)", "0 switches it off", "damping", "cg_eps", "pessimism")
        check_range(self, "[1, inf)", "15 is the usual choice", "cg_steps", "backtracks")

    def check_search(self, line_search: bool) -> None:
        """Refuse a kind of search without a line search."""
        if self.search == "bracket" and not line_search:
            raise ValueError(
                "search='bracket' looks for the longest acceptable step, but line_search=False "
                "takes the modelled one; leave search at 'backtrack', or use 'c-trpo' or 'trpo'."
            )

    def maximise(
        self,
        old: Policy,
        batch: Batch,
        advantage: Array,
        barriers: Barriers | None = None,
        accept: Accept | None = None,
    ) -> Move:
        """One step from `old` that raises E[ratio · advantage] and stays inside the region."""
        local = linearise(old, batch, self.kl_average)
        gradient = self.gradient(local, advantage)
        direction, curvature = self.direction(local, gradient, barriers)
        quadratic = direction @ curvature(direction)
        power = batch.weight @ (advantage * advantage)  # so that its unit does not matter
        step = jnp.sqrt(2 * self.radius / (quadratic + 1e-8 * power)) * direction
        norm = jnp.linalg.norm(gradient)
        quadratic = quadratic / jnp.where(power > 0, power, 1.0)
        inside: Accept = lambda t: (t.gain >= 0) & (t.divergence <= self.radius)
        return self.along(local, step, quadratic, norm, advantage, barriers, accept or inside)

    def programme(self, old: Policy, batch: Batch) -> Programme:
        """The linearised problem, for methods that solve for reward and costs together."""
        local = linearise(old, batch, self.kl_average)
        fisher = self.damped(local)
        gradient, rows = self.gradient(local, batch.adv_r), self.spending(local)
        solved = self.solve(fisher, jnp.concatenate([gradient[None], rows]))
        return Programme(local, fisher, gradient, rows, solved[0], solved[1:])

    def take(self, of: Programme, step: Array, accept: Accept) -> Move:
        """The best policy along a given solution of the linearised problem."""
        size, norm = step @ of.fisher(step), jnp.linalg.norm(of.gradient)
        return self.along(of.local, step, size, norm, of.local.batch.adv_r, None, accept)

    def along(
        self,
        local: Linearised,
        step: Array,
        quadratic: Array,
        gradient_norm: Array,
        advantage: Array,
        barriers: Barriers | None,
        accept: Accept,
    ) -> Move:
        """The best policy along a step whose size in the metric is `quadratic`; old if none is."""
        finite = jnp.isfinite(quadratic) & jnp.isfinite(gradient_norm)
        usable = finite & (quadratic > 1e-12)
        status = jnp.where(finite, Status.NO_GRADIENT, Status.NOT_FINITE)
        step = jnp.where(usable, step, 0.0)

        def try_out(scale: Array) -> Trial:
            return self.trial(local, local.moved(scale * step), advantage, barriers)

        scale, index, trial = self.searched(try_out, accept, usable)
        scale = jnp.where(index > 0, scale, 0.0)
        return Move(
            policy=local.moved(scale * step),
            trial=jax.tree.map(lambda x: jnp.where(index > 0, x, jnp.zeros_like(x)), trial),
            status=jnp.where(
                index > 0, Status.ACCEPTED, jnp.where(usable, Status.NO_STEP_ACCEPTED, status)
            ),
            index=index,
            gradient_norm=gradient_norm,
            step_norm=scale * jnp.linalg.norm(step),
        )

    def searched(self, try_out: TryOut, accept: Accept, usable: Array) -> Found:
        """The length of the step, by the chosen search."""
        if self.search == "bracket":
            return bracket(try_out, accept, usable, self.backtracks, self.radius)
        return backtrack(
            try_out, accept, usable, self.backtracks, self.shrink, self.quit_not_finite
        )

    def direction(
        self, local: Linearised, gradient: Array, barriers: Barriers | None
    ) -> tuple[Array, Product]:
        """H⁻¹ g and the product with H = F + damping + Σ w_i a_i a_iᵀ."""
        fisher = self.damped(local)
        if barriers is None:
            return self.solve(fisher, gradient[None])[0], fisher
        rows = self.spending(local)
        weight = barriers.curvature()
        total: Product = lambda v: fisher(v) + (weight * (rows @ v)) @ rows
        if self.solver != "woodbury":
            return self.solve(total, gradient[None])[0], total
        shift = self.damping or 1.0  # M = shift + Σ w_i a_i a_iᵀ, inverted exactly
        x = conjugate_gradients(
            lambda v: fisher(v) - shift * v,
            gradient,
            self.cg_steps,
            eps=self.cg_eps,
            inverse=woodbury(rows, weight, shift),
        )
        return x, total

    def gradient(self, local: Linearised, advantage: Array) -> Array:
        """[P] gradient of E[ratio · advantage], which is maximised."""
        return self.seen(local, advantage[:, None], "lower")[0]

    def spending(self, local: Linearised) -> Array:
        """[K, P] gradients of κ E[ratio · A_c], which are minimised."""
        return local.batch.horizon * self.seen(local, local.batch.adv_c, "higher")

    def seen(self, local: Linearised, advantages: Array, worse: Worse) -> Array:
        """[m, P] gradients of E[ratio · advantage] for [B, m], pessimistic if that is set."""
        plain = local.gradients(advantages)
        if not self.pessimism:
            return plain
        solved = self.solve(self.damped(local), plain)
        return pessimistic(local, advantages, plain, solved, self.pessimism, worse)

    def damped(self, local: Linearised) -> Product:
        """v → (F + damping) v."""
        damping: Any = self.damping
        if self.damping_rule == "relative":
            damping = damping * mean_diagonal(local.fisher, local.theta.size, local.theta.dtype)
        return lambda v: local.fisher(v) + damping * v

    def solve(self, product: Product, rhs: Array) -> Array:
        """[m, P] solutions for the right-hand sides [m, P]."""
        if self.solver == "dense":
            cutoff = 1e-12 if rhs.dtype == jnp.float64 else 1e-6
            return jax.vmap(lambda v: dense(product, v, cutoff))(rhs)
        return jax.vmap(lambda v: conjugate_gradients(product, v, self.cg_steps, eps=self.cg_eps))(
            rhs
        )

    def trial(
        self, local: Linearised, new: Policy, advantage: Array, barriers: Barriers | None
    ) -> Trial:
        """Evaluate a candidate: exact KL and barrier, sampled surrogates."""
        batch = local.batch
        outputs: Any = new.outputs(batch.obs)
        excess = jnp.expm1(new.log_prob(outputs, batch.action) - local.log_prob)  # ratio − 1
        pair = (local.outputs, outputs) if self.kl_order == "old-new" else (outputs, local.outputs)
        kl = jnp.sum(batch.weight * new.kl(*pair)) / (new.action_dims if self.kl_average else 1)
        spent = batch.horizon * ((batch.weight * excess) @ batch.adv_c)
        divergence = kl
        if barriers is not None:
            guarded = spent
            if barriers.confidence:
                guarded = spent + barriers.confidence * blocked_error(batch, excess)
            divergence = kl + barriers.divergence(guarded)
        gain = jnp.sum(batch.weight * excess * advantage)
        return Trial(gain, kl, spent, jnp.where(jnp.isfinite(gain), divergence, jnp.inf))


def blocked_error(batch: Batch, excess: Array) -> Array:
    """[K] standard error of κ E[(ratio − 1) · A_c], blocked by episode."""
    size = batch.weight.shape[0]
    share = (batch.weight * excess)[:, None] * batch.adv_c
    total = jax.ops.segment_sum(share, batch.episode, num_segments=size)
    seen = jax.ops.segment_sum(jnp.ones(size, share.dtype), batch.episode, num_segments=size) > 0
    n = seen.sum(dtype=share.dtype)
    deviation = jnp.where(seen[:, None], total - total.sum(0) / n, 0.0)
    return batch.horizon * jnp.sqrt(n / jnp.maximum(n - 1, 1) * (deviation**2).sum(0))
