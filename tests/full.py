# SPDX-License-Identifier: Apache-2.0
"""How often a test repeats itself: a few times every day, often under `make test-full`.

A test whose size differs between the two is marked `repeats`; a case that only `make test-full`
runs is marked `full`. Both assert the same. A test that `make quick` leaves out is marked
`thorough`.
"""

import itertools
import os
from collections.abc import Iterable
from typing import Any

import pytest

FULL = os.environ.get("HOLDFAST_TESTS") == "full"


def repeats(daily: int, full: int) -> int:
    """The number of repetitions in this run of the tests."""
    return full if FULL else daily


def first_is_quick(values: Iterable[Any]) -> list[Any]:
    """Cases of a test: `make quick` runs the first one, `make test` all."""
    first, *others = values
    return [first, *(pytest.param(value, marks=pytest.mark.thorough) for value in others)]


def product_by_diagonal(first: Iterable[Any], second: Iterable[Any]) -> list[Any]:
    """All pairs of cases: `make test` runs a diagonal, with each value once or more."""
    rows, columns = list(first), list(second)
    longer = max(len(rows), len(columns))
    daily = {(i % len(rows), i % len(columns)) for i in range(longer)}
    return [
        pytest.param(rows[i], columns[j], marks=[pytest.mark.full] * ((i, j) not in daily))
        for i, j in itertools.product(range(len(rows)), range(len(columns)))
    ]
