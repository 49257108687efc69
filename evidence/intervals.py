# SPDX-License-Identifier: Apache-2.0
"""95 % intervals of a mean and of a difference of two means, by Student's t.

A bootstrap of three or five runs is too short: it never sees beyond these runs.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.stats import t

from holdfast.records.statistics import Estimate

LEVEL = 0.975


def student(values: Sequence[float]) -> Estimate:
    """The mean of at least two values."""
    size = len(values)
    error = float(np.std(values, ddof=1)) / np.sqrt(size)
    return _around(float(np.mean(values)), error, size - 1)


def welch(ours: Sequence[float], theirs: Sequence[float]) -> Estimate:
    """The difference of two means, each of at least two values, whose variances may differ."""
    parts = np.array([np.var(x, ddof=1) / len(x) for x in (ours, theirs)])
    total = float(parts.sum())
    freedom = total**2 / float((parts**2 / [len(ours) - 1, len(theirs) - 1]).sum() or 1.0)
    return _around(float(np.mean(ours) - np.mean(theirs)), np.sqrt(total), max(freedom, 1.0))


def _around(middle: float, error: float, freedom: float) -> Estimate:
    half = float(t.ppf(LEVEL, freedom)) * error
    return Estimate(middle, middle - half, middle + half)
