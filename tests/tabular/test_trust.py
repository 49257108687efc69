# SPDX-License-Identifier: Apache-2.0
"""Exact trust-region updates against exhaustive search and the published bounds (C12-C14, C21)."""

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize

from holdfast.core.barrier import BARRIERS
from holdfast.paper.square import Square
from holdfast.tabular.cmdp import FiniteCMDP, toy, two_action_policy
from holdfast.tabular.flow import Geometry
from holdfast.tabular.ideal import ideal_update
from holdfast.tabular.instances import random_cmdp, uniform_policy
from holdfast.tabular.occupancy import ExactValues, evaluate, mean_kl, policy_advantage
from holdfast.tabular.potentials import POTENTIALS, psi, psi_reversed
from holdfast.tabular.trust import Method, bregman_divergence, update

OLD = two_action_policy(0.6, 0.4)
RADIUS = 0.05
PHI = {"entropy": lambda x: x * np.log(x), "log": lambda x: -np.log(x)}


def divergence(
    cmdp: FiniteCMDP, old: ExactValues, policy: np.ndarray, geometry: Geometry
) -> tuple[float, float]:
    """(D̄_KL, D̄_C): E_{d_k} KL(π‖π_k), and with Σ β_i Ψ_i(𝔸_{c_i}(π)) added."""
    kl = mean_kl(policy, old.policy, old.occupancy.sum(axis=1))
    spent = policy_advantage(old, old.adv_c, policy)
    price = psi(POTENTIALS[geometry.barrier], old.slack, spent)
    return kl, kl + float(np.sum(geometry.weights(cmdp) * price))


def test_c12_surrogate_divergence() -> None:
    entropy, log = POTENTIALS["entropy"], POTENTIALS["log"]
    expected = [0.15072829, 0.18906978, 0.90138771, 3.0]
    np.testing.assert_allclose(psi(entropy, 3.0, [-1, 1, 2, 3]), expected, atol=5e-9)
    np.testing.assert_allclose(
        psi(log, 3.0, [-1, 1, 2]), [0.04565126, 0.07213177, 0.43194562], atol=5e-9
    )
    assert psi(log, 3.0, 3.0) == np.inf and psi(entropy, 3.0, 3.001) == np.inf
    x = np.linspace(-2.9, 2.9, 41)
    np.testing.assert_allclose(psi_reversed(entropy, 3.0, x), 3.0 * psi(log, 3.0, x), atol=1e-14)


@pytest.mark.parametrize("name", ["entropy", "log"])
def test_barrier_maps_belong_together(name: str) -> None:
    """Ψ, its derivatives, the shifted slack and the conjugate are those of one φ."""
    barrier = POTENTIALS[name]
    x = np.linspace(-2.0, 2.5, 19)
    phi = PHI[name]
    textbook = phi(3.0 - x) - phi(3.0) + barrier.slope(np.array(3.0)) * x
    np.testing.assert_allclose(psi(barrier, 3.0, x), textbook, atol=1e-14)
    jax_form = BARRIERS[name].divergence(np.float32(3.0), x.astype(np.float32))
    np.testing.assert_allclose(psi(barrier, 3.0, x), jax_form, rtol=1e-5, atol=1e-6)
    y0, kappa = np.array(0.7), np.array(0.4)
    y = barrier.shifted(y0, kappa)
    assert barrier.slope(y) == pytest.approx(float(barrier.slope(y0) - kappa), abs=1e-12)
    attained = -kappa * y - psi(barrier, y0, y0 - y)
    assert barrier.conjugate(y0, kappa) == pytest.approx(float(attained), abs=1e-12)
    assert barrier.softness(y) * barrier.curvature(y) == pytest.approx(1.0)


def test_c21_the_wrong_sign_is_no_divergence() -> None:
    for name, phi in PHI.items():
        x, barrier = np.linspace(-2.9, 2.9, 101), POTENTIALS[name]
        wrong = phi(3.0 - x) - phi(3.0) - barrier.slope(np.array(3.0)) * x
        assert wrong.min() < 0.0
        assert psi(barrier, 3.0, x).min() >= 0.0


@pytest.fixture(scope="module")
def square() -> Square:
    return Square.of(toy(), 2001)


def search(square: Square, allowed: np.ndarray) -> tuple[float, float, float]:
    gain = np.where(
        allowed, square.surrogate(evaluate(toy(), OLD), evaluate(toy(), OLD).adv_r), -np.inf
    )
    at = np.unravel_index(np.argmax(gain), gain.shape)
    return float(square.x[at]), float(square.y[at]), float(gain[at])


def test_c13_grid_search_and_exact_update(square: Square) -> None:
    old = evaluate(toy(), OLD)
    kl, spent = square.kl(old), square.surrogate(old, old.adv_c[0])
    cpo = (kl <= RADIUS) & (spent <= old.slack[0])
    assert search(square, cpo) == pytest.approx((0.7825, 0.4650, 0.14663), abs=5e-6)
    regions = []
    for beta, expected in ((1.0, (0.7785, 0.4590, 0.13962)), (2.0, (0.7810, 0.4550, 0.13758))):
        regions.append(square.divergence(old, Geometry(beta)) <= RADIUS)
        assert search(square, regions[-1]) == pytest.approx(expected, abs=5e-6)
        exact = update(toy(), OLD, RADIUS, "ctrpo", Geometry(beta))
        np.testing.assert_allclose(exact.policy[:, 0], expected[:2], atol=1.5e-3)
        assert exact.gain >= expected[2] - 5e-6
        assert exact.divergence == pytest.approx(RADIUS, abs=1e-9)
    assert np.all(regions[0] | ~regions[1]) and np.all(cpo | ~regions[0])
    tiny = square.divergence(old, Geometry(1e-4)) <= RADIUS
    assert search(square, tiny)[:2] == search(square, cpo)[:2]
    stiff = square.divergence(old, Geometry(1e6)) <= RADIUS
    x, y, _ = search(square, stiff)
    assert mean_kl(two_action_policy(x, y), OLD, old.occupancy.sum(axis=1)) > 0.045
    exact_cpo = update(toy(), OLD, RADIUS, "cpo")
    np.testing.assert_allclose(exact_cpo.policy[:, 0], (0.7825, 0.4650), atol=1.5e-3)
    assert exact_cpo.spent[0] <= old.slack[0] + 1e-9


@pytest.mark.parametrize("barrier", ["entropy", "log"])
@pytest.mark.parametrize("beta", [1e-3, 0.1, 1.0, 2.0, 100.0])
def test_c14_bounds_hold_everywhere_in_the_region(barrier: str, beta: float) -> None:
    cmdp, old = toy(), evaluate(toy(), OLD)
    grid = Square.of(cmdp, 401)
    region = grid.divergence(old, Geometry(beta, barrier)) <= RADIUS
    assert region.sum() > 20
    policies, kl = grid.policies(), grid.kl(old)
    factor = cmdp.gamma / (1.0 - cmdp.gamma)
    shift_r = np.abs(np.einsum("xysa,sa->xys", policies, old.adv_r)).max(axis=-1)
    shift_c = np.abs(np.einsum("xysa,sa->xys", policies, old.adv_c[0])).max(axis=-1)
    floor = old.reward_return - np.sqrt(2 * RADIUS) * factor * shift_r
    gain = grid.surrogate(old, old.adv_r)
    assert np.all((grid.value(cmdp.reward) >= floor)[region & (gain >= 0.0)])
    ceiling = old.cost_return[0] + grid.surrogate(old, old.adv_c[0])
    ceiling = ceiling + np.sqrt(2 * kl) * factor * shift_c
    assert np.all((grid.value(cmdp.cost[0]) <= ceiling + 1e-12)[region])


def test_c14_example() -> None:
    cmdp, old = toy(), evaluate(toy(), OLD)
    new = evaluate(cmdp, two_action_policy(0.7785, 0.4590))
    kl, total = divergence(cmdp, old, new.policy, Geometry(1.0))
    shift = np.abs(np.einsum("sa,sa->s", new.policy, old.adv_c[0])).max()
    spent = float(old.occupancy.sum(axis=1) @ np.einsum("sa,sa->s", new.policy, old.adv_c[0]))
    left = RADIUS - (total - kl)  # δ(β), what the barrier leaves of the radius
    assert kl <= left
    bound = old.cost_return[0] + spent + np.sqrt(2 * left) * 9.0 * shift
    assert new.cost_return[0] == pytest.approx(0.18569, abs=5e-6)
    assert bound == pytest.approx(0.40987, abs=5e-6)
    assert total <= RADIUS


def test_updates_on_random_cmdps(rng: np.random.Generator) -> None:
    """β → 0 gives CPO, regions nest, and no rival inside the region gains more."""
    for _ in range(4):
        cmdp = random_cmdp(rng, 5, 3, 2)
        policy = uniform_policy(cmdp)
        gains = [
            update(cmdp, policy, 0.02, "ctrpo", Geometry(beta)).gain for beta in (4.0, 0.5, 1e-6)
        ]
        cpo, trpo = update(cmdp, policy, 0.02, "cpo"), update(cmdp, policy, 0.02, "trpo")
        assert gains == sorted(gains) and gains[-1] <= cpo.gain + 1e-7 <= trpo.gain + 2e-7
        assert gains[-1] == pytest.approx(cpo.gain, abs=1e-4)
        assert trpo.kl == pytest.approx(0.02, abs=1e-9)
        old, best = evaluate(cmdp, policy), update(cmdp, policy, 0.02)
        for _ in range(200):
            rival = policy * np.exp(0.5 * rng.normal(size=policy.shape))
            rival /= rival.sum(axis=1, keepdims=True)
            if divergence(cmdp, old, rival, Geometry())[1] <= 0.02:
                weight = old.occupancy.sum(axis=1)[:, None] * rival
                assert np.sum(weight * old.adv_r) <= best.gain + 1e-9


GEOMETRIES = (Geometry(1.0), Geometry(0.1, "log"), Geometry(0.01))
POINTS = ((0.6, 0.4), (0.3, 0.1))
DAILY = ((GEOMETRIES[0], POINTS[0]), (GEOMETRIES[1], POINTS[1]))
"""Each point once and both barriers: four million policies take seconds."""


@pytest.mark.parametrize(
    ("geometry", "point"),
    [
        pytest.param(*case, marks=[pytest.mark.full] * (case not in DAILY))
        for case in product(GEOMETRIES, POINTS)
    ],
)
def test_ideal_update_is_the_best_of_its_region(
    square: Square, geometry: Geometry, point: tuple[float, float]
) -> None:
    """No grid point gains more, and the region is used up; it lies in the safe set by itself."""
    old = evaluate(toy(), two_action_policy(*point))
    step = evaluate(toy(), ideal_update(toy(), old.policy, RADIUS, geometry))
    region = square.bregman(old, geometry) <= RADIUS
    gain = square.surrogate(old, old.adv_r)
    found = float(policy_advantage(old, old.adv_r, step.policy))
    assert gain[region].max() <= found + 1e-9 and found - gain[region].max() < 5e-4
    assert bregman_divergence(toy(), old, step, geometry) == pytest.approx(RADIUS, abs=1e-8)
    assert np.all(square.value(toy().cost[0])[region] < 0.2)
    with pytest.raises(ValueError, match="inside the safe set"):
        ideal_update(toy(), two_action_policy(0.1, 0.9), RADIUS)


def rival_cpo(cmdp: FiniteCMDP, old: ExactValues, radius: float) -> Any:
    """CPO's programme by a general solver in the probabilities themselves."""
    shape, visits = old.policy.shape, old.occupancy.sum(axis=1)[:, None]
    gain, spent = (visits * old.adv_r).reshape(-1), (visits * old.adv_c).reshape(len(old.slack), -1)
    near = lambda p: radius - mean_kl(p.reshape(shape), old.policy, visits[:, 0])
    near_slope = lambda p: -(visits * (np.log(p.reshape(shape) / old.policy) + 1.0)).reshape(-1)
    rows = np.kron(np.eye(shape[0]), np.ones(shape[1]))
    solve: Any = minimize
    return solve(
        lambda p: -gain @ p,
        old.policy.reshape(-1),
        jac=lambda p: -gain,
        bounds=[(1e-9, 1.0)] * old.policy.size,
        constraints=[
            {"type": "ineq", "fun": near, "jac": near_slope},
            {"type": "ineq", "fun": lambda p: old.slack - spent @ p, "jac": lambda p: -spent},
            {"type": "eq", "fun": lambda p: rows @ p - 1.0, "jac": lambda p: rows},
        ],
        method="SLSQP",
        options={"maxiter": 500, "ftol": 1e-13},
    )


def test_cpo_solves_its_programme_in_every_case(rng: np.random.Generator) -> None:
    """Limits kept, exceeded but within reach, out of reach; also two limits on one cost."""
    cases: list[str] = []
    for trial in range(24):
        drawn = random_cmdp(rng, 3, 3, 1 + trial % 3)
        if trial % 3 and trial < 12:
            twin = drawn.cost[0] * (1.0 + 1e-9 * (trial % 2))
            drawn = replace(drawn, cost=np.concatenate([twin[None], drawn.cost[:-1]]))
        policy = rng.dirichlet(np.full(3, 3.0), size=3)
        limit = evaluate(drawn, policy).cost_return
        cmdp = drawn.with_limit(*(limit + rng.uniform(-0.03, 0.03, size=len(limit))))
        old, step = evaluate(cmdp, policy), update(cmdp, policy, 0.02, "cpo")
        other = rival_cpo(cmdp, old, 0.02)
        assert step.kl <= 0.02 + 1e-9
        if step.recovering:
            assert not other.success and np.any(step.spent > old.slack)
        else:
            assert step.gain == pytest.approx(-other.fun, abs=1e-6)
            assert np.all(step.spent <= old.slack + 1e-9)
        violated = bool(np.any(old.slack <= 0.0))
        cases.append("recovery" if step.recovering else "reach" if violated else "safe")
    assert min(cases.count(case) for case in ("recovery", "reach", "safe")) >= 3


@pytest.mark.parametrize("method", ["cpo", "ctrpo"])
def test_the_unit_of_a_cost_changes_no_update(method: Method, rng: np.random.Generator) -> None:
    """Also in a recovery from two violated limits; the entropy barrier's β has the cost's unit."""
    for slack in (-0.2, -0.01, 0.01):
        drawn = random_cmdp(rng, 4, 3, 2)
        policy = rng.dirichlet(np.full(3, 3.0), size=4)
        margin = slack * np.array([1.0, 0.6])
        cmdp = drawn.with_limit(*(evaluate(drawn, policy).cost_return + margin))
        scale = np.array([0.01, 1.0])
        scaled = replace(
            cmdp, cost=cmdp.cost * scale[:, None, None], cost_limit=cmdp.cost_limit * scale
        )
        one = update(cmdp, policy, 0.02, method, Geometry((1.0, 1.0)))
        other = update(scaled, policy, 0.02, method, Geometry((100.0, 1.0)))
        assert one.recovering == other.recovering == (slack < (0.0 if method == "ctrpo" else -0.1))
        np.testing.assert_allclose(one.policy, other.policy, atol=1e-9)


def test_violated_limits_are_repaired() -> None:
    unsafe = two_action_policy(0.1, 0.9)
    old = evaluate(toy(), unsafe)
    assert old.slack[0] < 0.0
    for method in ("cpo", "ctrpo"):
        repaired = update(toy(), unsafe, 0.05, method)
        assert repaired.recovering
        assert repaired.spent[0] < 0.0 and repaired.kl == pytest.approx(0.05, abs=1e-9)
        assert evaluate(toy(), repaired.policy).cost_return[0] < old.cost_return[0]
    # Within reach of safety CPO spends what is left on reward; C-TRPO first leaves the unsafe side.
    close = two_action_policy(0.6, 0.46)
    cpo, ctrpo = (update(toy(), close, 0.05, method) for method in ("cpo", "ctrpo"))
    assert evaluate(toy(), close).slack[0] < 0.0 and ctrpo.recovering and not cpo.recovering
    assert cpo.spent[0] == pytest.approx(evaluate(toy(), close).slack[0], abs=1e-9)
    assert cpo.gain > 0.0 > ctrpo.gain
    with pytest.raises(ValueError, match="radius"):
        update(toy(), OLD, 0.0)
