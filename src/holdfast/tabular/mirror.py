# SPDX-License-Identifier: Apache-2.0
"""The C-NPG flow in closed form: the mirror path and its limit.

Constrained natural gradient flow is mirror descent in continuous time, so at every t it is at

    d_t = argmax over safe d of  t r·d − D_C(d ‖ d_0),    D_C = D_K + Σ_i β_i D_φ(slack ‖ slack_0)

which is a convex programme, not an integration. Its dual has one variable ν_i for each constraint.
The inner problem is an MDP with signal t r − ν·c, regularised towards π_0 (a soft Bellman equation,
solved by soft policy iteration, which is Newton's method). The slack is given by φ'(y_i) =
φ'(y_{i,0}) − ν_i/β_i. The dual's Hessian E_d[A_c A_cᵀ] + diag(1/(β φ'')) is the matrix that also
appears in the C-NPG step. This shares no code with the integrator it checks.

Implicit bias: of all optima, the flow converges to the one closest to its start.

    lim_{t→∞} d_t = argmin { D_C(d* ‖ d_0) : d* optimal }

The optimal face is described exactly by any optimal dual (complementary slackness): only actions of
zero reduced cost, priced limits tight. On it the projection is the same dual problem as one point
of the mirror path, with the other actions forbidden and no reward. A limit that is tight on the
whole face adds the same amount to every candidate (infinite for φ = −log). So its term is dropped,
and the limit is an equality.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from holdfast.tabular.best_response import priced
from holdfast.tabular.cmdp import FiniteCMDP, Floats
from holdfast.tabular.flow import Geometry, Trajectory
from holdfast.tabular.lp import Optimum, active, optimum
from holdfast.tabular.newton import Point, minimise
from holdfast.tabular.occupancy import ExactValues, evaluate, state_value

PRICED = 1e-9
"""Multiplier above which a limit is certainly tight on the whole optimal face."""


@dataclass(frozen=True, eq=False)
class Term:
    """The terms of one constraint in the dual, as functions of its variable ν."""

    index: int
    slack: Callable[[Any], Any]
    """y(ν); 0 for a limit that must hold with equality."""
    softness: Callable[[Any], Any]
    """−y'(ν) ≥ 0."""
    conjugate: Callable[[Any], Any]
    """Its convex contribution to the dual objective, besides ν·b."""


def mirror_path(
    cmdp: FiniteCMDP, policy: ArrayLike, times: ArrayLike, geometry: Geometry = Geometry()
) -> Trajectory:
    """The flow's policies at `times`, each from its own convex programme."""
    start = evaluate(cmdp, policy)
    terms = barrier_terms(cmdp, start, geometry, range(cmdp.num_constraints))
    prior = np.log(start.policy)
    dual, reached, found = np.zeros(len(terms)), 0.0, start
    points: list[ExactValues] = []
    for t in np.asarray(times, dtype=np.float64):
        for stop in _stops(reached, float(t)):
            # Far out the prices ν > 0 grow in proportion to t: the last ones predict the next.
            guess = np.where(dual > 0.0, dual * (stop / reached), dual) if reached > 0.0 else dual
            dual, found = solve_dual(cmdp, stop * cmdp.reward, prior, terms, guess)
            reached = stop
        points.append(found)
    when = np.asarray(times, dtype=np.float64)
    return Trajectory.of(when, points, "solved at every requested time")


def _stops(reached: float, goal: float) -> list[float]:
    """Times of solutions on the way to `goal`, each at most four times the last."""
    if reached == 0.0 or goal <= 4.0 * reached:
        first = min(goal, 1.0) if reached == 0.0 else goal
        return [first] if first == goal else [first, *_stops(first, goal)]
    return [4.0 * reached, *_stops(4.0 * reached, goal)]


def soft_response(
    cmdp: FiniteCMDP, signal: Floats, prior: Floats, start: Floats | None = None
) -> tuple[Floats, Floats]:
    """argmax_π ⟨f, d_π⟩ − Σ_s d_π(s) KL(π‖π_0), as (π, v); `prior` is log π_0, −inf forbids.

    Soft policy iteration: evaluate f − log(π/π_0) under π, then π ∝ π_0 exp(f + γ P v).
    """
    value = np.zeros(cmdp.num_states) if start is None else start
    policy = np.exp(prior)
    for _ in range(500):
        score = prior + signal + cmdp.gamma * np.asarray(cmdp.kernel @ value).reshape(prior.shape)
        soft = np.asarray(logsumexp(score, axis=1))
        policy = np.exp(score - soft[:, None])
        with np.errstate(invalid="ignore"):
            regularised = np.where(policy > 0.0, signal - (score - soft[:, None] - prior), 0.0)
        improved = state_value(cmdp, policy / policy.sum(axis=1, keepdims=True), regularised)
        change, value = np.max(np.abs(improved - value)), improved
        if change <= 1e-12 * max(1.0, float(np.max(np.abs(value)))):
            break  # quadratic convergence: the next change would be rounding
    return policy / policy.sum(axis=1, keepdims=True), value


def barrier_terms(
    cmdp: FiniteCMDP, start: ExactValues, geometry: Geometry, which: Iterable[int]
) -> list[Term]:
    beta, barrier = geometry.weights(cmdp), geometry.potential
    terms: list[Term] = []
    for i in which:
        if beta[i] == 0.0:
            continue
        y0, weight = start.slack[i], beta[i]
        if y0 <= 0.0:
            raise ValueError(
                f"the start policy has slack {y0:.6g} in constraint {i}; start inside the safe set "
                "(`interior_policy` finds one)."
            )
        slack = lambda nu, y0=y0, w=weight: barrier.shifted(y0, nu / w)
        terms.append(
            Term(
                index=i,
                slack=slack,
                softness=lambda nu, y=slack, w=weight: barrier.softness(y(nu)) / w,
                conjugate=lambda nu, y0=y0, w=weight: w * barrier.conjugate(y0, nu / w),
            )
        )
    return terms


def solve_dual(
    cmdp: FiniteCMDP, signal: Floats, prior: Floats, terms: list[Term], start: Floats
) -> tuple[Floats, ExactValues]:
    """Minimise the convex dual by Newton's method; (ν, the primal policy evaluated)."""
    which = [term.index for term in terms]
    limit = cmdp.cost_limit[which]
    warm = np.zeros(cmdp.num_states)  # successive ν are close, and so are their values
    at_start = evaluate(cmdp, np.exp(prior) / np.exp(prior).sum(axis=1, keepdims=True))

    def dual(nu: Floats) -> Point[ExactValues]:
        nonlocal warm
        each = lambda name: np.array([getattr(t, name)(n) for t, n in zip(terms, nu, strict=True)])
        with np.errstate(all="ignore"):
            extra = float(np.sum(each("conjugate")))
        if not np.isfinite(extra):
            return Point(np.inf, limit, np.diag(limit), at_start)
        charged = signal - np.einsum("k,ksa->sa", nu, cmdp.cost[which])
        policy, value = soft_response(cmdp, charged, prior, warm)
        warm = value
        found = evaluate(cmdp, policy)
        adv = found.adv_c[which].reshape(len(terms), cmdp.reward.size)
        return Point(
            (1.0 - cmdp.gamma) * float(cmdp.initial @ value) + float(nu @ limit) + extra,
            limit - found.cost_return[which] - each("slack"),
            (adv * found.occupancy.reshape(-1)) @ adv.T + np.diag(each("softness")),
            found,
        )

    nu, point = minimise(dual, start)
    return nu, point.primal


def bregman_projection(
    cmdp: FiniteCMDP, policy: ArrayLike, geometry: Geometry = Geometry()
) -> ExactValues:
    """The optimum that the C-NPG flow from π_0 converges to, evaluated."""
    start = evaluate(cmdp, policy)
    best = optimum(cmdp)
    tight = tight_on_face(cmdp, best)
    terms = barrier_terms(cmdp, start, geometry, np.flatnonzero(~tight).tolist())
    nothing = lambda _: 0.0
    terms += [Term(i, nothing, nothing, nothing) for i in np.flatnonzero(tight).tolist()]
    with np.errstate(divide="ignore"):
        prior = np.log(np.where(optimal_actions(cmdp, best), start.policy, 0.0))
    return solve_dual(cmdp, np.zeros_like(cmdp.reward), prior, terms, np.zeros(len(terms)))[1]


def optimal_actions(cmdp: FiniteCMDP, best: Optimum) -> np.ndarray:
    """Which (s, a) have zero reduced cost [S, A]: the support of optimal occupancies."""
    loss = reduced_cost(cmdp, best)
    allowed = loss <= 1e-8 * max(1.0, float(np.abs(cmdp.reward).max()))
    # In states that no optimum visits the simplex may price nothing at zero: leave them open.
    return allowed | ~np.any(allowed, axis=1, keepdims=True)


def reduced_cost(cmdp: FiniteCMDP, best: Optimum) -> Floats:
    """v(s) − (r − λ·c)(s,a) − γ E v(s') [S, A] ≥ 0: the loss by one use of (s,a)."""
    signal = priced(cmdp, best.multiplier)
    ahead = np.asarray(cmdp.kernel @ best.state_price).reshape(signal.shape)
    return best.state_price[:, None] - signal - cmdp.gamma * ahead


def tight_on_face(cmdp: FiniteCMDP, best: Optimum) -> np.ndarray:
    """Which limits bind at every optimum [K]: those with a price, and those tight at all optima."""
    tight = best.multiplier > PRICED
    for i in np.flatnonzero(active(cmdp, best.cost_return) & ~tight):
        loosest = _loosest(cmdp, best, int(i))
        tight[i] = cmdp.cost_limit[i] - loosest.cost_return[i] <= 1e-8
    return tight


def _loosest(cmdp: FiniteCMDP, best: Optimum, index: int) -> Optimum:
    """The optimum with the smallest cost of one constraint; forbidden actions get a high price."""
    worst = 1e4 * (1.0 + float(np.abs(cmdp.cost).max()))
    signal = np.where(optimal_actions(cmdp, best), -cmdp.cost[index], -worst)
    return optimum(replace(cmdp, reward=signal))
