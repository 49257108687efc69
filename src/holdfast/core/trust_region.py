# SPDX-License-Identifier: Apache-2.0
"""Trust regions: the best step for a linearised objective inside a ball of a divergence.

    maximise  E[ratio · advantage]   subject to   D(π) ≤ radius
    D(π) = mean KL + Σ_i β_i D_φ(slack_i − spent_i(π) ‖ slack_i)

At the old policy the Hessian of D is the Fisher matrix F plus one rank-one term for each barrier,
H = F + Σ_i w_i a_i a_iᵀ, with w_i = β_i φ''(slack_i) and a_i the gradient of what is spent. F is
applied without being formed; the barrier terms are inverted exactly inside the one solve, however
stiff and many they are. The step is scaled to the quadratic model, then the *actual* D and
objective decide its length.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import jax
import jax.numpy as jnp
from jax import Array
from jax.flatten_util import ravel_pytree

from holdfast.core.barrier import BARRIERS
from holdfast.core.policies import Policy
from holdfast.core.solve import Product, conjugate_gradients, dense, mean_diagonal, woodbury
from holdfast.core.types import Batch, Improvement, Metrics


class Status(enum.IntEnum):
    """How a step ended. Compiled code cannot raise, so it returns one of these."""

    ACCEPTED = 0
    NO_STEP_ACCEPTED = 1
    NO_GRADIENT = 2
    NOT_FINITE = 3

    @property
    def sentence(self) -> str:
        return {
            Status.ACCEPTED: "a step inside the trust region was taken",
            Status.NO_STEP_ACCEPTED: "no step along the direction was acceptable; the policy stays",
            Status.NO_GRADIENT: "the gradient vanishes or has no curvature; the policy stays",
            Status.NOT_FINITE: "the gradient or the direction is not finite; the policy stays",
        }[self]


@dataclass(frozen=True)
class Barriers:
    """The barrier terms of a divergence, one for each constraint."""

    kind: str
    """A name in `BARRIERS`."""
    slack: Array
    """[K] b − J_c, positive where beta is."""
    beta: Array
    """[K] β; 0 switches a constraint's barrier off."""
    confidence: float = 0.0
    """z: the accept test adds z standard errors, blocked by episode, to what is spent."""

    def curvature(self) -> Array:
        """[K] β φ''(slack), 0 where the barrier is off."""
        return jnp.where(self.beta > 0, self.beta * BARRIERS[self.kind].curvature(self.safe), 0.0)

    def divergence(self, spent: Array) -> Array:
        """Σ_i β_i D_φ, +inf if any active slack is exhausted."""
        each = self.beta * BARRIERS[self.kind].divergence(self.safe, spent)
        exhausted = (self.beta > 0) & (spent >= self.slack)
        return jnp.where(exhausted, jnp.inf, jnp.where(self.beta > 0, each, 0.0)).sum()

    @property
    def safe(self) -> Array:
        return jnp.where(self.beta > 0, self.slack, 1.0)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Trial:
    """What a candidate policy would bring, all against the old policy."""

    gain: Array
    """E[(ratio − 1) · advantage], the change of the objective."""
    kl: Array
    """Mean KL, reduced as the region says."""
    spent: Array
    """[K] κ E[(ratio − 1) · A_c], the predicted change of each cost return."""
    divergence: Array
    """D, +inf outside the linearised safe set."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Move:
    """A finished step."""

    policy: Policy
    trial: Trial
    status: Array
    """A `Status`."""
    index: Array
    """Accepted candidate of the search, counted from 1; 0 if none was."""
    gradient_norm: Array
    step_norm: Array

    def improvement(self, extra: Any, metrics: Metrics) -> Improvement:
        """Of an algorithm with this next state and these metrics of its own."""
        return Improvement(self.policy, extra, metrics | self.metrics(), self.gradient_norm)

    def metrics(self) -> Metrics:
        return {
            "kl": self.trial.kl,
            "divergence": self.trial.divergence,
            "gain": self.trial.gain,
            "accepted": self.index,
            "status": self.status,
            "gradient_norm": self.gradient_norm,
            "step_norm": self.step_norm,
        }


Accept = Callable[[Trial], Array]


@dataclass(frozen=True)
class TrustRegion:
    """The region's size and metric, and how the step in it is found."""

    radius: float = 0.01
    """δ, the largest divergence of one policy update."""
    kl_average: bool = True
    """Average the KL over action dimensions (published, D1) instead of summing it."""
    kl_order: Literal["old-new", "new-old"] = "old-new"
    """KL(old ‖ new) (published) or KL(new ‖ old) (the text); equal to second order (D10)."""
    solver: Literal["woodbury", "sum", "dense"] = "woodbury"
    """Barriers inverted exactly within CG, CG on the plain sum (published, D13), or all dense."""
    damping: float = 0.1
    """Added to the diagonal of the Fisher matrix."""
    damping_rule: Literal["absolute", "relative"] = "absolute"
    """Whether damping counts as it is or in units of the Fisher matrix's mean diagonal."""
    cg_steps: int = 15
    """Iterations of conjugate gradients."""
    cg_eps: float = 0.0
    """Added to CG's denominators; the published runs used 1e-6."""
    search: Literal["backtrack", "bracket"] = "backtrack"
    """Shorten the step until accepted, or bracket the longest acceptable one (also upward)."""
    backtracks: int = 15
    """Candidates that the search tries."""
    shrink: float = 0.8
    """Factor between two candidates of the backtracking search."""
    quit_not_finite: bool = False
    """End the backtracking at a KL that is not finite, as the published CPO and PCPO (D20)."""

    def __post_init__(self) -> None:
        if not self.radius > 0:
            raise ValueError(f"radius={self.radius} must be positive; 0.01 is the usual choice.")
        if not 0 < self.shrink < 1:
            raise ValueError(f"shrink={self.shrink} must lie in (0, 1); 0.8 is the usual choice.")
        if self.damping < 0:
            raise ValueError(f"damping={self.damping} must not be negative; 0 switches it off.")
        if self.cg_steps < 1 or self.backtracks < 1:
            raise ValueError(
                f"cg_steps={self.cg_steps} and backtracks={self.backtracks} must be at least 1."
            )

    def check_search(self, line_search: bool) -> None:
        """Refuse a way of searching where nothing is searched for."""
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
        gradient = local.gradients(advantage[:, None])[0]
        direction, curvature = self.direction(local, gradient, barriers)
        quadratic = direction @ curvature(direction)
        power = batch.weight @ (advantage * advantage)  # so that its unit does not matter
        step = jnp.sqrt(2 * self.radius / (quadratic + 1e-8 * power)) * direction
        norm = jnp.linalg.norm(gradient)
        quadratic = quadratic / jnp.where(power > 0, power, 1.0)
        return self.along(local, step, quadratic, norm, advantage, barriers, accept)

    def along(
        self,
        local: Linearised,
        step: Array,
        quadratic: Array,
        gradient_norm: Array,
        advantage: Array,
        barriers: Barriers | None = None,
        accept: Accept | None = None,
    ) -> Move:
        """The best policy along a step whose size in the metric is `quadratic`; old if none is."""
        finite = jnp.isfinite(quadratic) & jnp.isfinite(gradient_norm)
        usable = finite & (quadratic > 1e-12)
        status = jnp.where(finite, Status.NO_GRADIENT, Status.NOT_FINITE)
        step = jnp.where(usable, step, 0.0)

        def try_out(scale: Array) -> Trial:
            return self.trial(local, local.moved(scale * step), advantage, barriers)

        default: Accept = lambda t: (t.gain >= 0) & (t.divergence <= self.radius)
        search = self.bracket if self.search == "bracket" else self.backtrack
        scale, index, trial = search(try_out, accept or default, usable)
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

    def direction(
        self, local: Linearised, gradient: Array, barriers: Barriers | None
    ) -> tuple[Array, Product]:
        """H⁻¹ g and the product with H = F + damping + Σ w_i a_i a_iᵀ."""
        fisher = self.damped(local)
        if barriers is None:
            return self.solve(fisher, gradient[None])[0], fisher
        rows = local.spending()
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

    def backtrack(
        self, try_out: Callable[[Array], Trial], accept: Accept, usable: Array
    ) -> tuple[Array, Array, Trial]:
        """The first of 1, shrink, shrink², ... that is accepted; (scale, index from 1, trial)."""

        def body(state: tuple[Array, Array, Trial]) -> tuple[Array, Array, Trial]:
            j, _, _ = state
            trial = try_out(self.shrink ** j.astype(zero.dtype))
            return j + 1, accept(trial), trial

        def searching(state: tuple[Array, Array, Trial]) -> Array:
            hopeless = self.quit_not_finite & ~jnp.isfinite(state[2].kl)
            return usable & ~state[1] & ~hopeless & (state[0] < self.backtracks)

        blank = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), jax.eval_shape(try_out, 1.0))
        zero = blank.kl
        tried, accepted, trial = jax.lax.while_loop(
            searching, body, (jnp.zeros((), jnp.int32), jnp.zeros((), bool), blank)
        )
        index = jnp.where(accepted, tried, 0)
        return self.shrink ** (tried - 1).astype(zero.dtype), index, trial

    def bracket(
        self, try_out: Callable[[Array], Trial], accept: Accept, usable: Array
    ) -> tuple[Array, Array, Trial]:
        """The longest accepted step up to 8 times the modelled one, by doubling and bisection.

        Stops once the divergence lies within 5 % of the radius, so the budget is really used.
        """

        def body(state: tuple[Any, ...]) -> tuple[Any, ...]:
            j, low, high, index, best = state
            scale = jnp.where(jnp.isinf(high), jnp.maximum(2 * low, 1.0), 0.5 * (low + high))
            trial = try_out(scale)
            good = accept(trial)
            keep = lambda new, old: jnp.where(good, new, old)
            low, high = jnp.where(good, scale, low), jnp.where(good, high, scale)
            return j + 1, low, high, keep(j + 1, index), jax.tree.map(keep, trial, best)

        def searching(state: tuple[Any, ...]) -> Array:
            j, low, high, _, best = state
            done = (best.divergence >= 0.95 * self.radius) | (low >= 8.0) | (high - low < 1e-3)
            return usable & ~done & (j < self.backtracks)

        blank = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), jax.eval_shape(try_out, 1.0))
        number = lambda x: jnp.asarray(x, blank.kl.dtype)
        none = jnp.zeros((), jnp.int32)
        _, low, _, index, best = jax.lax.while_loop(
            searching, body, (none, number(0), number(jnp.inf), none, blank)
        )
        return low, index, best


@dataclass(frozen=True)
class Linearised:
    """A policy seen from its own parameters: outputs, gradients and Fisher products on a batch."""

    batch: Batch
    theta: Array
    """[P] all parameters as one vector."""
    moved: Callable[[Array], Policy]
    """step [P] → the policy at theta + step."""
    outputs: Any
    log_prob: Array
    """[B] of the batch's actions under the policy itself."""
    fisher: Product
    """v → F v, F = E[score scoreᵀ], divided by d_a if the KL is averaged."""
    gradients: Callable[[Array], Array]
    """[B, m] advantages → [m, P] gradients of E[ratio · advantage]."""

    def spending(self) -> Array:
        """[K, P] gradients of κ E[ratio · A_c]."""
        return self.batch.horizon * self.gradients(self.batch.adv_c)

    def power(self) -> Array:
        """[K] κ² E[A_c²]: what the squares of those gradients are measured against."""
        return self.batch.horizon**2 * (self.batch.weight @ self.batch.adv_c**2)


def linearise(policy: Policy, batch: Batch, kl_average: bool) -> Linearised:
    """Everything the quadratic model needs, from one linearisation of the network."""
    theta, unravel = ravel_pytree(policy)
    outputs, push = jax.linearize(lambda t: unravel(t).outputs(batch.obs), theta)
    pull = jax.linear_transpose(push, theta)
    log_prob, pull_log = jax.vjp(lambda out: policy.log_prob(out, batch.action), outputs)
    scale = 1 / policy.action_dims if kl_average else 1.0

    def fisher(v: Array) -> Array:
        return scale * pull(policy.fisher(outputs, push(v), batch.weight))[0]

    def gradients(advantages: Array) -> Array:
        one = lambda adv: pull(pull_log(batch.weight * adv)[0])[0]
        return jax.vmap(one, in_axes=1)(advantages)

    return Linearised(
        batch, theta, lambda step: unravel(theta + step), outputs, log_prob, fisher, gradients
    )


def blocked_error(batch: Batch, excess: Array) -> Array:
    """[K] standard error of κ E[(ratio − 1) · A_c], samples of one episode taken together."""
    size = batch.weight.shape[0]
    share = (batch.weight * excess)[:, None] * batch.adv_c
    total = jax.ops.segment_sum(share, batch.episode, num_segments=size)
    seen = jax.ops.segment_sum(jnp.ones(size, share.dtype), batch.episode, num_segments=size) > 0
    n = seen.sum(dtype=share.dtype)
    deviation = jnp.where(seen[:, None], total - total.sum(0) / n, 0.0)
    return batch.horizon * jnp.sqrt(n / jnp.maximum(n - 1, 1) * (deviation**2).sum(0))
