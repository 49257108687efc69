# SPDX-License-Identifier: Apache-2.0
"""SB-TRPO on enumerated CMDPs: μ in closed form, its promise, and where it ends.

In the metric of the KL let cos be the cosine of the reward's and the cost's gradient and R the best
descent. Then a·Δ_r = R cos and a·Δ_c = −R, so the smallest μ that leaves `allowed` is
(R cos − allowed) / (R cos + R), with allowed = −β R above the limit.
"""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from holdfast.algorithms import SBTRPO, TRPO
from holdfast.algorithms.sb_trpo import mixture
from holdfast.core.critic import CriticFit
from holdfast.core.types import Learner
from holdfast.exact import exact_batch, exact_run, tabular_policy, without_damping
from holdfast.tabular.cmdp import toy, two_action_policy
from holdfast.tabular.instances import random_cmdp, uniform_policy
from holdfast.tabular.lp import optimum
from holdfast.tabular.occupancy import evaluate

RADIUS = 1e-8
FIT = CriticFit(critic_passes=1)
UNSAFE = two_action_policy(0.5, 0.9)


def by_hand(cmdp):
    """(cosine, best descent) at the uniform policy, from the score functions."""
    found, pi = evaluate(cmdp, uniform_policy(cmdp)), uniform_policy(cmdp)
    states, actions = pi.shape
    score = np.zeros((states, actions, states * actions))
    for s in range(states):
        for a in range(actions):
            score[s, a].reshape(states, actions)[s] = np.eye(actions)[a] - pi[s]
    d = found.occupancy
    fisher = np.einsum("sa,sap,saq->pq", d, score, score)
    slope = lambda adv: np.linalg.pinv(fisher) @ np.einsum("sa,sa,sap->p", d, adv, score)
    x, p = slope(found.adv_r), slope(found.adv_c[0])
    dot = lambda u, v: u @ fisher @ v
    return dot(x, p) / np.sqrt(dot(x, x) * dot(p, p)), np.sqrt(2 * RADIUS * dot(p, p))


def update(algorithm, cmdp):
    pi = uniform_policy(cmdp)
    policy = tabular_policy(pi)
    algorithm = replace(without_damping(algorithm, RADIUS), critic=FIT)
    learner = Learner(policy, None, algorithm.init(1, policy))
    return jax.jit(algorithm.improve)(learner, exact_batch(cmdp, pi), jax.random.key(0))


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("bias", [0.3, 0.75, 1.0])
def test_above_the_limit_a_share_of_the_best_descent_is_kept(seed, bias, float64):
    cmdp = random_cmdp(np.random.default_rng(seed), 4, 3)
    cmdp = replace(cmdp, cost_limit=cmdp.cost_limit - 0.1)
    cosine, best = by_hand(cmdp)
    assert cosine > 0.1  # reward and cost conflict, or nothing is tested
    step = update(SBTRPO(safety_bias=bias), cmdp)
    assert float(step.metrics["mixture"]) == pytest.approx((cosine + bias) / (cosine + 1), rel=1e-8)
    taken = 0.8 ** (int(step.metrics["accepted"]) - 1)  # the actual KL may ask for a shorter step
    assert taken >= 0.8
    assert float(step.spent[0]) == pytest.approx(-bias * best * taken, rel=1e-3)
    assert bool(step.metrics["recovering"])


def test_trpo_would_raise_the_cost_there(float64):
    """The control: the share is SB-TRPO's doing."""
    cmdp = random_cmdp(np.random.default_rng(0), 4, 3)
    cosine, best = by_hand(cmdp)
    step = update(SBTRPO(), replace(cmdp, cost_limit=cmdp.cost_limit + 9.0))
    assert float(step.metrics["mixture"]) == 0.0
    assert float(step.spent[0]) == pytest.approx(best * cosine, rel=1e-3)


def test_below_the_limit_the_slack_may_be_spent(float64):
    cmdp = random_cmdp(np.random.default_rng(0), 4, 3)
    cosine, best = by_hand(cmdp)
    slack = 0.3 * best * cosine
    at = evaluate(cmdp, uniform_policy(cmdp)).cost_return
    step = update(SBTRPO(), replace(cmdp, cost_limit=at + slack))
    expected = (best * cosine - slack) / (best * cosine + best)
    assert float(step.metrics["mixture"]) == pytest.approx(expected, rel=1e-6)
    assert 0 < float(step.spent[0]) <= slack


@pytest.mark.parametrize(
    ("rise", "fall", "allowed", "expected"),
    [
        (2.0, -1.0, 0.5, 0.5),
        (0.2, -1.0, 0.5, 0.0),  # the reward's step is allowed as it is
        (2.0, -1.0, -3.0, 1.0),  # more is asked than there is
        (-1.0, -1.0, -1.0, 0.0),  # both are the same step
        (0.0, 0.0, 0.0, 0.0),  # no gradient at all
    ],
)
def test_the_mixture_is_the_smallest(rise, fall, allowed, expected):
    assert float(mixture(*map(jnp.asarray, (rise, fall, allowed)))) == expected


def test_from_an_unsafe_start_the_cost_falls_and_the_reward_is_not_given_up():
    """Until it is safe the cost falls at every update; pure repair arrives with less reward."""
    limit, first = float(toy().cost_limit[0]), []
    for bias in (0.75, 1.0):
        algorithm = without_damping(SBTRPO(safety_bias=bias), 1e-3)
        path = exact_run(algorithm, toy(), UNSAFE, 40)
        cost = path.cost_return[:, 0]
        safe = int(np.argmax(cost < limit))
        assert cost[0] > limit and safe > 3
        assert np.all(np.diff(cost[: safe + 1]) < 0)
        first.append(float(path.reward_return[safe]))
    assert first[0] > first[1] + 0.01
    control = exact_run(without_damping(TRPO(), 1e-3), toy(), UNSAFE, 5)
    assert control.cost_return[-1, 0] > control.cost_return[0, 0]


def test_from_a_safe_start_it_moves_on_along_the_limit():
    """It meets the limit after 20 updates, never crosses it, and goes on towards the optimum."""
    path = exact_run(without_damping(SBTRPO(), 1e-3), toy(), two_action_policy(0.3, 0.1), 110)
    cost, best = path.cost_return[:, 0], optimum(toy()).reward_return
    assert np.all(cost <= 0.2) and np.all(cost[20:] > 0.1999)
    assert np.all(np.diff(path.reward_return) > 0)
    left = best - path.reward_return[[20, 110]]
    assert left[1] < 0.4 * left[0]
