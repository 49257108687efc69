# SPDX-License-Identifier: Apache-2.0
"""Implicit bias: of all optima, the flow ends at the one closest to where it started.

    lim_{t→∞} d_t = argmin { D_C(d* ‖ d_0) : d* optimal }
The optimal face is described exactly by any optimal dual (complementary slackness): only actions of
zero reduced cost, priced limits tight. On it the projection is the same dual problem as one point
of the mirror path, with the other actions forbidden and no reward. A limit that is tight on the
whole face adds the same amount to every candidate (infinite for φ = −log), so its term is dropped
and the limit kept as an equality.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from holdfast.tabular.best_response import priced
from holdfast.tabular.cmdp import FiniteCMDP, Floats
from holdfast.tabular.flow import Geometry
from holdfast.tabular.lp import Optimum, active, optimum
from holdfast.tabular.mirror import Term, barrier_terms, solve_dual
from holdfast.tabular.occupancy import ExactValues, evaluate

PRICED = 1e-9
"""Multiplier above which a limit is certainly tight on the whole optimal face."""


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
    """Which (s, a) have zero reduced cost [S, A]: what optimal occupancies may use."""
    loss = reduced_cost(cmdp, best)
    allowed = loss <= 1e-8 * max(1.0, float(np.abs(cmdp.reward).max()))
    # In states that no optimum visits the simplex may price nothing at zero: leave them open.
    return allowed | ~np.any(allowed, axis=1, keepdims=True)


def reduced_cost(cmdp: FiniteCMDP, best: Optimum) -> Floats:
    """v(s) − (r − λ·c)(s,a) − γ E v(s') [S, A] ≥ 0: what one use of (s,a) loses."""
    signal = priced(cmdp, best.multiplier)
    ahead = np.asarray(cmdp.kernel @ best.state_price).reshape(signal.shape)
    return best.state_price[:, None] - signal - cmdp.gamma * ahead


def tight_on_face(cmdp: FiniteCMDP, best: Optimum) -> np.ndarray:
    """Which limits bind at every optimum [K]: the priced, and those that no optimum can loosen."""
    tight = best.multiplier > PRICED
    for i in np.flatnonzero(active(cmdp, best.cost_return) & ~tight):
        loosest = _loosest(cmdp, best, int(i))
        tight[i] = cmdp.cost_limit[i] - loosest.cost_return[i] <= 1e-8
    return tight


def _loosest(cmdp: FiniteCMDP, best: Optimum, index: int) -> Optimum:
    """The optimum that costs least in one constraint: forbidden actions are priced out."""
    worst = 1e4 * (1.0 + float(np.abs(cmdp.cost).max()))
    signal = np.where(optimal_actions(cmdp, best), -cmdp.cost[index], -worst)
    return optimum(replace(cmdp, reward=signal))
