# SPDX-License-Identifier: Apache-2.0
"""The theorems as measurements: each claim is a worst deviation and what rounding allows."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from holdfast.tabular.barrier import BARRIERS
from holdfast.tabular.best_response import lagrangian_bound
from holdfast.tabular.cmdp import FiniteCMDP, Floats, implicit_bias, toy, two_action_policy
from holdfast.tabular.flow import Geometry, ascend, direction, flow
from holdfast.tabular.instances import random_cmdp, uniform_policy
from holdfast.tabular.lp import optimum
from holdfast.tabular.mirror import mirror_path
from holdfast.tabular.occupancy import advantage, constrained_gramian, evaluate, gradient, occupancy
from holdfast.tabular.projection import bregman_projection
from holdfast.tabular.trust import update

Check = Callable[[FiniteCMDP, Floats, np.random.Generator], float]
"""(CMDP, a policy inside its safe set, randomness) ↦ deviation from what the theorem says."""


@dataclass(frozen=True)
class Claim:
    """A statement, where it was tested, and how far off the worst case was."""

    text: str
    where: str
    worst: float
    allowed: float

    @property
    def holds(self) -> bool:
        return bool(self.worst <= self.allowed)


def flow_equations(cmdp: FiniteCMDP, policy: Floats, rng: np.random.Generator) -> float:
    d = occupancy(cmdp, policy)
    inflow = cmdp.gamma * np.asarray(cmdp.kernel.T @ d.reshape(-1))
    return float(np.abs(d.sum(axis=1) - inflow - (1 - cmdp.gamma) * cmdp.initial).max())


def performance_difference(cmdp: FiniteCMDP, policy: Floats, rng: np.random.Generator) -> float:
    other = rng.dirichlet(np.ones(cmdp.num_actions), size=cmdp.num_states)
    rise = evaluate(cmdp, other).reward_return - evaluate(cmdp, policy).reward_return
    predicted = np.sum(occupancy(cmdp, other) * advantage(cmdp, policy, cmdp.reward))
    return abs(float(rise - predicted))


def direction_solves_the_gramian(
    cmdp: FiniteCMDP, policy: Floats, rng: np.random.Generator
) -> float:
    found = evaluate(cmdp, policy)
    metric = constrained_gramian(cmdp, policy, BARRIERS["entropy"].curvature(found.slack))
    grad = gradient(cmdp, policy, cmdp.reward).reshape(-1)
    return float(np.abs(metric @ direction(cmdp, found, Geometry()).reshape(-1) - grad).max())


def strong_duality(cmdp: FiniteCMDP, policy: Floats, rng: np.random.Generator) -> float:
    best = optimum(cmdp)
    return abs(lagrangian_bound(cmdp, best.multiplier) - best.reward_return)


def mirror_identity(cmdp: FiniteCMDP, policy: Floats, rng: np.random.Generator) -> float:
    times = [1.0, 5.0]
    path = flow(cmdp, policy, times, Geometry(0.5, "log"), tolerance=1e-9)
    return float(
        np.abs(path.policy - mirror_path(cmdp, policy, times, Geometry(0.5, "log")).policy).max()
    )


def invariance(cmdp: FiniteCMDP, policy: Floats, rng: np.random.Generator) -> float:
    path = ascend(cmdp, policy, Geometry(0.1, "log"), dt=0.3, steps=100)
    return float(np.max(path.cost_return - cmdp.cost_limit, initial=0.0))


def convergence(cmdp: FiniteCMDP, policy: Floats, rng: np.random.Generator) -> float:
    late = mirror_path(cmdp, policy, [2e3], Geometry(0.1, "log"))
    return abs(optimum(cmdp).reward_return - float(late.reward_return[-1]))


def projection_limit(cmdp: FiniteCMDP, policy: Floats, rng: np.random.Generator) -> float:
    late = mirror_path(cmdp, policy, [3e3], Geometry(1.0))
    return float(np.abs(late.policy[-1] - bregman_projection(cmdp, policy).policy).max())


def cpo_limit(cmdp: FiniteCMDP, policy: Floats, rng: np.random.Generator) -> float:
    close = update(cmdp, policy, 0.01, "ctrpo", Geometry(1e-5)).gain
    return abs(update(cmdp, policy, 0.01, "cpo").gain - close)


def performance_bounds(cmdp: FiniteCMDP, policy: Floats, rng: np.random.Generator) -> float:
    """How far the true values leave their bounds after an exact update; 0 if they do not."""
    old, step = evaluate(cmdp, policy), update(cmdp, policy, 0.05)
    new = evaluate(cmdp, step.policy)
    factor = np.sqrt(2.0 * step.kl) * cmdp.gamma / (1.0 - cmdp.gamma)
    shift = lambda adv: np.abs(np.einsum("...sa,sa->...s", adv, step.policy)).max(axis=-1)
    short = old.reward_return - factor * shift(old.adv_r) - new.reward_return
    over = new.cost_return - old.cost_return - step.spent - factor * shift(old.adv_c)
    return max(0.0, float(short), float(np.max(over)))


EVERYWHERE: tuple[tuple[str, Check, float], ...] = (
    ("occupancies satisfy the flow equations", flow_equations, 1e-12),
    ("performance difference lemma", performance_difference, 1e-10),
    ("rank-K formula solves the constrained Gramian", direction_solves_the_gramian, 1e-9),
    ("strong duality of the linear programme", strong_duality, 1e-8),
    ("mirror path = constrained natural gradient flow", mirror_identity, 1e-6),
    ("the interior of the safe set is invariant", invariance, 0.0),
    ("V_r converges to the constrained optimum", convergence, 1e-3),
    ("C-TRPO tends to CPO as β → 0", cpo_limit, 1e-3),
    ("reward and violation bounds of the update", performance_bounds, 0.0),
)


def check_claims(random: int, seed: int) -> list[Claim]:
    """Test every claim on the toy and on random CMDPs."""
    rng = np.random.default_rng(seed)
    claims: list[Claim] = []
    for text, check, allowed in EVERYWHERE:
        worst = check(toy(), two_action_policy(0.3, 0.1), rng)
        claims.append(Claim(text, "toy", worst, allowed))
    bias = implicit_bias()
    worst = projection_limit(bias, uniform_policy(bias), rng)
    claims.append(Claim("the limit is the Bregman projection", "implicit bias", worst, 1e-6))
    instances = [_instance(rng) for _ in range(random)]
    for text, check, allowed in EVERYWHERE if instances else ():
        worst = max(check(cmdp, uniform_policy(cmdp), rng) for cmdp in instances)
        claims.append(Claim(text, f"{random} random", worst, allowed))
    return claims


def _instance(rng: np.random.Generator) -> FiniteCMDP:
    states, actions, constraints = (int(n) for n in rng.integers([2, 2, 1], [21, 6, 4]))
    return random_cmdp(rng, states, actions, constraints)
