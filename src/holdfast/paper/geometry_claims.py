# SPDX-License-Identifier: Apache-2.0
"""The paper's geometry and its limits in β, as measurements; see `claims` for the theorems.

Derivatives are taken along one random direction of the logits by central differences of eighth
order, independently of the closed forms that they check. The direction is scaled so that no
probability changes much and no slack is spent: the differences then have rounding errors only.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from holdfast.tabular.cmdp import FiniteCMDP, Floats
from holdfast.tabular.flow import Geometry, ascend, flow
from holdfast.tabular.occupancy import (
    ExactValues,
    constrained_gramian,
    evaluate,
    gradient,
    mean_kl,
    policy_advantage,
    policy_of,
    softmax,
)
from holdfast.tabular.potentials import psi
from holdfast.tabular.trust import bregman_divergence, update

BETAS = (1e-3, 1.0, 100.0)
FIRST = np.array([1 / 280, -4 / 105, 1 / 5, -4 / 5, 0.0, 4 / 5, -1 / 5, 4 / 105, -1 / 280])
SECOND = np.array([-1 / 560, 8 / 315, -1 / 5, 8 / 5, -205 / 72, 8 / 5, -1 / 5, 8 / 315, -1 / 560])
"""Weights of a first and a second derivative of eighth order."""


@dataclass(frozen=True)
class Choice:
    """The user's parameters of claims, in place of their defaults."""

    beta: float | None = None
    barrier: str | None = None
    radius: float | None = None

    def geometry(self, beta: float = 1.0, barrier: str = "entropy") -> Geometry:
        """The metric with this weight and barrier, unless the user chose others."""
        chosen = beta if self.beta is None else self.beta
        return Geometry(chosen, self.barrier or barrier)

    def radii(self, *usual: float) -> tuple[float, ...]:
        return usual if self.radius is None else (self.radius,)


Check = Callable[[FiniteCMDP, Floats, np.random.Generator, Choice], float]
"""(CMDP, a policy inside its safe set, randomness, choice) ↦ deviation from the theorem."""


def conditional_entropy(d: Floats) -> float:
    """Φ_K(d) = Σ d(s,a) log π_d(a|s) of an occupancy [S, A]: negative conditional entropy."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(np.sum(np.where(d > 0.0, d * np.log(policy_of(d)), 0.0)))


def safe_mirror(cmdp: FiniteCMDP, d: Floats, geometry: Geometry) -> float:
    """Φ_C(d) = Φ_K(d) + Σ_i β_i φ(b_i − c_i·d)."""
    beta = geometry.weights(cmdp)
    slack = cmdp.cost_limit - np.einsum("ksa,sa->k", cmdp.cost, d)
    on = beta > 0.0
    return conditional_entropy(d) + float(np.sum(beta[on] * geometry.potential.value(slack[on])))


def safe_mirror_gradient(cmdp: FiniteCMDP, d: Floats, geometry: Geometry) -> Floats:
    """∇Φ_C(d) = log π_d − Σ_i β_i φ'(b_i − c_i·d) c_i [S, A]."""
    beta = geometry.weights(cmdp)
    on = beta > 0.0
    slack = (cmdp.cost_limit - np.einsum("ksa,sa->k", cmdp.cost, d))[on]
    pull = beta[on] * geometry.potential.slope(slack)
    return np.log(policy_of(d)) - np.einsum("k,ksa->sa", pull, cmdp.cost[on])


def entropy_induces_kl(
    cmdp: FiniteCMDP, policy: Floats, rng: np.random.Generator, choice: Choice
) -> float:
    """Φ_K(d1) − Φ_K(d2) − ⟨∇Φ_K(d2), d1 − d2⟩ against Σ_s d1(s) KL(π1‖π2)."""
    return _mirror_error(cmdp, policy, rng, Geometry(0.0))


def mirror_induces_divergence(
    cmdp: FiniteCMDP, policy: Floats, rng: np.random.Generator, choice: Choice
) -> float:
    return _mirror_error(cmdp, policy, rng, choice.geometry())


def _mirror_error(
    cmdp: FiniteCMDP, policy: Floats, rng: np.random.Generator, geometry: Geometry
) -> float:
    second = evaluate(cmdp, policy)
    along = _direction(cmdp, second, rng)
    first = evaluate(cmdp, softmax(np.log(second.policy) + along))
    d1, d2 = first.occupancy, second.occupancy
    slope = safe_mirror_gradient(cmdp, d2, geometry)
    values = [safe_mirror(cmdp, d, geometry) for d in (d1, d2)]
    bregman = values[0] - values[1] - float(np.sum(slope * (d1 - d2)))
    error = abs(bregman - bregman_divergence(cmdp, first, second, geometry))
    return error / max(1.0, *map(abs, values))  # the rounding of a difference of such values


def surrogate_gradient(
    cmdp: FiniteCMDP, policy: Floats, rng: np.random.Generator, choice: Choice
) -> float:
    """∇𝔸_f against ∇V_f, of the reward and all costs, along a direction; and both closed forms."""
    old = evaluate(cmdp, policy)
    along = _direction(cmdp, old, rng)
    signals = np.concatenate([cmdp.reward[None], cmdp.cost])
    adv = np.concatenate([old.adv_r[None], old.adv_c])
    value = lambda new: np.append(new.reward_return, new.cost_return)
    true = _along(cmdp, old, along, value, FIRST)
    surrogate = _along(cmdp, old, along, lambda new: policy_advantage(old, adv, new.policy), FIRST)
    closed = np.sum(gradient(cmdp, policy, signals) * along, axis=(1, 2))
    return float(max(np.abs(true - surrogate).max(), np.abs(true - closed).max()))


def divergences_curve_as_the_gramian(
    cmdp: FiniteCMDP, policy: Floats, rng: np.random.Generator, choice: Choice
) -> float:
    """∇² of D̄_C and of both orders of D_C against G_C, relative, along a direction."""
    old, geometry = evaluate(cmdp, policy), choice.geometry()
    along = _direction(cmdp, old, rng)
    weight = _curvature(cmdp, old, geometry)
    flat = along.reshape(-1)
    expected = float(flat @ constrained_gramian(cmdp, policy, weight) @ flat)
    orders: tuple[Callable[[ExactValues], float], ...] = (
        lambda new: _surrogate(cmdp, old, new, geometry),
        lambda new: bregman_divergence(cmdp, new, old, geometry),
        lambda new: bregman_divergence(cmdp, old, new, geometry),
    )
    curved = np.array([_along(cmdp, old, along, f, SECOND) for f in orders])
    return float(np.abs(curved / expected - 1.0).max())


def nested_in_beta(
    cmdp: FiniteCMDP, policy: Floats, rng: np.random.Generator, choice: Choice
) -> float:
    """How far the update of a larger β is outside the region of a smaller one, or exceeds its
    gain.
    """
    old, worst, barrier = evaluate(cmdp, policy), 0.0, choice.geometry().barrier
    for radius in choice.radii(0.05):
        found = [update(cmdp, policy, radius, "ctrpo", Geometry(b, barrier)) for b in BETAS]
        for (low, wide), narrow in zip(
            zip(BETAS, found, strict=True), [*found[1:], found[-1]], strict=True
        ):
            geometry = Geometry(low, barrier)
            reach = _surrogate(cmdp, old, evaluate(cmdp, narrow.policy), geometry)
            worst = max(worst, reach / radius - 1.0, narrow.gain - wide.gain)
    return worst


def large_beta(cmdp: FiniteCMDP, policy: Floats, rng: np.random.Generator, choice: Choice) -> float:
    """Largest share of a slack spent at β = 1e6, or at a larger one if the radius pays for more."""
    old, worst = evaluate(cmdp, policy), 0.0
    on = np.isfinite(cmdp.cost_limit)
    slack = old.slack[on]
    for radius in choice.radii(0.05):
        least = [psi(choice.geometry().potential, slack, x * slack).min() for x in (-5e-4, 5e-4)]
        beta = max(1e6, radius / min(least))
        step = update(cmdp, policy, radius, "ctrpo", replace(choice.geometry(), beta=beta))
        worst = max(worst, float(np.abs(step.spent[on] / old.slack[on]).max(initial=0.0)))
    return worst


def reduced_radius(
    cmdp: FiniteCMDP, policy: Floats, rng: np.random.Generator, choice: Choice
) -> float:
    """How far the KL of an update is above δ(β) = δ − Σ β Ψ, or below it if the divergence is δ."""
    old, geometry, worst = evaluate(cmdp, policy), choice.geometry(), 0.0
    for radius in choice.radii(0.01, 0.1):
        step = update(cmdp, policy, radius, "ctrpo", geometry)
        left = radius - _price(cmdp, old, step.spent, geometry)
        kl = mean_kl(step.policy, old.policy, old.visits)
        used_up = step.divergence > radius * (1.0 - 1e-6)
        worst = max(worst, abs(kl - left) if used_up else kl - left)
    return worst / max(choice.radii(0.1))


def plain_steps(
    cmdp: FiniteCMDP, policy: Floats, rng: np.random.Generator, choice: Choice
) -> float:
    """Difference of plain steps θ + ε G_C⁺∇V_r and the flow, extrapolated to ε → 0."""
    geometry = choice.geometry()
    speed = max(1.0, float(np.abs(evaluate(cmdp, policy).adv_r).max()))
    time = 0.2 / speed
    ends = [
        ascend(cmdp, policy, geometry, rule="plain", dt=time / n, steps=n).policy[-1]
        for n in (20, 40, 80)
    ]
    once = [2.0 * ends[1] - ends[0], 2.0 * ends[2] - ends[1]]
    limit = (4.0 * once[1] - once[0]) / 3.0
    exact = flow(cmdp, policy, [0.0, time], geometry, tolerance=1e-10).policy[-1]
    return float(np.abs(limit - exact).max())


def nearly_cpo(
    cmdp: FiniteCMDP, old: ExactValues, radius: float, choice: Choice, missing: float
) -> float:
    """β of at most 1e-5 at which a C-TRPO update lacks at most this share of the gain of CPO's.

    The mixture of the old policy and CPO's with a share 1 − ε has at most 1 − ε of its KL and
    predicted costs. So it lies in the region if β Σ Ψ((1 − ε) δ_b) ≤ ε δ; it has 1 − ε of the gain.
    """
    slack = old.slack[choice.geometry().weights(cmdp) > 0.0]
    price = float(np.sum(psi(choice.geometry().potential, slack, (1.0 - missing) * slack)))
    return min(1e-5, missing * radius / price) if price > 0.0 else 1e-5


def falling_beta(
    cmdp: FiniteCMDP, policy: Floats, rng: np.random.Generator, choice: Choice
) -> float:
    """As β falls to 0 the gain rises to that of CPO's update: largest step back, or last gap."""
    worst, old, shape = 0.0, evaluate(cmdp, policy), choice.geometry().barrier
    for radius in choice.radii(0.01, 0.3):
        goal = update(cmdp, policy, radius, "cpo").gain
        betas = (1.0, 1e-2, nearly_cpo(cmdp, old, radius, choice, 5e-5))
        gains = [update(cmdp, policy, radius, "ctrpo", Geometry(b, shape)).gain for b in betas]
        back = -np.diff([*gains, goal])
        worst = max(worst, float(back.max()), goal - gains[-1])
    return worst


GEOMETRY: dict[str, tuple[Check, float]] = {
    "Φ_K induces D_K": (entropy_induces_kl, 1e-12),
    "Φ_C induces D_C": (mirror_induces_divergence, 1e-12),
    "∇𝔸 = ∇V at the old policy": (surrogate_gradient, 1e-9),
    "∇²D̄_C = ∇²D_C = G_C": (divergences_curve_as_the_gramian, 1e-7),
    "trust regions are nested in β": (nested_in_beta, 1e-7),
    "as β → ∞ nothing is spent": (large_beta, 1e-3),
    "δ(β) = δ − βΨ bounds the KL of the update": (reduced_radius, 1e-7),
    "plain steps θ + εG⁺∇V follow the flow": (plain_steps, 1e-6),
    "as β falls the update tends to CPO's": (falling_beta, 1e-4),
}
"""Claims for the toy and for random CMDPs, with the deviation that rounding allows."""


def _direction(cmdp: FiniteCMDP, old: ExactValues, rng: np.random.Generator) -> Floats:
    """A random direction of logits [S, A] that spends little of each slack."""
    along = rng.normal(size=old.policy.shape)
    along /= np.abs(along).max()
    rate = np.abs(np.sum(old.occupancy * old.adv_c * along, axis=(1, 2)))
    on = np.isfinite(cmdp.cost_limit)
    most = np.max(rate[on] / old.slack[on], initial=0.0)
    return along / max(1.0, 4.0 * float(most))


def _along(
    cmdp: FiniteCMDP,
    old: ExactValues,
    along: Floats,
    f: Callable[[ExactValues], float | Floats],
    weights: Floats,
) -> Floats:
    """A derivative of f(π_{θ + t·along}) at t = 0."""
    size = 0.06
    at = [evaluate(cmdp, softmax(np.log(old.policy) + j * size * along)) for j in range(-4, 5)]
    order = 1 if weights is FIRST else 2
    return np.tensordot(weights, np.array([f(new) for new in at]), 1) / size**order


def _surrogate(cmdp: FiniteCMDP, old: ExactValues, new: ExactValues, geometry: Geometry) -> float:
    """D̄_C(π ‖ π_k)."""
    spent = policy_advantage(old, old.adv_c, new.policy)
    return mean_kl(new.policy, old.policy, old.visits) + _price(cmdp, old, spent, geometry)


def _price(cmdp: FiniteCMDP, old: ExactValues, spent: Floats, geometry: Geometry) -> float:
    """Σ β Ψ of predicted costs [K]; one that uses its slack up to rounding is not beyond it."""
    beta = geometry.weights(cmdp)
    on = beta > 0.0
    slack = old.slack[on]
    near = np.isclose(spent[on], slack, rtol=1e-9, atol=0.0)
    return float(
        np.sum(beta[on] * psi(geometry.potential, slack, np.where(near, slack, spent[on])))
    )


def _curvature(cmdp: FiniteCMDP, old: ExactValues, geometry: Geometry) -> Floats:
    """β φ''(slack) [K]; 0 without a barrier."""
    beta = geometry.weights(cmdp)
    on = beta > 0.0
    weight = np.zeros(len(beta))
    weight[on] = beta[on] * geometry.potential.curvature(old.slack[on])
    return weight
