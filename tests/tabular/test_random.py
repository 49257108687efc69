# SPDX-License-Identifier: Apache-2.0
"""Invariance and convergence on 200 random CMDPs with up to 20 states, 5 actions, 3 constraints."""

from typing import Any

import numpy as np
import pytest

from full import first_is_quick
from holdfast.tabular.cmdp import FiniteCMDP
from holdfast.tabular.flow import Geometry, ascend
from holdfast.tabular.instances import random_cmdp, uniform_policy
from holdfast.tabular.lp import optimum
from holdfast.tabular.mirror import mirror_path

GEOMETRIES = (Geometry(0.1, "log"), Geometry(0.5, "entropy"))


def blocks(daily: int, full: int) -> list[Any]:
    """`make quick` runs the first, `make test` the daily ones, `make test-full` the others."""
    rest = (pytest.param(block, marks=pytest.mark.full) for block in range(daily, full))
    return [*first_is_quick(range(daily)), *rest]


def instance(seed: int) -> FiniteCMDP:
    rng = np.random.default_rng(seed)
    sizes = rng.integers([2, 2, 1], [21, 6, 4])
    return random_cmdp(rng, *(int(n) for n in sizes))


@pytest.mark.parametrize("block", blocks(2, 8))
def test_the_flow_stays_safe_and_converges(block: int) -> None:
    for seed in range(25 * block, 25 * block + 25):
        cmdp = instance(seed)
        best = optimum(cmdp).reward_return
        geometry = GEOMETRIES[seed % 2]
        path = mirror_path(cmdp, uniform_policy(cmdp), [3.0, 1e3], geometry)
        slack = cmdp.cost_limit - path.cost_return
        # The entropy barrier's slack is e^{−λt/β} of its start: zero in float64, up to rounding.
        assert slack.min() > (0.0 if geometry.barrier == "log" else -1e-12)
        assert path.reward_return[0] < path.reward_return[1] < best + 1e-9
        assert best - path.reward_return[1] < 1e-3


@pytest.mark.parametrize("block", blocks(1, 4))
def test_safe_steps_never_violate_and_converge(block: int) -> None:
    for seed in range(1000 + 6 * block, 1006 + 6 * block):
        cmdp = instance(seed)
        path = ascend(cmdp, uniform_policy(cmdp), Geometry(0.1, "log"), dt=0.5, steps=900)
        assert np.all(path.cost_return < cmdp.cost_limit)
        assert optimum(cmdp).reward_return - path.reward_return[-1] < 1e-3
