# SPDX-License-Identifier: Apache-2.0
"""How often a test repeats itself: a few times every day, often under `make test-full`.

A test whose size differs between the two is marked `repeats`; a case that only `make test-full`
runs is marked `full`. Both assert the same.
"""

import os

FULL = os.environ.get("HOLDFAST_TESTS") == "full"


def repeats(daily: int, full: int) -> int:
    """The number of repetitions in this run of the tests."""
    return full if FULL else daily
