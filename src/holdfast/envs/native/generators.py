# SPDX-License-Identifier: Apache-2.0
"""Random generators as arrays, so that a snapshot is plain data and restores the exact stream.

The velocity tasks draw from PCG64, the navigation tasks from MT19937: the streams of the original
are part of what a seed means.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

LOW_64 = (1 << 64) - 1


def pcg64_state(generators: Sequence[np.random.Generator]) -> NDArray[np.uint64]:
    """[N, 6]: state and increment as high and low halves, then the buffered 32-bit half."""
    rows: list[list[int]] = []
    for generator in generators:
        saved: Any = generator.bit_generator.state
        state, increment = saved["state"]["state"], saved["state"]["inc"]
        halves = [state >> 64, state & LOW_64, increment >> 64, increment & LOW_64]
        rows.append([*halves, saved["has_uint32"], saved["uinteger"]])
    return np.array(rows, np.uint64)


def pcg64_from(rows: NDArray[np.uint64]) -> list[np.random.Generator]:
    """Generators that continue where `pcg64_state` found them."""
    generators: list[np.random.Generator] = []
    for row in rows:
        high, low, increment_high, increment_low, buffered, half = (int(value) for value in row)
        bits = np.random.PCG64(0)
        bits.state = {
            "bit_generator": "PCG64",
            "state": {"state": high << 64 | low, "inc": increment_high << 64 | increment_low},
            "has_uint32": buffered,
            "uinteger": half,
        }
        generators.append(np.random.Generator(bits))
    return generators


def mt19937_state(
    generators: Sequence[np.random.RandomState],
) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    """Keys [N, 624] and positions [N]; the tasks draw no Gaussians, so nothing else is buffered."""
    states: list[Any] = [generator.get_state() for generator in generators]
    keys = np.array([state[1] for state in states], np.uint32)
    return keys, np.array([state[2] for state in states], np.int64)


def mt19937_from(
    keys: NDArray[np.uint32], positions: NDArray[np.int64]
) -> list[np.random.RandomState]:
    """Generators that continue where `mt19937_state` found them."""
    generators = [np.random.RandomState(0) for _ in positions]
    for generator, key, position in zip(generators, keys, positions, strict=True):
        generator.set_state(("MT19937", key, int(position), 0, 0.0))
    return generators
