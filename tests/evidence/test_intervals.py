# SPDX-License-Identifier: Apache-2.0
"""Intervals of few runs: against SciPy, and how often they hold the truth."""

import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

sys.path.insert(0, str(Path(__file__).parents[2] / "evidence"))

import intervals
from holdfast.records.statistics import bootstrap, mean


def test_they_are_scipys():
    ours, theirs = [1.0, 4.0, 2.5, 3.0, 9.0], [0.5, 0.7, 0.2]
    known = stats.ttest_1samp(ours, 0.0).confidence_interval()
    found = intervals.student(ours)
    assert (found.low, found.high) == pytest.approx((known.low, known.high))
    known = stats.ttest_ind(ours, theirs, equal_var=False).confidence_interval()
    found = intervals.welch(ours, theirs)
    assert (found.low, found.high) == pytest.approx((known.low, known.high))
    assert intervals.welch([2.0, 2.0], [1.0, 1.0]).low == 1.0  # no scatter, no interval


def test_five_runs_are_covered_by_student_and_not_by_a_bootstrap():
    rng = np.random.default_rng(0)
    samples = rng.normal(3.0, 2.0, (300, 5))
    holds = lambda found: found.low <= 3.0 <= found.high
    own = np.mean([holds(intervals.student(list(row))) for row in samples])
    short = np.mean([holds(bootstrap([list(row)], mean)) for row in samples])
    assert 0.92 <= own <= 0.98 and short < 0.9  # the second is the control
