# SPDX-License-Identifier: Apache-2.0
"""Exact trust-region updates: TRPO, CPO and C-TRPO without sampling, linearising or line search.

    maximise 𝔸_r(π)  subject to  D(π ‖ π_k) ≤ δ
    TRPO    D = E_{d_k} KL(π ‖ π_k)
    CPO     the same, and 𝔸_c(π) ≤ slack
    C-TRPO  D = E_{d_k} KL(π ‖ π_k) + Σ_i β_i Ψ_i(𝔸_{c_i}(π))
The surrogates are linear in π and every D is convex, so the solution is
π ∝ π_k exp(μ A_r − κ·A_c): for a given reward weight μ the cost weights κ [K] minimise a smooth
convex dual, and D grows with μ, which leaves one root to find. Where a limit is violated there is
no safe region, and the update reduces the violated costs inside the KL ball instead.
"""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq

from holdfast.tabular.barrier import barrier_named, psi
from holdfast.tabular.cmdp import FiniteCMDP, Floats
from holdfast.tabular.flow import Geometry
from holdfast.tabular.newton import Point, minimise
from holdfast.tabular.occupancy import Evaluation, evaluate, mean_kl, policy_advantage, softmax

Method = Literal["trpo", "cpo", "ctrpo"]
_root: Any = brentq
MAX_TILT = 60.0
"""Largest μ·max|A|: beyond it an update would make actions impossible for ever."""


@dataclass(frozen=True, eq=False)
class Update:
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
    """What the region bounds; equals the radius unless the optimum lies inside."""


def divergence(
    cmdp: FiniteCMDP, old: Evaluation, policy: Floats, geometry: Geometry
) -> tuple[float, float]:
    """(D̄_KL, D̄_C): E_{d_k} KL(π‖π_k), and with Σ β_i Ψ_i(𝔸_{c_i}(π)) added."""
    kl = mean_kl(policy, old.policy, old.occupancy.sum(axis=1))
    on = geometry.weights(cmdp) > 0.0
    spent = policy_advantage(old, old.adv_c[on], policy)
    price = psi(barrier_named(geometry.barrier), old.slack[on], spent)
    return kl, kl + float(np.sum(geometry.weights(cmdp)[on] * price))


def bregman_divergence(
    cmdp: FiniteCMDP, first: Evaluation, second: Evaluation, geometry: Geometry
) -> float:
    """D_C(d1 ‖ d2) = Σ_s d1(s) KL(π1‖π2) + Σ_i β_i D_φ(slack1 ‖ slack2), exact, not surrogate."""
    on = geometry.weights(cmdp) > 0.0
    spent = first.cost_return[on] - second.cost_return[on]
    price = psi(barrier_named(geometry.barrier), second.slack[on], spent)
    kl = mean_kl(first.policy, second.policy, first.occupancy.sum(axis=1))
    return kl + float(np.sum(geometry.weights(cmdp)[on] * price))


def update(
    cmdp: FiniteCMDP,
    policy: ArrayLike,
    radius: float,
    method: Method = "ctrpo",
    geometry: Geometry = Geometry(),
) -> Update:
    """The exact update of `method` from π_k [S, A]; limits count for `cpo` and `ctrpo`."""
    if not radius > 0.0:
        raise ValueError(f"radius={radius} must be positive; 0.01 is the usual choice.")
    old = evaluate(cmdp, policy)
    limited = np.isfinite(cmdp.cost_limit) if method != "trpo" else np.zeros(len(old.slack), bool)
    violated = limited & (old.slack <= 0.0)
    beta = geometry.weights(cmdp) if method == "ctrpo" else np.zeros(len(old.slack))
    kept = limited & ~violated & ((beta > 0.0) if method == "ctrpo" else True)
    objective = -old.adv_c[violated].sum(axis=0) if np.any(violated) else old.adv_r
    inner = _Inner(old, objective, np.flatnonzero(kept), beta[kept], geometry)
    if float(np.max(np.abs(objective))) < 1e-14:
        return inner.report(old.policy)
    return inner.report(_widest(inner, radius))


@dataclass(frozen=True, eq=False)
class _Inner:
    """max_π μ 𝔸(π) − D(π), for the constraints that are kept."""

    old: Evaluation
    objective: Floats
    kept: np.ndarray
    beta: Floats
    """Weights of the kept barriers; all zero for hard limits (CPO)."""
    geometry: Geometry

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
        visits = old.occupancy.sum(axis=1)
        policy = self.tilted(mu, kappa)
        spent = policy_advantage(old, adv, policy)
        centred = adv - np.einsum("ksa,sa->ks", adv, policy)[:, :, None]
        spread = np.einsum("isa,jsa,sa,s->ij", centred, centred, policy, visits)
        height = float(visits @ (top + np.log(mean))) + float(kappa @ slack)
        if self.hard:
            return Point(height, slack - spent, spread, policy)
        barrier = barrier_named(self.geometry.barrier)
        with np.errstate(all="ignore"):
            height += float(np.sum(self.beta * barrier.conjugate(slack, kappa / self.beta)))
            rest = barrier.shifted(slack, kappa / self.beta)
            soft = np.diag(barrier.softness(rest) / self.beta)
        height = height if np.isfinite(height) else np.inf
        return Point(height, slack - spent - rest, spread + soft, policy)

    def solve(self, mu: float) -> Floats:
        """The policy of the inner problem at reward weight μ."""
        start = np.zeros(len(self.kept))
        if len(start) == 0:
            return self.tilted(mu, start)
        if not self.hard:
            return minimise(lambda kappa: self.dual(mu, kappa), start)[1].primal
        return self.within_limits(mu)

    def within_limits(self, mu: float) -> Floats:
        """Hard limits by an active set: price what is violated, free what would be subsidised."""
        active = np.zeros(len(self.kept), bool)
        kappa = np.zeros(len(self.kept))
        for _ in range(4 * len(self.kept) + 1):
            point = self.dual(mu, kappa)
            violated = (point.gradient < -1e-12) & ~active
            subsidised = active & (kappa < 0.0)
            if not np.any(violated | subsidised):
                break
            active = (active | violated) & ~subsidised
            kappa = self.priced(mu, active)
        return self.tilted(mu, kappa)

    def priced(self, mu: float, active: np.ndarray) -> Floats:
        """κ [K] with the active limits met with equality and the others free of charge."""
        spread_out = lambda some: np.where(active, np.bincount(which, some, len(active)), 0.0)
        which = np.flatnonzero(active)

        def restricted(some: Floats) -> Point[Floats]:
            full = self.dual(mu, spread_out(some))
            return Point(
                full.height, full.gradient[which], full.hessian[np.ix_(which, which)], full.primal
            )

        return spread_out(minimise(restricted, np.zeros(len(which)))[0])

    def distance(self, policy: Floats) -> float:
        kl = mean_kl(policy, self.old.policy, self.old.occupancy.sum(axis=1))
        if self.hard:
            return kl
        spent = policy_advantage(self.old, self.old.adv_c[self.kept], policy)
        slack = self.old.slack[self.kept]
        # At small β the entropy barrier leaves e^{−κ/β} of the slack: less than rounding.
        spent = np.where(spent < slack * (1.0 + 1e-12), np.minimum(spent, slack), spent)
        price = psi(barrier_named(self.geometry.barrier), slack, spent)
        return kl + float(np.sum(self.beta * price))

    def report(self, policy: Floats) -> Update:
        return Update(
            policy=policy,
            gain=float(policy_advantage(self.old, self.old.adv_r, policy)),
            spent=policy_advantage(self.old, self.old.adv_c, policy),
            kl=mean_kl(policy, self.old.policy, self.old.occupancy.sum(axis=1)),
            divergence=self.distance(policy),
        )


def _widest(inner: _Inner, radius: float) -> Floats:
    """Raise μ until the region is used up, or until the policy is as good as deterministic."""
    excess = lambda log_mu: inner.distance(inner.solve(float(np.exp(log_mu)))) - radius
    ceiling = np.log(MAX_TILT / float(np.max(np.abs(inner.objective))))
    low = high = min(0.0, ceiling - 1.0)
    while excess(low) >= 0.0:
        low, high = low - 3.0, low
    while low == high or excess(high) < 0.0:
        if high >= ceiling:
            return inner.solve(float(np.exp(low)))
        low, high = high, min(high + 1.0, ceiling)
    return inner.solve(float(np.exp(_root(excess, low, high, xtol=1e-12))))
