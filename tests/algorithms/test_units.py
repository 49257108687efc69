# SPDX-License-Identifier: Apache-2.0
"""The unit of a cost is a matter of taste: cost and limit rescaled together change no step."""

import functools
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from holdfast.algorithms import (
    CPO,
    CTRPO,
    IPO,
    P3O,
    PCPO,
    SBTRPO,
    c_npg,
    cpo_hysteresis,
    ctrpo,
    npg,
)
from holdfast.core.critic import CriticFit, init_critics
from holdfast.core.first_order import FirstOrder
from holdfast.core.policies import init_gaussian
from holdfast.core.trust_region import TrustRegion
from holdfast.core.types import Batch, Learner, sampled_batch

UNIT = np.array([1.0, 0.01, 1.0])
LIMIT = np.array([25.0, 40.0, 10.0])
COSTS = {
    "all hold": [20.0, 10.0, 5.0],
    "one is near": [20.0, 39.9, 5.0],
    "one is violated": [20.0, 55.0, 5.0],
    "two are violated": [27.0, 55.0, 5.0],
    "all are violated": [27.0, 55.0, 12.0],
}
FIT = CriticFit(critic_passes=1)
SHORT = FirstOrder(passes=2, minibatch=30)


@pytest.fixture(autouse=True)
def double():
    with jax.enable_x64(True), jax.numpy_dtype_promotion("standard"):
        yield


def make_batch(cost: list[float]) -> Batch:
    keys = jax.random.split(jax.random.key(0), 5)
    adv_c = jax.random.normal(keys[3], (60, 3))
    batch = sampled_batch(
        jax.random.normal(keys[0], (60, 3)),
        jax.random.normal(keys[1], (60, 2)),
        jax.random.normal(keys[2], (60,)),
        adv_c - adv_c.mean(0),
        cost_return=jnp.asarray(cost),
        cost_limit=jnp.asarray(LIMIT),
        cost_error=jnp.asarray(0.02 * LIMIT),
        target=jax.random.normal(keys[4], (60, 4)),
    )
    return replace(batch, horizon=jnp.asarray(10.0), length=jnp.asarray(20.0))


def rescaled(batch: Batch) -> Batch:
    """One cost in other units; the critics' targets are no matter of the policy."""
    scaled = {n: getattr(batch, n) * UNIT for n in ("adv_c", "cost_return", "cost_limit")}
    return replace(batch, cost_error=batch.cost_error * UNIT, **scaled)


@functools.cache
def compiled(algorithm: Any) -> tuple[Any, Learner]:
    policy = init_gaussian(jax.random.key(3), 3, 2, (6,), jnp.float64)
    wide = lambda x: x.astype(jnp.float64) if x.dtype == jnp.float32 else x
    critics = jax.tree.map(wide, init_critics(jax.random.key(4), 3, 3, (2,)))
    extra = jax.tree.map(wide, algorithm.init(3, policy))
    return jax.jit(algorithm.improve), Learner(policy, critics, extra)


def step(algorithm: Any, batch: Batch) -> np.ndarray:
    improve, learner = compiled(algorithm)
    after = improve(learner, batch, jax.random.key(5))
    return np.asarray(ravel_pytree(after.policy)[0] - ravel_pytree(learner.policy)[0])


def difference(algorithm: Any, cost: str, other: Any = None) -> float:
    """Of the step in other units (by `other`), relative to the step itself."""
    batch = make_batch(COSTS[cost])
    first, second = step(algorithm, batch), step(other or algorithm, rescaled(batch))
    return float(np.abs(second - first).max() / max(np.abs(first).max(), 1e-12))


FREE = {
    "c-trpo": CTRPO(barrier="log", margin_confidence=1.0, critic=FIT),
    "c-trpo no hysteresis": CTRPO(barrier="log", hysteresis=1.0, critic=FIT),
    "c-npg": replace(c_npg(), barrier="log", critic=FIT),
    "cpo": CPO(critic=FIT),
    "cpo episode": CPO(cost_scale="episode", critic=FIT),
    "cpo-hysteresis": replace(cpo_hysteresis(), critic=FIT),
    "pcpo": PCPO(critic=FIT, reward_direction="natural", cost_scale="episode"),
    "pcpo l2": PCPO(critic=FIT, projection="l2"),
    "sb-trpo": SBTRPO(critic=FIT),
}


@pytest.mark.parametrize("cost", COSTS)
@pytest.mark.parametrize("name", FREE)
def test_a_cost_in_other_units_changes_nothing(name: str, cost: str) -> None:
    assert difference(FREE[name], cost) < 1e-6


def test_some_steps_are_taken_in_every_state() -> None:
    """Otherwise the above would compare nothing with nothing."""
    for name in ("c-trpo", "cpo episode"):
        for cost in COSTS:
            assert np.abs(step(FREE[name], make_batch(COSTS[cost]))).max() > 1e-4, (name, cost)


def test_weights_without_the_limit_would_depend_on_the_unit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Negative control: shares that multiply A_i instead of A_i / b_i."""

    def shares(violated: jax.Array, excess: jax.Array, limit: jax.Array) -> jax.Array:
        share = jnp.where(violated, excess / limit, 0.0)
        return share / share.sum()

    monkeypatch.setattr(ctrpo, "recovery_weights", shares)
    wrong = CTRPO(barrier="log", critic=CriticFit(critic_passes=1, critic_minibatch=64))
    assert difference(wrong, "two are violated") > 0.1


def test_the_entropy_barrier_is_rescaled_with_its_beta() -> None:
    """C22: its β has the unit 1 / cost. One value for all costs is therefore a choice of units."""
    entropy = CTRPO(barrier="entropy", cost_scale="discount", margin_confidence=0.0, critic=FIT)
    assert difference(entropy, "one is near") > 0.01
    weighed = replace(entropy, beta=(1.0, 100.0, 1.0))
    assert difference(entropy, "one is near", weighed) < 1e-6
    assert difference(entropy, "two are violated") < 0.05  # the barrier that stays up is the third


@pytest.mark.parametrize("cost", ["all hold", "one is near"])
def test_ipo_inside_its_limits(cost: str) -> None:
    """Its barrier's slope is A_i / (b_i − J_i), without a unit."""
    assert difference(IPO(loop=SHORT), cost) < 1e-6


@pytest.mark.parametrize("cost", ["two are violated", "all are violated"])
def test_ipo_outside_its_limits(cost: str) -> None:
    """The mixture of costs is the same; Adam hardly sees the size of the loss."""
    assert difference(IPO(loop=SHORT), cost) < 1e-3


def test_penalties_and_prices_have_units() -> None:
    """P3O's κ is a price per unit of cost: rescaling a cost is rescaling its price."""
    assert difference(P3O(loop=SHORT), "all are violated") > 1e-3


@pytest.mark.parametrize("name", ["c-trpo", "cpo episode", "pcpo"])
def test_one_cost_in_tiny_units(name: str) -> None:
    """A single cost of 1e-6 of the usual size: no absolute threshold may take it for nothing."""
    batch = make_batch(COSTS["all are violated"])
    one = lambda b, k: replace(
        b, **{n: getattr(b, n) * k for n in ("adv_c", "cost_return", "cost_limit", "cost_error")}
    )
    first, second = step(FREE[name], batch), step(FREE[name], one(batch, 1e-6))
    np.testing.assert_allclose(second, first, rtol=1e-5, atol=1e-9)


def test_bracketing_is_honoured_by_tests_of_ones_own() -> None:
    """CPO and PCPO accept by rules of their own; the longest such step is searched for."""
    for make in (CPO, functools.partial(PCPO, reward_direction="natural")):
        length = {}
        for search in ("backtrack", "bracket"):
            algorithm = make(critic=FIT, region=TrustRegion(search=search, damping=10.0))
            length[search] = np.linalg.norm(step(algorithm, make_batch(COSTS["all hold"])))
        assert length["bracket"] > 1.5 * length["backtrack"]


@pytest.mark.parametrize("make", [c_npg, npg])
def test_bracketing_is_refused_where_nothing_is_searched(make: Any) -> None:
    algorithm = make()
    with pytest.raises(ValueError, match="line_search=False"):
        replace(algorithm, region=replace(algorithm.region, search="bracket"))


TWICE = {
    "c-trpo": lambda beta: CTRPO(beta=beta, barrier="log", critic=FIT),
    "cpo": lambda beta: CPO(cost_scale="episode", critic=FIT),
    "pcpo": lambda beta: PCPO(cost_scale="episode", reward_direction="natural", critic=FIT),
}


@functools.cache
def twice(name: str, n: int) -> tuple[Any, Learner]:
    algorithm = TWICE[name](1.0 if n == 1 else (0.5, 0.5))
    policy = init_gaussian(jax.random.key(3), 3, 2, (6,))
    critics = init_critics(jax.random.key(4), 3, n, (2,))
    return jax.jit(algorithm.improve), Learner(policy, critics, algorithm.init(n, policy))


@pytest.mark.parametrize("apart", [0.0, 1e-7, 1e-5])
@pytest.mark.parametrize("over", [-5.0, -1e-3, 1e-3, 5.0])
@pytest.mark.parametrize("name", TWICE)
def test_a_cost_that_is_given_twice_is_one_cost(name: str, over: float, apart: float) -> None:
    """In single precision, near the limit and beyond it: the step is that of one constraint."""
    with jax.enable_x64(False):
        whole = make_batch(COSTS["all hold"])
        noise = apart * jax.random.normal(jax.random.key(9), (60, 1))
        steps = []
        for n in (1, 2):
            batch = replace(
                whole,
                adv_c=jnp.concatenate([whole.adv_c[:, :1], whole.adv_c[:, :1] + noise], 1)[:, :n],
                cost_return=jnp.full(n, 25.0 + over),
                cost_limit=jnp.full(n, 25.0),
                cost_error=jnp.zeros(n),
                target=whole.target[:, : 1 + n],
            )
            improve, learner = twice(name, n)
            after = improve(learner, batch, jax.random.key(5))
            assert int(after.metrics["status"]) == 0, n  # it does not stand still
            before = ravel_pytree(learner.policy)[0]
            steps.append(np.asarray(ravel_pytree(after.policy)[0] - before))
        np.testing.assert_allclose(steps[1], steps[0], atol=0.01 * np.abs(steps[0]).max())
