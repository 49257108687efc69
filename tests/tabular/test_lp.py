# SPDX-License-Identifier: Apache-2.0
"""The constrained optimum: published values, both methods, certificates (C5, C6)."""

from itertools import product
from typing import Literal

import numpy as np
import pytest

from holdfast.tabular.best_response import best_response, lagrangian_bound
from holdfast.tabular.cmdp import toy, two_action_policy
from holdfast.tabular.flow import ascend
from holdfast.tabular.instances import gridworld, random_cmdp, sparse_cmdp, uniform_policy
from holdfast.tabular.lp import (
    InfeasibleLimits,
    active,
    interior_policy,
    least_excess,
    optimum,
    safest,
)
from holdfast.tabular.occupancy import evaluate, policy_of

Method = Literal["highs", "columns"]
METHODS: tuple[Method, ...] = ("highs", "columns")


@pytest.mark.parametrize("method", METHODS)
def test_c5_toy(method: Method) -> None:
    found = optimum(toy(), method)
    assert found.reward_return == pytest.approx(1.10319032, abs=5e-9)
    np.testing.assert_allclose(found.policy[:, 0], [1.0, 0.92714026], atol=5e-9)
    expected = [[0.879208, 0.0], [0.111991, 0.008801]]
    np.testing.assert_allclose(found.occupancy, expected, atol=5e-7)
    assert found.multiplier[0] == pytest.approx(1.210121, abs=5e-7)
    assert active(toy(), found.cost_return).tolist() == [True]
    assert abs(found.gap) < 1e-12


@pytest.mark.parametrize("method", METHODS)
def test_c6_other_limits(method: Method) -> None:
    loose = optimum(toy(0.3), method)
    assert loose.reward_return == pytest.approx(1.22, abs=1e-9)
    np.testing.assert_allclose(loose.policy[:, 0], [0.996785, 1.0], atol=5e-7)
    free = optimum(toy(np.inf), method)
    assert free.reward_return == pytest.approx(1.84, abs=1e-12)
    assert free.multiplier[0] == 0.0
    assert not active(toy(np.inf), free.cost_return)[0]


@pytest.mark.parametrize("method", METHODS)
def test_infeasible_limits_say_by_how_much(method: Method) -> None:
    lowest = min(
        evaluate(toy(), two_action_policy(*p)).cost_return[0] for p in product((0, 1), (0, 1))
    )
    with pytest.raises(InfeasibleLimits, match="raise the limits") as caught:
        optimum(toy(0.001), method)
    assert caught.value.excess[0] == pytest.approx(lowest - 0.001, abs=1e-9)
    assert least_excess(toy(0.2))[0] == 0.0


def test_methods_agree_and_certify(rng: np.random.Generator) -> None:
    for trial in range(25):
        cmdp = random_cmdp(rng, int(rng.integers(3, 15)), int(rng.integers(2, 5)), trial % 4)
        first, second = optimum(cmdp, "highs"), optimum(cmdp, "columns")
        assert first.reward_return == pytest.approx(second.reward_return, abs=1e-9)
        for found in (first, second):
            exact = evaluate(cmdp, found.policy)
            assert exact.reward_return == pytest.approx(found.reward_return, abs=1e-9)
            assert np.all(exact.slack > -1e-9)
            assert abs(found.gap) < 1e-9
            # complementary slackness
            assert np.all(np.abs(found.multiplier * exact.slack) < 1e-8)
        # A vertex randomises in at most K states.
        mixed = np.sum((first.policy > 1e-9).sum(axis=1) > 1)
        assert mixed <= cmdp.num_constraints


def test_shadow_price_is_the_slope_of_the_optimum(rng: np.random.Generator) -> None:
    cmdp = random_cmdp(rng, 8, 3, 1)
    h = 1e-6
    up, down = (optimum(cmdp.with_limit(cmdp.cost_limit[0] + s * h)) for s in (1, -1))
    slope = (up.reward_return - down.reward_return) / (2 * h)
    assert optimum(cmdp).multiplier[0] == pytest.approx(slope, rel=1e-4)


def test_lagrangian_bounds_bracket_the_optimum(rng: np.random.Generator) -> None:
    for _ in range(10):
        cmdp = random_cmdp(rng, 6, 3, 2)
        best = optimum(cmdp)
        for price in rng.exponential(size=(5, 2)):
            assert lagrangian_bound(cmdp, price) >= best.reward_return - 1e-10
        assert lagrangian_bound(cmdp, best.multiplier) == pytest.approx(
            best.reward_return, abs=1e-9
        )
        assert evaluate(cmdp, uniform_policy(cmdp)).reward_return <= best.reward_return
    with pytest.raises(ValueError, match="none negative"):
        lagrangian_bound(toy(), [-1.0])


def test_best_response_beats_every_deterministic_policy(rng: np.random.Generator) -> None:
    cmdp = random_cmdp(rng, 4, 3, 0)
    found = best_response(cmdp, cmdp.reward)
    value = 0.1 * cmdp.initial @ found.value
    rivals = [
        evaluate(cmdp, np.eye(3)[list(actions)]).reward_return
        for actions in product(range(3), repeat=4)
    ]
    assert value == pytest.approx(max(rivals), abs=1e-12)


def test_safest_point_measures_the_interior() -> None:
    d, slack = safest(toy())
    assert evaluate(toy(), policy_of(d)).slack[0] == pytest.approx(slack, abs=1e-9)
    assert safest(toy(0.001))[1] < 0.0


@pytest.mark.parametrize("limit", [0.01, 0.2, 0.6, np.inf])
def test_interior_policy_is_a_start(limit: float) -> None:
    policy, (_, widest) = interior_policy(toy(limit)), safest(toy(limit))
    assert policy.min() > 0.0 and evaluate(toy(limit), policy).slack[0] >= 0.499 * widest
    assert ascend(toy(limit), policy, dt=0.1, steps=3).time[-1] == 3.0
    with pytest.raises(InfeasibleLimits):
        interior_policy(toy(0.001))


def test_sparse_problems() -> None:
    grid = gridworld("lava")
    first, second = optimum(grid, "highs"), optimum(grid, "columns")
    assert first.reward_return == pytest.approx(second.reward_return, abs=1e-9)
    assert active(grid, first.cost_return)[0] and first.multiplier[0] > 0.0
    wide = sparse_cmdp(np.random.default_rng(0), 3_000)
    found = optimum(wide)
    exact = evaluate(wide, found.policy)
    assert exact.slack[0] > -1e-9 and abs(found.gap) < 1e-9
