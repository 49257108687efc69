# SPDX-License-Identifier: Apache-2.0
"""The theorems as measurements: each claim has a worst deviation and a tolerance for rounding."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from holdfast.paper.geometry_claims import GEOMETRY, Check, Choice, nearly_cpo
from holdfast.tabular.best_response import lagrangian_bound
from holdfast.tabular.cmdp import FiniteCMDP, Floats, implicit_bias, toy, two_action_policy
from holdfast.tabular.flow import Geometry, direction, flow, natural_gradient
from holdfast.tabular.ideal import ideal_update
from holdfast.tabular.instances import random_cmdp, tied_cmdp, uniform_policy
from holdfast.tabular.lp import interior_policy, optimum
from holdfast.tabular.mirror import bregman_projection, mirror_path, tight_on_face
from holdfast.tabular.occupancy import (
    advantage,
    constrained_gramian,
    evaluate,
    gradient,
    occupancy,
    policy_of,
)
from holdfast.tabular.parameters import escort, log_linear
from holdfast.tabular.trust import bregman_divergence, update


@dataclass(frozen=True)
class Claim:
    """A statement, the CMDPs of its test, and its worst deviation."""

    text: str
    where: str
    worst: float
    allowed: float

    @property
    def holds(self) -> bool:
        return bool(self.worst <= self.allowed)


def flow_equations(
    cmdp: FiniteCMDP, policy: Floats, rng: np.random.Generator, choice: Choice
) -> float:
    d = occupancy(cmdp, policy)
    inflow = cmdp.gamma * np.asarray(cmdp.kernel.T @ d.reshape(-1))
    return float(np.abs(d.sum(axis=1) - inflow - (1 - cmdp.gamma) * cmdp.initial).max())


def performance_difference(
    cmdp: FiniteCMDP, policy: Floats, rng: np.random.Generator, choice: Choice
) -> float:
    other = rng.dirichlet(np.ones(cmdp.num_actions), size=cmdp.num_states)
    rise = evaluate(cmdp, other).reward_return - evaluate(cmdp, policy).reward_return
    predicted = np.sum(occupancy(cmdp, other) * advantage(cmdp, policy, cmdp.reward))
    return abs(float(rise - predicted))


def direction_solves_the_gramian(
    cmdp: FiniteCMDP, policy: Floats, rng: np.random.Generator, choice: Choice
) -> float:
    found = evaluate(cmdp, policy)
    geometry = choice.geometry()
    beta = geometry.weights(cmdp)
    curvature = np.where(beta > 0.0, geometry.potential.curvature(found.slack), 0.0)
    metric = constrained_gramian(cmdp, policy, beta * curvature)
    grad = gradient(cmdp, policy, cmdp.reward).reshape(-1)
    return float(np.abs(metric @ direction(cmdp, found, geometry).reshape(-1) - grad).max())


def any_parameters(
    cmdp: FiniteCMDP, policy: Floats, rng: np.random.Generator, choice: Choice
) -> float:
    """Largest difference in ∂_t log π between softmax logits and escort or log-linear ones."""
    found = evaluate(cmdp, policy)
    geometry = choice.geometry()
    logits = direction(cmdp, found, geometry)
    expected = logits - np.sum(policy * logits, axis=1, keepdims=True)
    features = np.linalg.qr(rng.normal(size=(policy.size, policy.size)))[0]
    others = (escort(), log_linear(features.reshape(*policy.shape, -1)))
    scores = [other.scores(other.inverse(policy)) for other in others]
    moved = [score @ natural_gradient(cmdp, found, score, geometry) for score in scores]
    seen = found.occupancy > 0.0
    return max(float(np.abs(velocity - expected)[seen].max()) for velocity in moved)


def strong_duality(
    cmdp: FiniteCMDP, policy: Floats, rng: np.random.Generator, choice: Choice
) -> float:
    best = optimum(cmdp)
    return abs(lagrangian_bound(cmdp, best.multiplier) - best.reward_return)


def above_rounding(cmdp: FiniteCMDP, policy: Floats, geometry: Geometry, time: float) -> float:
    """This time, halved until the slacks are above 1e-10 on the mirror path.

    With x log x and a small β a slack decays exponentially; at 1e-16 it is rounding of b − V_c.
    """
    while np.any(cmdp.cost_limit - mirror_path(cmdp, policy, [time], geometry).cost_return < 1e-10):
        time *= 0.5
    return time


def mirror_identity(
    cmdp: FiniteCMDP, policy: Floats, rng: np.random.Generator, choice: Choice
) -> float:
    geometry = choice.geometry(0.5, "log")
    time = above_rounding(cmdp, policy, geometry, 5.0)
    times = [0.2 * time, time]
    path = flow(cmdp, policy, times, geometry, tolerance=1e-9)
    return float(np.abs(path.policy - mirror_path(cmdp, policy, times, geometry).policy).max())


def invariance(cmdp: FiniteCMDP, policy: Floats, rng: np.random.Generator, choice: Choice) -> float:
    """Share of the time that the flow misses; its integrator stops at a limit."""
    missed = 0.0
    for geometry, time in (
        (choice.geometry(0.1, "log"), 20.0),
        (choice.geometry(1.0, "entropy"), 3.0),
    ):
        end = above_rounding(cmdp, policy, geometry, time)
        path = flow(cmdp, policy, np.linspace(0.0, end, 21), geometry, tolerance=1e-8)
        crossed = np.any(path.cost_return >= cmdp.cost_limit)
        missed = max(missed, 1.0 if crossed else 1.0 - float(path.time[-1]) / end)
    return missed


def convergence(
    cmdp: FiniteCMDP, policy: Floats, rng: np.random.Generator, choice: Choice
) -> float:
    """What V_r lacks of the optimum at time 2e4, or later where the barrier is dear.

    On the mirror path t (V_r(d) − V_r(d_t)) ≤ D_C(d ‖ d_0) for every safe d, such as a mixture of
    the optimum with a little of the start.
    """
    best, geometry, old = optimum(cmdp), choice.geometry(0.1, "log"), evaluate(cmdp, policy)
    little = min(0.5, 4e-4 / max(best.reward_return - old.reward_return, 1e-300))
    mixture = (1.0 - little) * best.occupancy + little * old.occupancy
    price = bregman_divergence(cmdp, evaluate(cmdp, policy_of(mixture)), old, geometry)
    late = mirror_path(cmdp, policy, [max(2e4, price / 4e-4)], geometry)
    return abs(best.reward_return - float(late.reward_return[-1]))


def projection_limit(
    cmdp: FiniteCMDP, policy: Floats, rng: np.random.Generator, choice: Choice
) -> float:
    geometry = choice.geometry()
    late = mirror_path(cmdp, policy, [3e3], geometry)
    return float(np.abs(late.policy[-1] - bregman_projection(cmdp, policy, geometry).policy).max())


def no_limit_without_need(
    cmdp: FiniteCMDP, policy: Floats, rng: np.random.Generator, choice: Choice
) -> float:
    """Number of limits that are tight at the flow's end although not at all optima.

    β is at least 0.3: x log x leaves slacks of the order e^(−1/β), and rounding hides smaller ones.
    """
    geometry = choice.geometry()
    late = mirror_path(cmdp, policy, [3e3], replace(geometry, beta=max(geometry.beta, 0.3)))
    avoidable = ~tight_on_face(cmdp, optimum(cmdp))
    return float(np.sum((cmdp.cost_limit - late.cost_return[-1])[avoidable] < 1e-6))


def cpo_limit(cmdp: FiniteCMDP, policy: Floats, rng: np.random.Generator, choice: Choice) -> float:
    """Largest difference in gain, over regions with and without a limit across them."""
    worst, old = 0.0, evaluate(cmdp, policy)
    for radius in choice.radii(0.01, 0.3):
        small = replace(choice.geometry(), beta=nearly_cpo(cmdp, old, radius, choice, 5e-4))
        goal = update(cmdp, policy, radius, "cpo", choice.geometry()).gain
        worst = max(worst, abs(goal - update(cmdp, policy, radius, "ctrpo", small).gain))
    return worst


def performance_bounds(
    cmdp: FiniteCMDP, policy: Floats, rng: np.random.Generator, choice: Choice
) -> float:
    """Largest violation of the bounds on true values after an exact update; 0 if they hold.

    The surrogate's error is at most √(2 KL) γ/(1−γ) max_s |E_π A| in both directions, which also
    bounds the loss of reward.
    """
    old = evaluate(cmdp, policy)
    step = update(cmdp, policy, max(choice.radii(0.05)), "ctrpo", choice.geometry())
    new = evaluate(cmdp, step.policy)
    factor = np.sqrt(2.0 * step.kl) * cmdp.gamma / (1.0 - cmdp.gamma)
    adv = np.concatenate([old.adv_r[None], old.adv_c])
    error = factor * np.abs(np.einsum("fsa,sa->fs", adv, step.policy)).max(axis=1)
    rise = np.append(new.reward_return - old.reward_return, new.cost_return - old.cost_return)
    off = np.abs(rise - np.append(step.gain, step.spent)) - error
    return max(0.0, float(np.max(off)), float(-rise[0] - error[0]))


def ideal_region(
    cmdp: FiniteCMDP, policy: Floats, rng: np.random.Generator, choice: Choice
) -> float:
    """Largest violation by an ideal update that maximises cost."""
    limit, worst = cmdp.cost_limit, 0.0
    for cost in cmdp.cost:
        step = ideal_update(
            replace(cmdp, reward=cost), policy, max(choice.radii(0.3)), choice.geometry(0.01)
        )
        worst = max(worst, float(np.max(evaluate(cmdp, step).cost_return - limit)))
    return worst


EVERYWHERE: dict[str, tuple[Check, float]] = {
    "occupancies satisfy the flow equations": (flow_equations, 1e-12),
    "performance difference lemma": (performance_difference, 1e-10),
    "rank-K formula solves the constrained Gramian": (direction_solves_the_gramian, 1e-9),
    "escort and log-linear policies move the same way": (any_parameters, 1e-8),
    "strong duality of the linear programme": (strong_duality, 1e-8),
    "mirror path = constrained natural gradient flow": (mirror_identity, 1e-6),
    "the flow never leaves the interior of the safe set": (invariance, 0.0),
    "V_r converges to the constrained optimum": (convergence, 1e-3),
    "C-TRPO tends to CPO as β → 0": (cpo_limit, 1e-3),
    "the ideal trust region lies in the safe set": (ideal_region, 0.0),
    "reward and violation bounds of the update": (performance_bounds, 0.0),
    **GEOMETRY,
}
"""Claims for the toy and for random CMDPs, with the deviation that rounding allows."""
WITH_TIES: dict[str, tuple[Check, float]] = {
    "the limit meets as few limits as an optimum must": (no_limit_without_need, 0.0),
}
"""Claims about CMDPs with several optima, for random ones made so."""
WITH_MANY_OPTIMA: dict[str, tuple[Check, float]] = {
    "the limit is the Bregman projection": (projection_limit, 1e-6),
    **WITH_TIES,
}
"""The same and one on the flow's limit itself, to which random CMDPs may converge slowly."""


def check_claims(
    random: int,
    seed: int,
    only: str | None = None,
    own: Mapping[str, FiniteCMDP] = {},
    choice: Choice = Choice(),
) -> list[Claim]:
    """Test every claim, or the one of that text, on `own` CMDPs or the examples, and on random
    ones.

    Own rewards and costs are scaled to 1, as the tolerances require. `choice` replaces the weight,
    barrier and radius of the claims.
    """
    rng = np.random.default_rng(seed)
    drawn = [_instance(rng) for _ in range(random)]
    tied = [_tied(np.random.default_rng([seed, i])) for i in range(random)]
    bias, tight = implicit_bias(), implicit_bias(0.7)  # 0.7: some of the optima cost that much
    costly = np.array([[0.9, 0.05, 0.05], [0.6, 0.3, 0.1]])
    examples = (
        ("toy", EVERYWHERE, [(toy(), two_action_policy(0.3, 0.1))]),
        ("implicit bias", WITH_MANY_OPTIMA, [(bias, uniform_policy(bias)), (tight, costly)]),
    )
    scaled = {name: _to_unit(cmdp) for name, cmdp in own.items()}
    theirs = [(name, EVERYWHERE, [(cmdp, interior_policy(cmdp))]) for name, cmdp in scaled.items()]
    places = (
        *(theirs or examples),
        (f"{random} random", EVERYWHERE, [(cmdp, uniform_policy(cmdp)) for cmdp in drawn]),
        (f"{random} random, tied", WITH_TIES, [(cmdp, uniform_policy(cmdp)) for cmdp in tied]),
    )
    return [
        Claim(text, where, max(check(*one, rng, choice) for one in instances), allowed)
        for where, claims, instances in places
        for text, (check, allowed) in claims.items()
        if instances and only in (None, text)
    ]


def _to_unit(cmdp: FiniteCMDP) -> FiniteCMDP:
    largest = lambda signal: np.maximum(np.abs(signal).max(axis=(-2, -1)), 1e-300)
    unit = largest(cmdp.cost)
    return replace(
        cmdp,
        reward=cmdp.reward / largest(cmdp.reward),
        cost=cmdp.cost / unit[:, None, None],
        cost_limit=cmdp.cost_limit / unit,
    )


def _instance(rng: np.random.Generator) -> FiniteCMDP:
    states, actions, constraints = (int(n) for n in rng.integers([2, 2, 1], [21, 6, 4]))
    return random_cmdp(rng, states, actions, constraints)


def _tied(rng: np.random.Generator) -> FiniteCMDP:
    states, actions, constraints = (int(n) for n in rng.integers([3, 3, 1], [9, 5, 3]))
    return tied_cmdp(rng, states, actions, constraints)
