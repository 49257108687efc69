# SPDX-License-Identifier: Apache-2.0
"""C-NPG: metric, direction, flow, mirror path and limit (C10, C11, C15-C18, C20, C22, C27)."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from holdfast.core.barrier import BARRIERS
from holdfast.tabular.cmdp import FiniteCMDP, Floats, implicit_bias, toy, two_action_policy
from holdfast.tabular.flow import Geometry, ascend, direction, flow
from holdfast.tabular.instances import random_cmdp, uniform_policy
from holdfast.tabular.lp import optimum
from holdfast.tabular.mirror import bregman_projection, mirror_path, optimal_actions, reduced_cost
from holdfast.tabular.occupancy import constrained_gramian, evaluate, gradient
from holdfast.tabular.potentials import POTENTIALS
from holdfast.tabular.trust import bregman_divergence

START = two_action_policy(0.3, 0.1)
ENTROPY, LOG, SOFT_LOG = Geometry(1.0), Geometry(1.0, "log"), Geometry(0.01, "log")


def jax_parts(cmdp: FiniteCMDP, theta: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """(π, d, V_c) as JAX functions of the logits: independent of what is tested."""
    policy = jax.nn.softmax(theta.reshape(cmdp.reward.shape))
    moves = jnp.einsum("sa,sat->st", policy, cmdp.transition)
    system = jnp.eye(cmdp.num_states) - cmdp.gamma * moves.T
    visits = jnp.linalg.solve(system, (1 - cmdp.gamma) * jnp.asarray(cmdp.initial))
    d = visits[:, None] * policy
    return policy, d, jnp.einsum("ksa,sa->k", jnp.asarray(cmdp.cost), d)


@pytest.mark.parametrize("name", ["entropy", "log"])
def test_c10_three_divergences_share_one_hessian(rng: np.random.Generator, name: str) -> None:
    with jax.enable_x64(True):
        cmdp = random_cmdp(rng, 3, 3, 2)
        pi = rng.dirichlet(np.full(3, 5.0), size=3)
        cmdp = replace(cmdp, cost_limit=evaluate(cmdp, pi).cost_return + np.array([0.05, 0.1]))
        old, theta = evaluate(cmdp, pi), np.log(pi).reshape(-1)
        beta, barrier = jnp.array([0.7, 1.9]), BARRIERS[name]
        limit, visits = jnp.asarray(cmdp.cost_limit), jnp.asarray(old.occupancy.sum(axis=1))

        def kl(p: jax.Array, q: jax.Array, weight: jax.Array) -> jax.Array:
            return jnp.sum(weight[:, None] * p * (jnp.log(p) - jnp.log(q)))

        def surrogate(th: jax.Array) -> jax.Array:
            policy, _, _ = jax_parts(cmdp, th)
            spent = jnp.einsum("s,ksa,sa->k", visits, jnp.asarray(old.adv_c), policy)
            slack = jnp.asarray(old.slack)
            return kl(policy, jnp.asarray(pi), visits) + beta @ barrier.divergence(slack, spent)

        def exact(first: jax.Array, second: jax.Array) -> jax.Array:
            (p, d, cost), (q, _, other) = jax_parts(cmdp, first), jax_parts(cmdp, second)
            price = barrier.divergence(limit - other, cost - other)
            return kl(p, q, d.sum(axis=1)) + beta @ price

        weight = np.asarray(beta) * POTENTIALS[name].curvature(old.slack)
        expected = constrained_gramian(cmdp, pi, weight)
        for divergence in (surrogate, lambda th: exact(th, theta), lambda th: exact(theta, th)):
            np.testing.assert_allclose(
                jax.jit(jax.hessian(divergence))(theta), expected, atol=1e-10
            )
        other = np.random.default_rng(1).dirichlet(np.full(3, 50.0), size=3)
        geometry = Geometry((0.7, 1.9), name)
        value = bregman_divergence(cmdp, evaluate(cmdp, other), old, geometry)
        found = jax.jit(exact)(np.log(other).reshape(-1), theta)
        assert value == pytest.approx(float(found), abs=1e-12)


@pytest.mark.parametrize(
    ("point", "rates"),
    [
        ((0.3, 0.1), (0.083337, 0.0640547, 0.0260202)),
        ((0.6, 0.4), (0.232945, 0.0117001, 0.000104909)),
    ],
)
def test_c11_cost_rates(point: tuple[float, float], rates: tuple[float, float, float]) -> None:
    found = evaluate(toy(), two_action_policy(*point))
    normal = gradient(toy(), found.policy, toy().cost[0])
    for geometry, rate in zip((Geometry(0.0), ENTROPY, LOG), rates, strict=True):
        assert np.sum(normal * direction(toy(), found, geometry)) == pytest.approx(rate, rel=1e-5)


@pytest.mark.parametrize("name", ["entropy", "log"])
def test_c20_rank_formula_is_the_dense_solve(rng: np.random.Generator, name: str) -> None:
    for _ in range(10):
        cmdp = random_cmdp(rng, 4, 3, 2)
        found = evaluate(cmdp, uniform_policy(cmdp))
        weight = np.array([0.3, 2.0]) * POTENTIALS[name].curvature(found.slack)
        metric = constrained_gramian(cmdp, found.policy, weight)
        grad = gradient(cmdp, found.policy, cmdp.reward).reshape(-1)
        dense = np.linalg.pinv(metric, rcond=1e-12) @ grad
        x = direction(cmdp, found, Geometry((0.3, 2.0), name)).reshape(-1)
        np.testing.assert_allclose(x, dense, atol=1e-8)
        # A constraint written twice with half the weight each is the constraint written once.
        once = replace(cmdp, cost=cmdp.cost[:1], cost_limit=cmdp.cost_limit[:1])
        twice = replace(cmdp, cost=cmdp.cost[[0, 0]], cost_limit=cmdp.cost_limit[[0, 0]])
        single = direction(once, evaluate(once, found.policy), Geometry(1.0, name))
        halves = direction(twice, evaluate(twice, found.policy), Geometry((0.5, 0.5), name))
        np.testing.assert_allclose(single, halves, atol=1e-8)


def test_c22_scaling_of_the_cost() -> None:
    scaled = replace(toy(2.0), cost=10.0 * toy().cost)
    at = lambda cmdp, geometry: direction(cmdp, evaluate(cmdp, START), geometry)
    np.testing.assert_allclose(at(scaled, LOG), at(toy(), LOG), atol=1e-10)
    np.testing.assert_allclose(at(scaled, ENTROPY), at(toy(), Geometry(10.0)), atol=1e-10)


CASES = [
    (ENTROPY, [0.5, 2, 5], [(0.418172, 0.176429), (0.792953, 0.440269), (0.992581, 0.884106)]),
    (SOFT_LOG, [0.5, 2, 5], [(0.417588, 0.220077), (0.785815, 0.483969), (0.992640, 0.882993)]),
    (LOG, [5], [(0.997463, 0.560073)]),
]


@pytest.mark.parametrize(("geometry", "times", "points"), CASES)
def test_c15_c16_c17_mirror_path_is_the_flow(
    geometry: Geometry, times: list[float], points: list[tuple[float, float]]
) -> None:
    exact = mirror_path(toy(), START, times, geometry)
    np.testing.assert_allclose(exact.policy[:, :, 0], points, atol=5e-7)
    fine = np.unique(np.concatenate([np.linspace(0.0, 5.0, 41), times]))
    path = flow(toy(), START, fine, geometry)
    at = np.searchsorted(fine, times)
    np.testing.assert_allclose(path.policy[at], exact.policy, atol=1e-8)
    assert np.all(path.cost_return < 0.2)
    assert np.all(np.diff(path.reward_return) > 0.0)


def test_c15_costs() -> None:
    found = mirror_path(toy(), START, [0.5, 2, 5], ENTROPY).cost_return[:, 0]
    np.testing.assert_allclose(found, [0.098716, 0.175029, 0.198643], atol=5e-7)


def test_mirror_path_of_several_constraints(rng: np.random.Generator) -> None:
    cmdp = random_cmdp(rng, 5, 3, 3)
    for geometry in (Geometry((1.0, 0.5, 2.0)), Geometry(0.2, "log"), Geometry(0.0)):
        path = flow(cmdp, uniform_policy(cmdp), [1.0, 4.0, 12.0], geometry)
        exact = mirror_path(cmdp, uniform_policy(cmdp), [1.0, 4.0, 12.0], geometry)
        np.testing.assert_allclose(path.policy, exact.policy, atol=1e-6)


@pytest.mark.parametrize(
    ("geometry", "share"),
    [
        (Geometry(0.0), 0.5),
        (Geometry(1.0), 0.400709),
        (Geometry(5.0), 0.203688),
        (Geometry(1.0, "log"), 0.324046),
    ],
)
def test_c18_implicit_bias(geometry: Geometry, share: float) -> None:
    cmdp = implicit_bias()
    limit = bregman_projection(cmdp, uniform_policy(cmdp), geometry)
    assert limit.policy[1, 0] == pytest.approx(share, abs=5e-7)
    assert limit.policy[0, 1] == pytest.approx(1.0, abs=1e-12)
    assert limit.reward_return == pytest.approx(1.84, abs=1e-9)
    late = mirror_path(cmdp, uniform_policy(cmdp), [200.0], geometry)
    np.testing.assert_allclose(late.policy[0], limit.policy, atol=1e-7)


def test_projection_when_every_optimum_is_active(rng: np.random.Generator) -> None:
    """All optima touch the limit: the log term drops out, and the flow's limit is still reached."""
    twin = replace(implicit_bias(0.2), cost=np.array([[[0.1, 0.0, 0.1], [1.0, 0.01, 1.0]]]))
    for geometry in (ENTROPY, Geometry(0.05, "log")):
        start = rng.dirichlet(np.ones(3), size=2)
        start = 0.3 * start + 0.7 * np.array([[0.05, 0.9, 0.05], [0.01, 0.98, 0.01]])
        limit = bregman_projection(twin, start, geometry)
        best = optimum(twin)
        assert limit.reward_return == pytest.approx(best.reward_return, abs=1e-8)
        assert limit.slack[0] == pytest.approx(0.0, abs=1e-9)
        assert np.all(reduced_cost(twin, best) > -1e-9)
        assert np.all(limit.policy[~optimal_actions(twin, best)] < 1e-12)
        late = mirror_path(twin, start, [2000.0], geometry)
        np.testing.assert_allclose(late.policy[0], limit.policy, atol=2e-3)


def linearised(cmdp: FiniteCMDP, policy: Floats, geometry: Geometry) -> tuple[float, float, float]:
    found = evaluate(cmdp, policy)
    rate = float(np.sum(found.occupancy * found.adv_c[0] * found.adv_r))
    spread = float(np.sum(found.occupancy * found.adv_c[0] ** 2))
    return rate, spread, float(found.slack[0])


@pytest.mark.parametrize("beta", [0.01, 1.0])
def test_c27_euler_positivity(beta: float) -> None:
    policy = two_action_policy(0.6, 0.4)
    thresholds = {
        "entropy": lambda rate, spread, y: (y + beta * spread) / rate,
        "log": lambda rate, spread, y: (y**2 + beta * spread) / (rate * y),
    }
    for name, threshold in thresholds.items():
        geometry = Geometry(beta, name)
        rate, spread, slack = linearised(toy(), policy, geometry)
        found = evaluate(toy(), policy)
        fall = np.sum(gradient(toy(), policy, toy().cost[0]) * direction(toy(), found, geometry))
        limit = threshold(rate, spread, slack)
        assert slack - 0.999 * limit * fall > 0.0 > slack - 1.001 * limit * fall


def test_step_rules_on_the_toy() -> None:
    """`normalised` overshoots as published; `safe` never crosses and reaches the optimum."""
    crossing = ascend(toy(), START, Geometry(0.01), "normalised", steps=2_000)
    assert "crossed" in crossing.stopped and 80 <= len(crossing.time) <= 500
    assert 0.43 < crossing.reward_return[-1] < 1.07
    free = ascend(toy(), START, Geometry(0.0), "normalised", steps=4_000)
    assert free.reward_return[-1] > 1.8
    best = optimum(toy()).reward_return
    # The log barrier's slack falls like β/(λt), so the gap at the same step grows with β.
    for beta, gap in ((0.01, 1e-3), (0.1, 1e-2), (1.0, 5e-2)):
        safe = ascend(toy(), START, Geometry(beta, "log"), "safe", steps=2_500)
        assert np.all(safe.cost_return < 0.2)
        assert 0.0 < best - safe.reward_return[-1] < gap


def test_d32_parity_uses_the_gradient_of_the_log_occupancy() -> None:
    found = evaluate(toy(), START)
    parity = direction(toy(), found, Geometry(1.0, log_occupancy=True))
    normal = gradient(toy(), START, toy().cost[0] / found.occupancy).reshape(-1)
    metric = constrained_gramian(toy(), START, 0.0)
    metric = metric + np.outer(normal, normal) / found.slack[0]
    grad = gradient(toy(), START, toy().reward).reshape(-1)
    dense = np.linalg.pinv(metric, rcond=1e-12) @ grad
    np.testing.assert_allclose(parity.reshape(-1), dense, atol=1e-10)


def test_starts_are_checked() -> None:
    with pytest.raises(ValueError, match="start inside the safe set"):
        ascend(toy(), two_action_policy(0.1, 0.9))
    with pytest.raises(ValueError, match="uniform policy"):
        flow(toy(), two_action_policy(0.0, 0.1), [1.0])
    with pytest.raises(ValueError, match="unknown barrier"):
        Geometry(barrier="square")
    with pytest.raises(ValueError, match="one for each"):
        ascend(toy(), START, Geometry((1.0, 2.0)))


def test_a_flow_that_rounding_stops_is_refused() -> None:
    """With a small β the slack of x log x decays to e^(−t/β); at 1e-16 it is rounding."""
    with pytest.raises(ValueError, match=r"up to times\[0\]=5: a slack became as small as"):
        flow(toy(), START, [5.0], Geometry(0.01), tolerance=1e-9)
    assert flow(toy(), START, [0.1], Geometry(0.01)).cost_return[-1, 0] < 0.2
