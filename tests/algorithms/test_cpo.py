# SPDX-License-Identifier: Apache-2.0
"""CPO's table, hysteresis and accept test; PCPO's one step; on plain numbers."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from holdfast.algorithms import CPO, PCPO, cpo_hysteresis
from holdfast.core.critic import init_critics
from holdfast.core.move import Trial
from holdfast.core.policies import Categorical
from holdfast.core.trust_region import TrustRegion
from holdfast.core.types import Batch, Learner, sampled_batch
from holdfast.exact import enumerated, tabular_policy
from holdfast.tabular.cmdp import toy, two_action_policy
from holdfast.tabular.occupancy import evaluate

EXACT = TrustRegion(radius=0.05, damping=0.0, solver="dense", kl_average=False)


def numbers(cost: float, limit: float = 25.0) -> Batch:
    zero = jnp.zeros((2, 1))
    estimate = {"cost_return": jnp.array([cost]), "cost_limit": jnp.array([limit])}
    return sampled_batch(zero, zero, zero[:, 0], zero, **estimate)


def plan(algorithm: CPO, cost: float, was: bool = False, slope: float = 1.0) -> Any:
    """The plan for H = I, g = (1, 0), a = slope · (0.6, 0.8): s = slope², reach √(2δ)·slope."""
    x, rows = jnp.array([1.0, 0.0]), slope * jnp.array([[0.6, 0.8]])
    flat = jnp.array([slope**2 <= 1e-6])
    return algorithm.plan(
        jnp.ones(()), rows @ rows.T, rows @ x, flat, numbers(cost), jnp.asarray(was)
    )


@pytest.mark.parametrize(
    ("cost", "slope", "case"),
    [
        (20.0, 1e-4, 4),
        (20.0, 1.0, 3),
        (24.9, 1.0, 2),
        (25.0, 1.0, 1),
        (25.1, 1.0, 1),
        (26.0, 1.0, 0),
    ],
)
def test_case_table(cost: float, slope: float, case: int) -> None:
    """√(2δ) = 0.141: limits within that of the cost are in reach."""
    assert int(plan(CPO(), cost, slope=slope)[2]) == case


def test_steps_of_the_cases() -> None:
    reach = np.sqrt(0.02)
    t, mu, _ = plan(CPO(), 20.0)
    assert (float(t), float(mu[0])) == pytest.approx((reach, 0.0), rel=1e-4)
    t, mu, _ = plan(CPO(), 26.0)
    assert (float(t), float(mu[0])) == pytest.approx((0.0, reach), rel=1e-4)
    t, mu, _ = plan(CPO(), 25.1)
    step = float(t) * np.array([1.0, 0.0]) - float(mu[0]) * np.array([0.6, 0.8])
    assert step @ [0.6, 0.8] == pytest.approx(-0.1, rel=1e-3)  # exactly back to the limit
    assert step @ step == pytest.approx(0.02, rel=1e-3)  # and the region is used up


def test_hysteresis() -> None:
    """After case 0 the cost must fall below 20 = 0.8 · 25; otherwise the table applies."""
    algorithm = cpo_hysteresis()
    cases = lambda was: [int(plan(algorithm, c, was)[2]) for c in (19.9, 20.1, 24.9, 25.05, 26.0)]
    assert cases(False) == [3, 3, 2, 1, 0]
    assert cases(True) == [3, 0, 0, 0, 0]
    assert [int(plan(CPO(), c, True)[2]) for c in (24.9, 25.05)] == [2, 1]  # off: no memory


def trial(gain: float, spent: float, kl: float = 0.005) -> Trial:
    return Trial(jnp.asarray(gain), jnp.asarray(kl), jnp.array([spent]), jnp.asarray(kl))


def test_accept_by_case() -> None:
    batch = numbers(20.0)
    inside = CPO().accept(jnp.asarray(3), jnp.array([-5.0]), batch)
    assert bool(inside(trial(0.1, 4.9))) and not bool(inside(trial(0.1, 5.1)))
    assert not bool(inside(trial(-0.1, 0.0))) and not bool(inside(trial(0.1, 0.0, kl=0.02)))
    assert not bool(inside(trial(0.1, 0.0, kl=float("nan"))))
    outside = CPO().accept(jnp.asarray(0), jnp.array([5.0]), numbers(30.0))
    assert bool(outside(trial(-0.1, -0.1))) and not bool(outside(trial(0.1, 0.1)))


def toy_learner(algorithm: Any) -> tuple[Any, Batch, Learner]:
    cmdp = toy()
    probs = two_action_policy(0.6, 0.4)
    policy = tabular_policy(probs)
    critics = jax.tree.map(
        lambda x: x.astype(jnp.float64) if x.dtype == jnp.float32 else x,
        init_critics(jax.random.key(0), 2, 1, ()),
    )
    batch = enumerated(cmdp, evaluate(cmdp, probs))
    return cmdp, batch, Learner(policy, critics, algorithm.init(1, policy))


def test_c13_on_the_toy(float64: None) -> None:
    """One exact CPO step at (0.6, 0.4), δ = 0.05: near the grid optimum, within the limit."""
    algorithm = CPO(region=EXACT)
    _, batch, learner = toy_learner(algorithm)
    after = jax.jit(algorithm.improve)(learner, batch, jax.random.key(0))
    metrics = after.metrics
    assert int(metrics["case"]) == 2 and int(metrics["status"]) == 0
    assert float(after.spent[0]) <= 0.00852 + 1e-9
    assert 0.08 < float(metrics["gain"]) <= 0.14663 + 1e-4  # the exact optimum in the curved region
    assert isinstance(after.policy, Categorical)
    assert float(metrics["kl"]) <= 0.05


def test_pcpo_natural_step_and_its_projection(float64: None) -> None:
    """The candidate before the search, against the projection solved by hand."""
    algorithm = PCPO(region=EXACT, reward_direction="natural")
    gram, excess, flat = jnp.array([[0.16]]), jnp.array([0.08]), jnp.array([True])
    assert float(algorithm.correction(gram, excess, ~flat)[0]) == pytest.approx(0.5)
    assert float(algorithm.correction(gram, -excess, ~flat)[0]) == 0.0
    assert float(algorithm.correction(jnp.zeros((1, 1)), excess, flat)[0]) == 0.0


def test_pcpo_beyond_repair(float64: None) -> None:
    """Without a cost gradient: TRPO's step while the cost holds, none once it does not."""
    algorithm = PCPO(region=EXACT, reward_direction="natural")
    _, batch, learner = toy_learner(algorithm)
    flat = replace(batch, adv_c=jnp.zeros_like(batch.adv_c))
    improve = jax.jit(algorithm.improve)
    free = improve(learner, flat, jax.random.key(0)).metrics
    assert int(free["status"]) == 0 and float(free["gain"]) > 0 and not bool(free["projected"])
    over = replace(flat, cost_return=batch.cost_limit + 0.1)
    after = improve(learner, over, jax.random.key(0))
    assert int(after.metrics["status"]) == 2
    assert jax.tree.all(
        jax.tree.map(lambda a, b: bool((a == b).all()), after.policy, learner.policy)
    )


@pytest.mark.parametrize("projection", ["kl", "l2"])
@pytest.mark.parametrize("direction", ["gradient", "natural"])
def test_pcpo_stays_within_the_linearised_limit(
    float64: None, projection: Any, direction: Any
) -> None:
    algorithm = PCPO(region=EXACT, projection=projection, reward_direction=direction)
    _, batch, learner = toy_learner(algorithm)
    after = jax.jit(algorithm.improve)(learner, batch, jax.random.key(0))
    metrics = after.metrics
    assert float(after.spent[0]) <= 0.00852 + 1e-9 and float(metrics["kl"]) <= 0.05
    assert int(metrics["status"]) == 0
    # A step along g corrected for one along H⁻¹g, as published, may even lose reward (D22).
    assert direction == "gradient" or float(metrics["gain"]) > 0
