# SPDX-License-Identifier: Apache-2.0
"""The ideal update: C-TRPO with the Bregman divergence itself instead of its surrogate.

    maximise 𝔸_r(π)  subject to  D_C(d_k ‖ d_π) ≤ δ
    D_C(d_k ‖ d_π) = Σ_s d_k(s) KL(π_k ‖ π) + Σ_i β_i D_φ(y_{k,i} ‖ y_{π,i})

with the true slacks y = b − V_c. D_φ(y_k ‖ y) is infinite at y = 0 for every barrier, so the region
lies inside the safe set, not in a linear model of it. V_c(π) is not linear in π, so the programme
is not convex. It is solved in logits by SLSQP, from π_k and from the surrogate's solution.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq, minimize

from holdfast.tabular.cmdp import FiniteCMDP, Floats
from holdfast.tabular.flow import Geometry
from holdfast.tabular.occupancy import ExactValues, evaluate, mean_kl, softmax
from holdfast.tabular.potentials import psi_reversed
from holdfast.tabular.trust import bregman_divergence, update

_solve: Any = minimize
_root: Any = brentq


def ideal_update(
    cmdp: FiniteCMDP, policy: ArrayLike, radius: float, geometry: Geometry = Geometry()
) -> Floats:
    """The policy [S, A] of the ideal update from a positive policy inside the safe set."""
    old = evaluate(cmdp, policy)
    if np.any(old.slack[geometry.weights(cmdp) > 0.0] <= 0.0):
        raise ValueError(
            f"the policy costs {old.cost_return.tolist()} against limits "
            f"{cmdp.cost_limit.tolist()}; the ideal update needs one inside the safe set."
        )
    shape, visits = old.policy.shape, old.visits[:, None]
    pull = visits * old.adv_r

    def gain(flat: Floats) -> tuple[float, Floats]:
        pi = softmax(flat.reshape(shape))
        centred = pull - np.sum(pull * pi, axis=1, keepdims=True)
        return -float(np.sum(pull * pi)), -(pi * centred).reshape(-1)

    least = _line_starts(cmdp, old, geometry, radius)
    room = lambda flat: _room(cmdp, old, geometry, radius, least, flat.reshape(shape))
    limit = {"type": "ineq", "fun": lambda x: room(x)[0], "jac": lambda x: room(x)[1]}
    options = {"maxiter": 300, "ftol": 1e-14}
    found = [old.policy]
    for start in (old.policy, update(cmdp, old.policy, radius, "ctrpo", geometry).policy):
        theta = np.log(np.maximum(start, 1e-12)).reshape(-1)
        result = _solve(gain, theta, jac=True, constraints=[limit], method="SLSQP", options=options)
        found.append(_inside_region(cmdp, old, geometry, radius, result.x.reshape(shape)))
    return max(found, key=lambda pi: float(np.sum(pull * pi)))


def _line_starts(cmdp: FiniteCMDP, old: ExactValues, geometry: Geometry, radius: float) -> Floats:
    """Slacks [K] at which D_φ alone exceeds the radius; beyond them it is continued as a straight
    line.

    SLSQP tries policies outside the safe set, where D_φ is infinite. The line makes its values
    finite there, and changes nothing inside the region.
    """
    beta, barrier = geometry.weights(cmdp), geometry.potential
    share, whole = np.zeros(len(beta)), 1.0 - 1e-12  # beyond it the slack is rounding
    for i in np.flatnonzero(beta > 0.0):
        slack, budget = old.slack[i], 2.0 * radius / beta[i]
        excess = lambda u, y=slack, most=budget: float(psi_reversed(barrier, y, u * y)) - most
        share[i] = _root(excess, 0.0, whole) if excess(whole) > 0.0 else whole
    return old.slack * (1.0 - share)


def _room(
    cmdp: FiniteCMDP,
    old: ExactValues,
    geometry: Geometry,
    radius: float,
    least: Floats,
    theta: Floats,
) -> tuple[float, Floats]:
    """δ − D_C(d_k ‖ d_θ) and its gradient."""
    new, visits = evaluate(cmdp, softmax(theta)), old.visits
    total = mean_kl(old.policy, new.policy, visits)
    slope = visits[:, None] * (new.policy - old.policy)
    beta, barrier = geometry.weights(cmdp), geometry.potential
    for i in np.flatnonzero(beta > 0.0):
        slack = np.maximum(new.slack[i], least[i])
        spent = old.slack[i] - slack
        rate = barrier.curvature(slack) * spent
        price = psi_reversed(barrier, old.slack[i], spent) + rate * (slack - new.slack[i])
        total += float(beta[i] * price)
        slope = slope + beta[i] * rate * new.occupancy * new.adv_c[i]
    return radius - total, -slope.reshape(-1)


def _inside_region(
    cmdp: FiniteCMDP, old: ExactValues, geometry: Geometry, radius: float, theta: Floats
) -> Floats:
    """The last policy on the line from π_k, in logits, inside the true region."""
    start = np.log(old.policy)
    low, high, share = 0.0, 1.0, 1.0
    for _ in range(60):
        new = evaluate(cmdp, softmax(start + share * (theta - start)))
        inside = np.all(new.slack[geometry.weights(cmdp) > 0.0] > 0.0)
        if inside and bregman_divergence(cmdp, old, new, geometry) <= radius:
            low = share
        else:
            high = share
        if low == 1.0:
            break
        share = 0.5 * (low + high)
    return softmax(start + low * (theta - start))
