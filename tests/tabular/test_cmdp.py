# SPDX-License-Identifier: Apache-2.0
"""FiniteCMDP accepts what is a CMDP and says what is wrong with what is not."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from holdfast.tabular.cmdp import FiniteCMDP, check_policy, implicit_bias, toy
from holdfast.tabular.instances import gridworld, random_cmdp, sparse_cmdp, uniform_policy
from holdfast.tabular.occupancy import evaluate


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"reward": [1.0, 2.0]}, "reward has shape"),
        ({"reward": [[1.0], [2.0, 3.0]]}, "rectangular"),
        ({"cost": np.zeros((2, 2, 2))}, "cost has shape"),
        ({"transition": np.ones((2, 2, 2))}, "sums to 2"),
        ({"transition": [[[2, -1], [0, 1]], [[0, 1], [1, 0]]]}, "negative"),
        ({"initial": [0.5, 0.4]}, "sums to 0.9"),
        ({"initial": [0.5, 0.25, 0.25]}, "initial has shape"),
        ({"gamma": 1.0}, "must lie in"),
        ({"cost_limit": [np.nan]}, "inf switches a limit off"),
        ({"reward": [[1.0, np.inf], [0.0, 0.0]]}, "not finite"),
    ],
)
def test_invalid_input_is_refused_with_a_reason(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(toy(), **change)


def test_policy_is_checked() -> None:
    with pytest.raises(ValueError, match="2 states and 2 actions"):
        check_policy(toy(), np.ones(4))
    with pytest.raises(ValueError, match=r"sums to 1\.2"):
        check_policy(toy(), [[0.5, 0.5], [0.6, 0.6]])


def test_arrays_are_read_only_copies() -> None:
    limit = np.array([0.2])
    cmdp = replace(toy(), cost_limit=limit)
    limit[0] = 9.0
    assert cmdp.cost_limit[0] == 0.2
    with pytest.raises(ValueError, match="read-only"):
        cmdp.reward[0, 0] = 5.0


@pytest.mark.parametrize("states", [12, 70])
def test_dense_and_sparse_kernels_agree(rng: np.random.Generator, states: int) -> None:
    dense = random_cmdp(rng, states, 4, 2)
    thin = replace(dense, transition=sparse.csr_array(dense.kernel))
    assert thin.is_sparse and not thin.as_dense().is_sparse
    policy = rng.dirichlet(np.ones(4), size=states)
    first, second = evaluate(dense, policy), evaluate(thin, policy)
    np.testing.assert_allclose(first.occupancy, second.occupancy, atol=1e-14)
    np.testing.assert_allclose(first.adv_c, second.adv_c, atol=1e-12)


def test_iterative_solver_matches_the_factorisation(rng: np.random.Generator) -> None:
    """Large sparse kernels take the Krylov path to the same answer."""
    cmdp = sparse_cmdp(rng, 900, 2)
    policy = rng.dirichlet(np.ones(2), size=900)
    found = evaluate(cmdp, policy)
    moves = np.einsum("sa,sat->st", policy, cmdp.as_dense().transition)
    visits = np.linalg.solve(np.eye(900) - 0.95 * moves.T, 0.05 * cmdp.initial)
    np.testing.assert_allclose(found.occupancy.sum(axis=1), visits, atol=1e-13)
    assert abs(found.occupancy.sum() - 1.0) < 1e-12


def test_random_instances_have_an_interior(rng: np.random.Generator) -> None:
    for _ in range(20):
        cmdp = random_cmdp(rng, 6, 3, 3)
        slack = evaluate(cmdp, uniform_policy(cmdp)).slack
        np.testing.assert_allclose(slack, 0.03, atol=1e-12)


def test_gridworld_moves_as_drawn() -> None:
    cmdp = gridworld(("SH", ".G"), slip=0.2)
    dense = cmdp.as_dense().transition
    np.testing.assert_allclose(dense[0, 2], [0.1, 0.8, 0.1, 0.0])  # right: down slips, up bounces
    np.testing.assert_allclose(dense[3], np.tile([0, 0, 0, 1.0], (4, 1)))  # the goal absorbs
    assert cmdp.cost[0, 1].tolist() == [1.0] * 4 and cmdp.reward[3].tolist() == [1.0] * 4
    with pytest.raises(ValueError, match="no start"):
        gridworld(("..", ".G"))
    with pytest.raises(ValueError, match="lengths"):
        gridworld(("S.", ".G."))


def test_implicit_bias_copies_the_first_action() -> None:
    cmdp = implicit_bias()
    np.testing.assert_array_equal(cmdp.transition[:, 0], cmdp.transition[:, 2])
    np.testing.assert_array_equal(cmdp.cost[0], [[0.1, 0.0, 0.1], [1.0, 0.01, 0.5]])


def test_sparse_input_keeps_its_format() -> None:
    kernel = sparse.coo_array(toy().kernel)
    cmdp = FiniteCMDP(kernel, toy().reward, toy().cost, np.array([0.2]), toy().initial, 0.9)
    assert cmdp.is_sparse
    assert evaluate(cmdp, [[1, 0], [1, 0]]).reward_return == pytest.approx(1.2, abs=1e-12)
