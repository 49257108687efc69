# SPDX-License-Identifier: Apache-2.0
"""Exact trust-region updates: TRPO, CPO and C-TRPO without sampling, linearising or line search.

    maximise 𝔸_r(π)  subject to  D(π ‖ π_k) ≤ δ
    TRPO    D = E_{d_k} KL(π ‖ π_k)
    CPO     the same, and 𝔸_c(π) ≤ slack, which is negative where a limit is violated
    C-TRPO  D = E_{d_k} KL(π ‖ π_k) + Σ_i β_i Ψ_i(𝔸_{c_i}(π))

The surrogates are linear in π and every D is convex, so the solution is π ∝ π_k exp(μ A_r − κ·A_c).
For a given reward weight μ the cost weights κ [K] minimise a smooth convex dual. D grows with μ, so
one root remains to be found.

Recovery reduces the violated costs inside the KL ball and ignores the reward. C-TRPO recovers
whenever a limit is violated, since the barrier is defined on the safe side only. CPO recovers only
if no policy of the ball is predicted safe (case 0). If some policy of the ball is predicted safe,
the best of these is taken (case 1).
"""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq

from holdfast.tabular.cmdp import FiniteCMDP, Floats
from holdfast.tabular.flow import Geometry
from holdfast.tabular.newton import Point, minimise
from holdfast.tabular.occupancy import ExactValues, evaluate, mean_kl, policy_advantage, softmax
from holdfast.tabular.potentials import Potential, psi

Method = Literal["trpo", "cpo", "ctrpo"]
_root: Any = brentq
MAX_TILT = 60.0
"""Largest |log π/π_k|: beyond it probabilities of actions would underflow to 0."""
MAX_WEIGHT = 1e4
"""Largest μ·max|A|: beyond it μ A_r − κ·A_c loses its digits if cost and reward are parallel."""


@dataclass(frozen=True, eq=False)
class UpdateResult:
    """One exact update."""

    policy: Floats
    """π [S, A]."""
    gain: float
    """𝔸_r(π)."""
    spent: Floats
    """𝔸_c(π) [K]."""
    kl: float
    """E_{d_k} KL(π ‖ π_k)."""
    divergence: float
    """The divergence of the region; equals the radius unless the optimum is inside."""
    recovering: bool
    """Whether the reward was ignored, to reduce violated costs."""


def bregman_divergence(
    cmdp: FiniteCMDP, first: ExactValues, second: ExactValues, geometry: Geometry
) -> float:
    """D_C(d1 ‖ d2) = Σ_s d1(s) KL(π1‖π2) + Σ_i β_i D_φ(slack1 ‖ slack2), exact, not surrogate."""
    on = geometry.weights(cmdp) > 0.0
    spent = first.cost_return[on] - second.cost_return[on]
    price = psi(geometry.potential, second.slack[on], spent)
    kl = mean_kl(first.policy, second.policy, first.visits)
    return kl + float(np.sum(geometry.weights(cmdp)[on] * price))


def update(
    cmdp: FiniteCMDP,
    policy: ArrayLike,
    radius: float,
    method: Method = "ctrpo",
    geometry: Geometry = Geometry(),
) -> UpdateResult:
    """The exact update of `method` from π_k [S, A]; limits count for `cpo` and `ctrpo`."""
    if not radius > 0.0:
        raise ValueError(f"radius={radius} must be positive; 0.01 is the usual choice.")
    old = evaluate(cmdp, policy)
    limited = np.isfinite(cmdp.cost_limit) & (method != "trpo")
    violated = limited & (old.slack <= 0.0)
    beta = geometry.weights(cmdp) if method == "ctrpo" else np.zeros(len(old.slack))
    counted = beta > 0.0 if method == "ctrpo" else limited
    inner = _Inner(old, old.adv_r, np.flatnonzero(counted), beta[counted], geometry.potential)
    recovering = bool(np.any(violated)) and (method == "ctrpo" or not inner.reaches_safety(radius))
    if recovering:
        kept = counted & ~violated
        relief = -np.einsum("k,ksa->sa", _recovery_weights(cmdp, old), old.adv_c)
        inner = _Inner(old, relief, np.flatnonzero(kept), beta[kept], geometry.potential)
    still = float(np.max(np.abs(inner.objective))) < 1e-14
    return inner.report(old.policy if still else _widest(inner, radius), recovering)


def _recovery_weights(cmdp: FiniteCMDP, old: ExactValues) -> Floats:
    """[K] weights of the costs in a recovery: relative excess, for costs in units of the limit."""
    weight = np.zeros(len(old.slack))
    for i in np.flatnonzero(old.slack <= 0.0):
        unit = abs(cmdp.cost_limit[i]) or float(np.abs(cmdp.cost[i]).max())
        weight[i] = max(-old.slack[i] / unit, 1e-6) / unit
    return weight


@dataclass(frozen=True, eq=False)
class _Inner:
    """max_π μ 𝔸(π) − D(π), for the constraints with barriers or hard limits."""

    old: ExactValues
    objective: Floats
    kept: np.ndarray
    beta: Floats
    """Weights of the kept barriers; all zero for hard limits (CPO)."""
    potential: Potential

    @property
    def hard(self) -> bool:
        return not np.any(self.beta > 0.0)

    def tilted(self, mu: float, kappa: Floats) -> Floats:
        """π ∝ π_k exp(μ A − κ·A_c)."""
        tilt = mu * self.objective - np.einsum("k,ksa->sa", kappa, self.old.adv_c[self.kept])
        with np.errstate(divide="ignore"):
            return softmax(np.log(self.old.policy) + tilt)

    def dual(self, mu: float, kappa: Floats) -> Point[Floats]:
        """The convex function of κ whose minimiser solves the inner problem; primal: the policy."""
        old, slack = self.old, self.old.slack[self.kept]
        adv = old.adv_c[self.kept]
        tilt = mu * self.objective - np.einsum("k,ksa->sa", kappa, adv)
        top = np.where(old.policy > 0.0, tilt, -np.inf).max(axis=1)
        mean = np.sum(old.policy * np.exp(np.minimum(tilt - top[:, None], 0.0)), axis=1)
        visits = old.visits
        policy = self.tilted(mu, kappa)
        spent = policy_advantage(old, adv, policy)
        centred = adv - np.einsum("ksa,sa->ks", adv, policy)[:, :, None]
        spread = np.einsum("isa,jsa,sa,s->ij", centred, centred, policy, visits)
        height = float(visits @ (top + np.log(mean))) + float(kappa @ slack)
        if self.hard:
            return Point(height, slack - spent, spread, policy)
        potential = self.potential
        with np.errstate(all="ignore"):
            height += float(np.sum(self.beta * potential.conjugate(slack, kappa / self.beta)))
            rest = potential.shifted(slack, kappa / self.beta)
            soft = np.diag(potential.softness(rest) / self.beta)
        height = height if np.isfinite(height) else np.inf
        return Point(height, slack - spent - rest, spread + soft, policy)

    def solve(self, mu: float) -> Floats:
        """The policy of the inner problem at reward weight μ."""
        start = np.zeros(len(self.kept))
        if len(start) == 0:
            return self.tilted(mu, start)
        lowest = 0.0 if self.hard else -np.inf
        return minimise(lambda kappa: self.dual(mu, kappa), start, lowest=lowest)[1].primal

    def reaches_safety(self, radius: float) -> bool:
        """Whether some policy of the KL ball meets all hard limits: the nearest that does."""
        nearest = self.solve(0.0)
        adv = self.old.adv_c[self.kept]
        excess = policy_advantage(self.old, adv, nearest) - self.old.slack[self.kept]
        met = np.all(excess <= 1e-10 * np.abs(adv).max(axis=(1, 2)))
        return bool(met) and self.distance(nearest) < radius

    def steepness(self, policy: Floats) -> float:
        """max |log π/π_k|."""
        seen = (policy > 0.0) & (self.old.policy > 0.0)
        return float(np.max(np.abs(np.log(policy[seen] / self.old.policy[seen]))))

    def distance(self, policy: Floats) -> float:
        kl = mean_kl(policy, self.old.policy, self.old.visits)
        if self.hard:
            return kl
        adv, slack = self.old.adv_c[self.kept], self.old.slack[self.kept]
        spent = policy_advantage(self.old, adv, policy)
        # At small β the entropy barrier leaves e^{−κ/β} of the slack: less than rounding.
        rounding = 1e-11 * np.abs(adv).max(axis=(1, 2))
        spent = np.where(spent < slack + rounding, np.minimum(spent, slack), spent)
        price = psi(self.potential, slack, spent)
        return kl + float(np.sum(self.beta * price))

    def report(self, policy: Floats, recovering: bool) -> UpdateResult:
        return UpdateResult(
            policy=policy,
            gain=float(policy_advantage(self.old, self.old.adv_r, policy)),
            spent=policy_advantage(self.old, self.old.adv_c, policy),
            kl=mean_kl(policy, self.old.policy, self.old.visits),
            divergence=self.distance(policy),
            recovering=recovering,
        )


def _widest(inner: _Inner, radius: float) -> Floats:
    """Increase μ until the divergence equals the radius, or the policy is nearly deterministic."""
    at = lambda log_mu: inner.solve(float(np.exp(log_mu)))
    excess = lambda log_mu: inner.distance(at(log_mu)) - radius
    largest = float(np.max(np.abs(inner.objective)))
    low = high = min(0.0, np.log(MAX_TILT / largest) - 1.0)
    while excess(low) >= 0.0:
        low, high = low - 3.0, low
    policy = at(high)
    while low == high or inner.distance(policy) < radius:
        if inner.steepness(policy) > MAX_TILT or high > np.log(MAX_WEIGHT / largest):
            return at(low)
        low, high = high, high + 1.0
        policy = at(high)
    return at(_root(excess, low, high, xtol=1e-12))
