# SPDX-License-Identifier: Apache-2.0
"""Verdicts from episodes: exact values, symmetry, coverage on skewed costs, honest refusals."""

import math

import numpy as np
import pytest
from scipy.stats import binom, t

from holdfast.core.verdict import binomial_interval, lower_bound, upper_bound, verdict


def test_upper_bound_is_students_for_symmetric_costs():
    costs = np.array([8.0, 10.0, 12.0, 9.0, 11.0])
    expected = 10.0 + costs.std(ddof=1) * t.ppf(0.95, 4) / math.sqrt(5)
    assert upper_bound(costs) == pytest.approx(expected)
    assert lower_bound(costs) == pytest.approx(20.0 - expected)


def test_skewed_costs_widen_the_upper_bound():
    costs = np.array([0.0] * 18 + [40.0, 60.0])
    student = costs.mean() + costs.std(ddof=1) * t.ppf(0.95, 19) / math.sqrt(20)
    assert upper_bound(costs) > student + 1.0


def test_upper_bound_covers_exponential_costs_better_than_students():
    rng = np.random.default_rng(5)
    batches = rng.exponential(10.0, (2_000, 20))
    ours = np.mean([upper_bound(costs) >= 10.0 for costs in batches])
    width = batches.std(axis=1, ddof=1) * t.ppf(0.95, 19) / math.sqrt(20)
    student = np.mean(batches.mean(axis=1) + width >= 10.0)
    assert student < 0.915 and ours > 0.92


def test_one_episode_proves_nothing():
    assert upper_bound([3.0]) == math.inf and lower_bound([3.0]) == -math.inf


@pytest.mark.parametrize(("successes", "trials"), [(0, 10), (3, 20), (10, 10), (1, 1)])
def test_binomial_interval_inverts_the_exact_tests(successes: int, trials: int):
    interval = binomial_interval(successes, trials)
    if successes:
        assert binom.sf(successes - 1, trials, interval.low) == pytest.approx(0.025)
    else:
        assert interval.low == 0.0
    if successes < trials:
        assert binom.cdf(successes, trials, interval.high) == pytest.approx(0.025)
    else:
        assert interval.high == 1.0


def test_binomial_interval_refuses_impossible_counts():
    with pytest.raises(ValueError, match="no count"):
        binomial_interval(3, 2)


def test_verdicts():
    rng = np.random.default_rng(0)
    costs = rng.normal(20.0, 5.0, 100)
    assert verdict(costs, 25.0).safe == "yes"
    assert verdict(costs, 15.0).safe == "no"
    assert verdict(costs, costs.mean() + 0.1).safe == "undecided"
    assert verdict(costs[:5], 25.0).safe == "undecided", "five lucky episodes are no proof"
    answer = verdict(costs, 25.0)
    assert answer.episodes == 100 and answer.violating.value == np.mean(costs > 25.0)
    assert str(answer).startswith("safe at 95%: yes (mean cost ")


def test_every_constraint_must_hold():
    rng = np.random.default_rng(1)
    costs = np.stack([rng.normal(20.0, 2.0, 50), rng.normal(5.0, 1.0, 50)], axis=1)
    assert verdict(costs, [25.0, 8.0]).safe == "yes"
    assert verdict(costs, [25.0, 3.0]).safe == "no"
    assert verdict(costs, [25.0, costs[:, 1].mean()]).safe == "undecided"
    with pytest.raises(ValueError, match="one column per limit"):
        verdict(costs, 25.0)


@pytest.mark.parametrize("level", [0.0, 0.4, 1.0])
def test_senseless_levels_are_refused(level: float):
    with pytest.raises(ValueError, match="level"):
        verdict([1.0, 2.0], 5.0, level)


@pytest.mark.parametrize("costs", [[], [float("nan"), 1.0]])
def test_missing_costs_are_refused(costs: list[float]):
    with pytest.raises(ValueError, match="finite"):
        upper_bound(costs)
