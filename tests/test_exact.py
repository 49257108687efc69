# SPDX-License-Identifier: Apache-2.0
"""The deep updates, run exactly: safe, and closer to the optimum as the radius falls."""

import numpy as np
import pytest

from holdfast.algorithms import CTRPO, TRPO
from holdfast.exact import exact_run, without_damping
from holdfast.tabular.cmdp import toy, two_action_policy
from holdfast.tabular.flow import Geometry, direction
from holdfast.tabular.lp import optimum
from holdfast.tabular.occupancy import evaluate

START = two_action_policy(0.3, 0.1)
PAPER = CTRPO(barrier="entropy", hysteresis=1.0)


def test_ctrpo_is_safe_and_converges_with_the_radius() -> None:
    best = optimum(toy()).reward_return
    gaps = []
    for radius, updates in ((1e-2, 40), (1e-3, 110)):
        path = exact_run(without_damping(PAPER, radius), toy(), START, updates)
        assert np.all(path.cost_return <= 0.2 + 1e-12)
        gaps.append(best - float(path.reward_return.max()))
    assert 0.0 < gaps[1] < gaps[0] < 0.05
    assert gaps[1] < 0.01


def test_a_small_deep_step_follows_the_exact_natural_gradient() -> None:
    path = exact_run(without_damping(CTRPO(barrier="log"), 1e-8), toy(), START, 1)
    moved = np.log(path.policy[1]) - np.log(path.policy[0])
    found = evaluate(toy(), START)
    x = direction(toy(), found, Geometry(1.0, "log"))
    x = x - np.sum(START * x, axis=1, keepdims=True)
    angle = np.sum(moved * x) / (np.linalg.norm(moved) * np.linalg.norm(x))
    assert angle == pytest.approx(1.0, abs=1e-6)


def test_trpo_ignores_the_limit() -> None:
    path = exact_run(without_damping(TRPO(), 1e-2), toy(), START, 60)
    assert path.reward_return[-1] > 1.5 and path.cost_return[-1, 0] > 0.2
    assert np.all(np.diff(path.reward_return) > -1e-9)
