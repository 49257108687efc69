# SPDX-License-Identifier: Apache-2.0
"""Measures of how a limit was held, on series whose answers are known."""

import math
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "evidence"))

from holdfast.records.excursions import calibration, growth, mean_excursion, safe_from, violations
from holdfast.records.statistics import cost_regret
from worst_case import attained


def test_excursions_are_the_stretches_above():
    found = mean_excursion([30, 20, 26, 27, 25, 40], 25.0)
    assert (found.number, found.length) == (3, pytest.approx(4 / 3))
    assert found.area == pytest.approx((5 + 1 + 2 + 15) / 3)
    assert mean_excursion([25, 24], 25.0).number == 0  # at the limit is within it
    assert mean_excursion([], 25.0).number == 0


def test_their_area_is_the_regret():
    costs = np.random.default_rng(0).normal(25, 5, 200)
    found = mean_excursion(costs, 25.0)
    assert found.number * found.area == pytest.approx(cost_regret(costs[:, None], [25.0])[-1])


@pytest.mark.parametrize("power", [0.5, 1.0, 2.0])
def test_growth_is_the_exponent(power):
    steps = np.arange(1, 1001) * 1000.0
    assert growth(steps, steps**power) == pytest.approx(power, abs=2e-3)


def test_growth_where_there_is_none():
    steps = np.arange(1, 11)
    assert growth(steps, np.zeros(10)) == 0.0
    assert growth(steps, np.full(10, 3.0)) == 0.0  # all of it at the start
    assert growth(steps, np.maximum(steps - 8, 0)) == math.inf
    assert math.isnan(growth([], []))


def test_violations_in_units_of_the_limit():
    found = violations([10.0, 30.0, 40.0, 20.0], 20.0)
    assert (found.rate, found.distance, found.distance_violating) == (0.5, 0.25, 0.75)
    held = violations([10.0, 20.0], 20.0)
    assert (held.rate, held.distance, held.distance_violating) == (0.0, -0.25, 0.0)
    assert math.isnan(violations([], 20.0).rate)
    assert violations([2.0], 0.0).distance == 2.0  # a limit of 0 has no unit of its own


def test_safe_for_good_is_not_safe_once():
    steps = [1, 2, 3, 4, 5]
    assert safe_from(steps, [30, 20, 30, 20, 20], 25.0) == (2.0, 4.0)
    assert safe_from(steps, [20] * 5, 25.0) == (1.0, 1.0)
    first, settled = safe_from(steps, [30, 20, 20, 20, 30], 25.0)
    assert first == 2.0 and math.isnan(settled)
    assert all(map(math.isnan, safe_from(steps, [30] * 5, 25.0)))


def test_calibration_is_the_slope():
    promised = np.array([1.0, -2.0, 3.0, np.nan])
    assert calibration(promised, 0.1 * promised) == pytest.approx(0.1)
    assert math.isnan(calibration([0.0], [1.0]))
    noise = np.random.default_rng(0).normal(size=(2, 4000))
    assert abs(calibration(*noise)) < 0.1  # the control: what is not related has no slope


def test_a_bound_is_attained_where_the_change_reaches_it():
    share, typical = attained([1.0, 2.0, 4.0, np.nan], [1.0, 1.0, -1.0, 9.0])
    assert share == pytest.approx(1 / 3) and typical == 0.5
    assert math.isnan(attained([0.0], [1.0])[0])
