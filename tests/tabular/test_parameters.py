# SPDX-License-Identifier: Apache-2.0
"""Regular parametrisations: their formulas, and that the flow does not depend on them."""

import numpy as np
import pytest

from holdfast.tabular import (
    SOFTMAX,
    FiniteCMDP,
    Geometry,
    Parametrisation,
    ascend,
    escort,
    evaluate,
    flow,
    log_linear,
    natural_gradient,
    occupancy,
    random_cmdp,
    toy,
    two_action_policy,
    uniform_policy,
)
from holdfast.tabular.cmdp import Floats
from holdfast.tabular.flow import direction

RNG = np.random.default_rng(5)
FEATURES = RNG.normal(size=(4, 3, 14))  # more than the 4 · 2 dimensions of such policies
KINDS = [SOFTMAX, escort(), escort(3.0), log_linear(FEATURES)]
name_of = lambda kind: kind.name


@pytest.mark.parametrize("kind", KINDS, ids=name_of)
def test_parameters_make_the_policy_and_scores_are_derivatives(kind: Parametrisation) -> None:
    policy = RNG.dirichlet(np.ones(3), size=4)
    theta = kind.inverse(policy)
    np.testing.assert_allclose(kind.policy(theta), policy, atol=1e-9)
    scores = kind.scores(theta)
    for i in range(theta.size):
        step = np.zeros(theta.size)
        step[i] = 1e-6
        step = step.reshape(theta.shape)
        rise = np.log(kind.policy(theta + step)) - np.log(kind.policy(theta - step))
        np.testing.assert_allclose(scores[..., i], rise / 2e-6, rtol=1e-5, atol=1e-6)


def problem(seed: int) -> tuple[FiniteCMDP, Floats]:
    cmdp = random_cmdp(np.random.default_rng(seed), 4, 3, 2)
    return cmdp, uniform_policy(cmdp)


def distance(cmdp: FiniteCMDP, start: Floats, kind: Parametrisation) -> float:
    """Between the occupancies of this flow and of the one in softmax logits."""
    times, geometry = [0.5, 2.0, 8.0], Geometry(0.5, "log")
    paths = [flow(cmdp, start, times, geometry, 1e-9, parameters=p) for p in (SOFTMAX, kind)]
    ours, other = ([occupancy(cmdp, policy) for policy in path.policy] for path in paths)
    assert len(ours) == len(other) == 3
    return float(np.abs(np.array(ours) - np.array(other)).max())


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", KINDS[1:], ids=name_of)
def test_occupancies_move_along_one_path(kind: Parametrisation, seed: int) -> None:
    assert distance(*problem(seed), kind) < 1e-7


def test_where_it_is_not_regular_the_path_is_another() -> None:
    assert distance(*problem(0), log_linear(FEATURES[..., :3])) > 1e-3


def test_the_dense_gradient_of_logits_is_the_rank_k_formula() -> None:
    for geometry in (Geometry(0.5, "log"), Geometry(0.0)):
        cmdp, start = problem(1)
        found = evaluate(cmdp, start)
        dense = natural_gradient(cmdp, found, SOFTMAX.scores(SOFTMAX.inverse(start)), geometry)
        np.testing.assert_allclose(dense, direction(cmdp, found, geometry).reshape(-1), atol=1e-10)


def test_steps_in_other_parameters_stay_safe_and_follow_the_flow() -> None:
    start = two_action_policy(0.3, 0.1)
    ends = []
    for kind in (SOFTMAX, escort(), log_linear(np.eye(4).reshape(2, 2, 4))):
        path = ascend(toy(), start, Geometry(0.01, "log"), dt=0.02, steps=400, parameters=kind)
        assert path.cost_return.max() < 0.2 and np.all(np.diff(path.reward_return) > -1e-12)
        ends.append(path.reward_return[-1])
    assert np.ptp(ends) < 0.02


def test_what_has_no_meaning_is_refused() -> None:
    cmdp, start = problem(0)
    uneven = np.random.default_rng(0).dirichlet(np.ones(3), size=4)
    with pytest.raises(ValueError, match="cannot represent the policy"):
        log_linear(FEATURES[..., :3]).inverse(uneven)
    with pytest.raises(ValueError, match="S, A, P"):
        log_linear(np.eye(3))
    with pytest.raises(ValueError, match="at least 1"):
        escort(0.5)
    with pytest.raises(ValueError, match="softmax logits only"):
        flow(cmdp, start, [1.0], penalised=True, parameters=escort())
