# SPDX-License-Identifier: Apache-2.0
"""Surprise: its closed form, no effect where predictions come true, and what it prevents."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from holdfast.algorithms import CTRPO
from holdfast.core.critic import init_critics
from holdfast.core.surprise import PRIOR, SHORTEST, Surprise
from holdfast.core.types import Learner
from holdfast.exact import exact_run, without_damping
from holdfast.tabular.batch import exact_batch, probabilities, tabular_policy
from holdfast.tabular.cmdp import FiniteCMDP, toy, two_action_policy
from holdfast.tabular.occupancy import evaluate

MEMORY = 8.0


def follow(steps: list[tuple[float, float, float]], last: float) -> Surprise:
    """After steps (cost before, predicted change, length) and a last measured cost."""
    surprise = Surprise.create(1)
    for cost, spent, length in steps:
        surprise = surprise.measured(jnp.array([cost]), MEMORY)
        surprise = surprise.taken(jnp.array([spent]), jnp.array(length))
    return surprise.measured(jnp.array([last]), MEMORY)


def test_the_rise_is_its_closed_form():
    steps = [(10.0, 1.0, 1.0), (16.0, 0.5, 0.5), (20.0, -3.0, 0.0), (12.0, 0.0, 0.8)]
    costs = [cost for cost, _, _ in steps[1:]] + [18.0]
    pairs = [(s, after - before - p) for (before, p, s), after in zip(steps, costs, strict=True)]
    counted = [(s, r) for s, r in pairs if s > 0]  # a recovery neither counts nor ages the rest
    weight = (1 - 1 / MEMORY) ** np.arange(len(counted))[::-1]
    s, r = np.array(counted).T
    wanted = (weight * s * r).sum() / ((weight * s * s).sum() + PRIOR)
    np.testing.assert_allclose(follow(steps, 18.0).rise(), [wanted], rtol=1e-6)


def test_the_next_step_is_what_every_slack_bears():
    surprise = replace(Surprise.create(2), cross=jnp.array([10.0, 30.0]), square=jnp.array(0.75))
    np.testing.assert_allclose(surprise.rise(), [10.0, 30.0])
    np.testing.assert_allclose(surprise.reach(jnp.array([8.0, 12.0])), 0.4)
    np.testing.assert_allclose(surprise.reach(jnp.array([2.0, 12.0])), 0.2)
    np.testing.assert_allclose(surprise.reach(jnp.array([50.0, 50.0])), 1.0)
    np.testing.assert_allclose(surprise.reach(jnp.array([1e-3, 50.0])), SHORTEST)


def test_a_cost_that_falls_by_itself_lengthens_nothing():
    assert float(follow([(20.0, 0.0, 1.0)], 5.0).rise()[0]) == 0.0
    assert float(follow([(20.0, 0.0, 1.0)], 5.0).reach(jnp.array([1e-6]))) == 1.0


def one_state() -> FiniteCMDP:
    """Costs and rewards of actions alone: a linear prediction of J is exact."""
    return FiniteCMDP(
        transition=np.ones((1, 3, 1)),
        reward=np.array([[1.0, 0.5, 0.0]]),
        cost=np.array([[[1.0, 0.2, 0.1]]]),
        cost_limit=np.array([0.4]),
        initial=np.ones(1),
        gamma=0.9,
    )


@pytest.mark.parametrize("cmdp", [one_state(), toy()], ids=["one state", "toy"])
@pytest.mark.parametrize(("radius", "updates"), [(1e-2, 50), (1e-3, 150)])
def test_without_surprises_it_is_c_trpo_to_the_last_digit(cmdp, radius, updates):
    start = two_action_policy(0.3, 0.1) if cmdp.num_states > 1 else np.array([[0.1, 0.3, 0.6]])
    plain, ours = (
        exact_run(without_damping(CTRPO(surprise_memory=memory), radius), cmdp, start, updates)
        for memory in (0.0, MEMORY)
    )
    np.testing.assert_array_equal(ours.policy, plain.policy)
    assert plain.cost_return.max() > 0.85 * cmdp.cost_limit[0]  # where a bound would show


def regret(memory: float, seen: float) -> float:
    """Of exact updates that see only the part `seen` of what a step does to the cost."""
    cmdp, pi = toy(), two_action_policy(0.3, 0.1)
    algorithm = without_damping(CTRPO(surprise_memory=memory, hysteresis=1.0), 0.02)
    critics = init_critics(jax.random.key(0), 2, 1, (1,))
    learner = Learner(tabular_policy(pi), critics, algorithm.init(1))
    improve, over = jax.jit(algorithm.improve), 0.0
    for _ in range(60):
        batch = exact_batch(cmdp, pi)
        batch = replace(batch, adv_c=seen * batch.adv_c)
        learner = learner.improved(improve(learner, batch, jax.random.key(0)))
        pi = probabilities(learner.policy, 2)
        over += max(0.0, float(-evaluate(cmdp, pi).slack[0]))
    return over


def test_it_holds_a_limit_that_blind_predictions_cross(float64):
    assert regret(0.0, seen=1.0) == regret(MEMORY, seen=1.0) == 0.0
    blind = regret(0.0, seen=0.01)
    assert blind > 0.05
    assert regret(MEMORY, seen=0.01) < 0.5 * blind


def test_a_memory_below_one_step_is_refused():
    with pytest.raises(ValueError, match=r"surprise_memory=0\.5 must be at least 1 step"):
        CTRPO(surprise_memory=0.5)
