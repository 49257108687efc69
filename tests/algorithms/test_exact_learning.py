# SPDX-License-Identifier: Apache-2.0
"""Each method on enumerated random CMDPs against the linear programme (minutes: nightly).

The tolerances are the measured numbers of docs/algorithms/README.md with a margin; where a method
ends off the optimum, that page says why.
"""

import sys
from pathlib import Path

import jax
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "evidence"))

from exact_cmdp import summary

PROMISES = {
    # name: (largest relative gap, largest excess of cost at the end)
    "c-trpo": (0.01, 0.0),
    "c-npg": (0.01, 0.0),
    "cpo": (0.05, 1e-4),
    "cpo-hysteresis": (0.05, 1e-4),
    "pcpo": (0.05, 1e-4),
    "sb-trpo": (0.05, 1e-4),
    "cspo": (0.05, 0.01),
    "p3o": (0.02, 1e-3),
}


@pytest.mark.learning
@pytest.mark.parametrize("name", PROMISES)
def test_ends_safe_and_near_the_optimum(name: str) -> None:
    with jax.enable_x64(True):
        found = summary(name, seeds=3, updates=400, constraints=1)
    gap, excess = PROMISES[name]
    assert found["worst_gap"] <= gap and found["excess"] <= excess


@pytest.mark.learning
@pytest.mark.parametrize("name", ["ppo", "trpo", "npg"])
def test_without_limits_they_are_broken(name: str) -> None:
    with jax.enable_x64(True):
        found = summary(name, seeds=2, updates=200, constraints=1)
    assert found["excess"] > 0.05 and found["gap"] < 0
