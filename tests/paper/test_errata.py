# SPDX-License-Identifier: Apache-2.0
"""The errata of docs/paper.md: what the paper prints fails here, and what is right holds."""

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from holdfast.records.statistics import cost_regret, iqm
from holdfast.tabular.cmdp import toy, two_action_policy
from holdfast.tabular.flow import Geometry, direction, flow
from holdfast.tabular.instances import random_cmdp, uniform_policy
from holdfast.tabular.lp import optimum
from holdfast.tabular.mirror import bregman_projection
from holdfast.tabular.occupancy import (
    advantage,
    constrained_gramian,
    evaluate,
    gradient,
    mean_kl,
    occupancy,
    policy_advantage,
    softmax,
)
from holdfast.tabular.potentials import POTENTIALS, psi
from holdfast.tabular.trust import bregman_divergence, update

NEAR = np.logspace(-12.0, 0.0, 200)
FAR = two_action_policy(0.3, 0.1)
NPG = Geometry(0.0)
CMDP = random_cmdp(np.random.default_rng(3), 6, 3, 2)


@pytest.mark.parametrize("name", ["entropy", "log"])
def test_the_slope_tends_to_minus_infinity(name: str) -> None:
    """Printed: φ' → +∞. A convex φ has an increasing φ', so at 0 it can only tend to −∞."""
    slope = POTENTIALS[name].slope(NEAR)
    assert np.all(np.diff(slope) > 0.0) and slope[0] < -20.0
    printed = -np.log(NEAR) - 1.0  # φ = −x log x does what is printed
    assert printed[0] > 20.0 and np.all(np.diff(printed) < 0.0)  # and is not convex


@pytest.mark.parametrize("name", ["entropy", "log"])
def test_the_sign_before_the_slope(name: str) -> None:
    """Printed twice: Ψ = φ(δ_b − x) − φ(δ_b) − φ'(δ_b) x. Only plus has Ψ'(0) = 0 and Ψ ≥ 0."""
    phi = {"entropy": lambda x: x * np.log(x), "log": lambda x: -np.log(x)}[name]
    slack, x = 0.2, np.linspace(-0.19, 0.19, 381)
    slope = float(POTENTIALS[name].slope(np.array(slack)))
    plus = phi(slack - x) - phi(slack) + slope * x
    minus = phi(slack - x) - phi(slack) - slope * x
    np.testing.assert_allclose(plus, psi(POTENTIALS[name], slack, x), atol=1e-12)
    assert minus.min() < -1e-3
    middle = len(x) // 2
    tilt = (minus[middle + 1] - minus[middle - 1]) / (x[2] - x[0])
    assert tilt == pytest.approx(-2.0 * slope, rel=1e-3)


def test_the_price_of_the_whole_slack_is_finite_for_x_log_x() -> None:
    """Printed: Ψ → ∞ at δ_b. True for −log x; for x log x Ψ(δ_b) = δ_b, and ∞ only beyond."""
    for slack in (0.01, 0.2, 3.0):
        assert psi(POTENTIALS["entropy"], slack, slack) == pytest.approx(slack, rel=1e-15)
        assert np.isinf(psi(POTENTIALS["entropy"], slack, slack * (1 + 1e-12)))
        assert np.isinf(psi(POTENTIALS["log"], slack, slack))


@pytest.mark.parametrize(("share", "reached"), [(0.5, True), (0.9, True), (1.05, False)])
def test_where_an_entropy_region_touches_the_limit(share: float, reached: bool) -> None:
    """Below slack δ/β, since the whole slack costs β δ_b; the quadratic model already at 2δ/β."""
    from scipy.optimize import brentq

    cmdp, radius = toy(), 0.002
    wanted = share * radius
    excess = lambda y: evaluate(cmdp, two_action_policy(0.5, y)).slack[0] - wanted
    policy = two_action_policy(0.5, float(brentq(excess, 0.0, 0.99)))
    spending = replace(cmdp, reward=cmdp.cost[0])
    step = update(spending, policy, radius, "ctrpo", Geometry(1.0))
    assert (step.spent[0] == pytest.approx(wanted, rel=1e-6)) == reached
    with_log = update(spending, policy, radius, "ctrpo", Geometry(1.0, "log"))
    assert with_log.spent[0] < 0.9 * wanted
    model = np.sqrt(2.0 * radius / POTENTIALS["entropy"].curvature(np.array(wanted)))
    assert (model > wanted) == (wanted < 2.0 * radius)


BETAS = (1e-3, 1.0, 10.0, 100.0, 1e5)


def test_what_the_barrier_leaves_of_the_radius_neither_falls_nor_vanishes() -> None:
    """Printed: δ(β) decreases to 0 with β, so that the bound becomes V_c(π') ≤ V_c(π)."""
    radius, old = 0.1, evaluate(toy(), FAR)
    steps = [update(toy(), FAR, radius, "ctrpo", Geometry(beta)) for beta in BETAS]
    left = [
        radius - beta * float(psi(POTENTIALS["entropy"], old.slack[0], step.spent[0]))
        for beta, step in zip(BETAS, steps, strict=True)
    ]
    np.testing.assert_allclose(left[:4], [0.09996, 0.08227, 0.08160, 0.09604], atol=5e-6)
    assert left[4] / radius == pytest.approx(0.99995, abs=5e-6)
    np.testing.assert_allclose(left, [step.kl for step in steps], rtol=1e-7)
    assert left[0] > left[1] > left[2] < left[3] < left[4]
    last = evaluate(toy(), steps[-1].policy)
    assert last.cost_return[0] > old.cost_return[0] + 1e-3  # V_c(π') ≤ V_c(π) fails
    epsilon = np.abs(np.sum(last.policy * old.adv_c[0], axis=1)).max()
    factor = toy().gamma / (1.0 - toy().gamma) * epsilon
    assert last.cost_return[0] <= old.cost_return[0] + steps[-1].spent[0] + factor * np.sqrt(
        2.0 * left[4]
    )
    spent = [abs(float(step.spent[0])) for step in steps]  # only this tends to 0
    assert spent == sorted(spent, reverse=True) and spent[-1] < 1e-5


def test_the_bound_of_c_trpo_is_the_lower_one() -> None:
    """Printed: the bound is higher than CPO's. δ(β) ≤ δ, so that it is lower."""
    old = evaluate(toy(), FAR)
    for beta in BETAS:
        step = update(toy(), FAR, 0.1, "ctrpo", Geometry(beta))
        assert step.kl <= 0.1 and step.spent[0] < old.slack[0]


def test_the_gradient_of_the_update_is_that_of_the_reward() -> None:
    """Printed: g_k = ∇𝔸_c. Its natural step would raise the cost; the update's raises V_r."""
    found = evaluate(CMDP, uniform_policy(CMDP))
    weight = POTENTIALS["entropy"].curvature(found.slack)
    inverse = np.linalg.pinv(constrained_gramian(CMDP, found.policy, weight), rcond=1e-12)
    of = lambda signal: gradient(CMDP, found.policy, signal).reshape(-1)
    printed = inverse @ of(CMDP.cost[0])
    assert of(CMDP.cost[0]) @ printed > 1e-4
    right = inverse @ of(CMDP.reward)
    np.testing.assert_allclose(right, direction(CMDP, found, Geometry()).reshape(-1), atol=1e-9)
    assert of(CMDP.reward) @ right > 1e-4
    assert of(CMDP.reward) @ right != pytest.approx(of(CMDP.reward) @ printed, rel=0.1)


def test_the_regret_counts_each_constraint_once() -> None:
    """Printed: Σ_{i=0}^m. There are m costs, i = 1..m; no cost has i = 0."""
    assert cost_regret([30.0, 20.0, 27.0], 25.0)[-1] == 7.0
    both = cost_regret(np.array([[30.0, 12.0], [20.0, 9.0], [27.0, 8.0]]), [25.0, 10.0])
    assert both[-1] == 7.0 + 2.0


def test_normalised_advantages_lack_a_factor() -> None:
    """Printed: A carries 1 − γ. Then ∇𝔸 and the performance difference are (1 − γ) too small."""
    pi, other = uniform_policy(CMDP), np.random.default_rng(0).dirichlet(np.ones(3), size=6)
    adv = advantage(CMDP, pi, CMDP.reward)
    printed = (1.0 - CMDP.gamma) * adv
    rise = evaluate(CMDP, other).reward_return - evaluate(CMDP, pi).reward_return
    assert np.sum(occupancy(CMDP, other) * adv) == pytest.approx(rise, rel=1e-10)
    ratio = np.sum(occupancy(CMDP, other) * printed) / rise
    assert ratio == pytest.approx(1.0 - CMDP.gamma, rel=1e-10)


def test_the_surrogates_kl_is_no_bregman_divergence_of_the_entropy() -> None:
    """The ideal update has D_C(d_k‖d), the surrogate Σ d_k KL(π‖π_k): neither order of D_K."""
    one, two = evaluate(CMDP, uniform_policy(CMDP)), evaluate(CMDP, softmax(CMDP.reward))
    flat = Geometry(0.0)
    surrogate = mean_kl(two.policy, one.policy, one.visits)
    orders = [bregman_divergence(CMDP, a, b, flat) for a, b in ((one, two), (two, one))]
    assert orders[0] == pytest.approx(mean_kl(one.policy, two.policy, one.visits), rel=1e-12)
    assert min(abs(surrogate - order) for order in orders) > 1e-4 * surrogate


def test_the_entropy_is_infinite_in_its_second_argument_only() -> None:
    """Printed: D_K blows up when either policy meets the boundary; and KL's support condition."""
    inside = evaluate(toy(), FAR)
    corner = evaluate(toy(), two_action_policy(0.0, 0.1))
    assert np.isfinite(bregman_divergence(toy(), corner, inside, Geometry(0.0)))
    assert np.isinf(bregman_divergence(toy(), inside, corner, Geometry(0.0)))


def test_the_step_length_has_a_factor_two() -> None:
    """Printed in the appendix: √δ/‖g‖. Its quadratic model ½ uᵀGu is δ/2, not δ."""
    found = evaluate(toy(), FAR)
    metric = constrained_gramian(toy(), FAR, POTENTIALS["entropy"].curvature(found.slack))
    x = direction(toy(), found, Geometry()).reshape(-1)
    size, delta = float(x @ metric @ x), 0.01
    model = lambda u: 0.5 * float(u @ metric @ u)
    assert model(np.sqrt(2.0 * delta / size) * x) == pytest.approx(delta, rel=1e-12)
    assert model(np.sqrt(delta / size) * x) == pytest.approx(delta / 2.0, rel=1e-12)


def test_the_quadratic_constraint_has_a_half() -> None:
    """Printed: uᵀGu ≤ δ. The KL of a short step is ½ uᵀGu, so δ would be used by half."""
    found = evaluate(toy(), FAR)
    metric = constrained_gramian(toy(), FAR, np.zeros(1))
    u = 1e-3 * direction(toy(), found, NPG).reshape(-1)
    moved = softmax(np.log(FAR) + u.reshape(FAR.shape))
    size, kl = float(u @ metric @ u), mean_kl(moved, FAR, found.visits)
    assert kl == pytest.approx(0.5 * size, rel=1e-2) and kl < 0.6 * size


def test_the_barriers_hessian_alone_is_not_the_gramian() -> None:
    """Printed: H_φ equals the Gramian. It is H_KL + β H_φ; β H_φ has rank one."""
    found = evaluate(CMDP, uniform_policy(CMDP))
    weight = np.array([POTENTIALS["entropy"].curvature(found.slack)[0], 0.0])
    whole, kl = (constrained_gramian(CMDP, found.policy, w) for w in (weight, 0.0 * weight))
    cost = gradient(CMDP, found.policy, CMDP.cost[0]).reshape(-1)
    np.testing.assert_allclose(whole - kl, weight[0] * np.outer(cost, cost), atol=1e-12)
    assert np.linalg.matrix_rank(whole - kl, tol=1e-9) == 1 < np.linalg.matrix_rank(whole, tol=1e-9)


def test_the_policy_advantage_is_of_the_new_policy_under_the_old() -> None:
    """Printed once: 𝔸^{π'}(π). It predicts −(V(π') − V(π)), so that the bound fails."""
    old = evaluate(toy(), FAR)
    step = update(toy(), FAR, 1e-4, "ctrpo", Geometry(1.0))
    new = evaluate(toy(), step.policy)
    rise = new.reward_return - old.reward_return
    factor = np.sqrt(2.0 * step.kl) * toy().gamma / (1.0 - toy().gamma)
    printed = float(policy_advantage(new, new.adv_r, old.policy))
    right = float(policy_advantage(old, old.adv_r, new.policy))
    error = lambda adv, policy: factor * np.abs(np.sum(policy * adv, axis=1)).max()
    assert abs(rise - right) <= error(old.adv_r, new.policy)
    assert printed == pytest.approx(-rise, rel=0.1) and printed < 0.0 < rise
    assert abs(rise - printed) > error(new.adv_r, old.policy)


def test_only_the_interior_is_invariant() -> None:
    """Printed for the closed safe set. On its boundary the metric is not defined."""
    edge = optimum(toy()).policy
    policy = 0.999 * edge + 0.001 * uniform_policy(toy())
    with pytest.raises(ValueError, match="start inside the safe set"):
        flow(toy(float(evaluate(toy(), policy).cost_return[0])), policy, [1.0], Geometry(1.0))


def test_the_implicit_bias_is_vacuous_for_the_log_barrier_on_active_limits() -> None:
    """Printed: argmin D_C(d*‖d_0). With −log x every optimum on its limit is at infinity."""
    start = evaluate(toy(), FAR)
    best = replace(evaluate(toy(), optimum(toy()).policy), cost_return=toy().cost_limit)
    assert np.isinf(bregman_divergence(toy(), best, start, Geometry(1.0, "log")))
    assert np.isfinite(bregman_divergence(toy(), best, start, Geometry(1.0)))
    end = bregman_projection(toy(), FAR, Geometry(1.0, "log"))  # the common infinite term dropped
    assert end.cost_return[0] == pytest.approx(0.2, abs=1e-8)


def test_the_printed_toy_trajectories_use_the_gramian_of_log_d() -> None:
    """The published picture took the Jacobian of log d; it points elsewhere (`--parity`)."""
    found = evaluate(toy(), FAR)
    right = direction(toy(), found, Geometry())
    printed = direction(toy(), found, Geometry(log_occupancy=True))
    cosine = np.sum(right * printed) / np.linalg.norm(right) / np.linalg.norm(printed)
    assert cosine < 0.999


def test_the_printed_tables_c_trpo_has_no_hysteresis(published: Path) -> None:
    """Printed: b_H = 0.8 b throughout. The table's C-TRPO row equals the runs with h = 1."""
    from pyarrow import parquet

    names = ["algorithm", "task", "env_steps", "ep_return", "ep_cost", "cost_regret"]
    equal = dict.fromkeys(("c-trpo-no-hysteresis", "c-trpo"), 0)
    last = [("env_steps", "==", 10_000_000), ("algorithm", "in", list(equal))]
    table = parquet.read_table(published / "paper_runs.parquet", columns=names, filters=last)
    data = {name: np.asarray(table[name].to_pylist()) for name in names}
    with open(published / "paper_table.csv", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["algorithm"] == "c-trpo"]
    assert len(rows) == 24
    column = {"reward": "ep_return", "cost": "ep_cost", "cost_regret": "cost_regret"}
    for row in rows:
        for name in equal:
            here = (data["algorithm"] == name) & (data["task"] == row["task"])
            values = data[column[row["metric"]]][here]
            shown = round(float(iqm(values.astype(float))), 1)
            equal[name] += abs(shown - float(row["value"])) < 0.051
    assert equal["c-trpo-no-hysteresis"] == 24 and equal["c-trpo"] <= 2
