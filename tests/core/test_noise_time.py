# SPDX-License-Identifier: Apache-2.0
"""The rule for how long the noise lasts: what it makes of errors and limits."""

import numpy as np
import pytest

from holdfast.core.noise_time import CLEAR, LONGEST, REMEMBERED, UNCLEAR, NoiseTime

LIMIT = np.array([25.0])


def after(*shares: float, limit: np.ndarray = LIMIT) -> NoiseTime:
    rule = NoiseTime.create("auto")
    for share in shares:
        rule = rule.after(share * limit, limit, 1_000.0)
    return rule


def test_a_run_begins_with_the_longest_time_and_a_fixed_one_with_its_own():
    assert NoiseTime.create("auto").time == LONGEST
    assert NoiseTime.create(3.0).time == 3.0


def test_a_clear_cost_is_white_from_the_second_epoch_on():
    assert after(0.0).time == 0.0
    assert after(CLEAR).time == 0.0
    assert after(UNCLEAR).time == LONGEST


def test_between_the_two_the_time_is_in_proportion():
    assert after((CLEAR + UNCLEAR) / 2).time == pytest.approx(LONGEST / 2)


def test_one_epoch_changes_a_long_mean_by_little():
    long = [UNCLEAR] * 3 * REMEMBERED
    assert after(*long, 0.0).unclear == pytest.approx(UNCLEAR * (1 - 1 / REMEMBERED))
    assert after(*long, *[0.0] * 40).time == 0.0


def test_noise_that_became_white_stays_white():
    """Hopper falls in slow noise, so its costs become uncertain: no reason for more of it."""
    assert after(0.0, *[UNCLEAR] * 3 * REMEMBERED).time == 0.0
    assert after(UNCLEAR, *[0.0] * 40, *[1.0] * REMEMBERED).time == 0.0
    # the control: short of white, the time rises again
    almost = after(UNCLEAR, CLEAR)
    assert 0.0 < almost.time < LONGEST
    assert almost.after(UNCLEAR * LIMIT * 2, LIMIT, 1_000.0).time > almost.time


def test_the_worst_of_several_costs_counts_and_an_outlier_counts_as_one():
    two = np.array([25.0, 1.0])
    rule = NoiseTime.create("auto").after(np.array([0.0, 0.4]), two, 1_000.0)
    assert rule.unclear == pytest.approx(0.4)
    assert after(30.0).unclear == 1.0


def test_a_limit_of_nothing_is_unclear_as_long_as_there_are_errors():
    none = np.zeros(1)
    assert NoiseTime.create("auto").after(np.array([0.1]), none, 1_000.0).unclear == 1.0
    assert NoiseTime.create("auto").after(none, none, 1_000.0).time == 0.0


def test_noise_is_short_beside_an_episode():
    unclear = UNCLEAR * LIMIT
    assert NoiseTime.create("auto").after(unclear, LIMIT, 100.0).time == 5.0
    assert NoiseTime.create("auto").after(unclear, LIMIT, 1.0).time == 0.05
