# SPDX-License-Identifier: Apache-2.0
"""Where everything stands: rejection sampling with the original's random numbers.

Entries are placed in order; each has up to 100 tries to keep its distance from all before it,
then the whole attempt is abandoned. A crowded Button world takes some 8000 tries, so tries are
tested a block at a time on a copy of the generator, and the generator itself is then moved
forward by exactly the doubles that one-by-one sampling would have used.
"""

from dataclasses import dataclass
from math import pi
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.envs.native.simulation import Array
from holdfast.envs.native.tasks import Kind, Level

TRIES = 100
ATTEMPTS = 10_000
GOAL_TRIES = 10_000
JITTER = 1e-9
BLOCK = 4096


@dataclass(frozen=True)
class Plan:
    """The entries of a layout in order, the agent first; K of them."""

    names: tuple[str, ...]
    low: Array
    """[K, 2] smallest coordinates of the centre."""
    span: Array
    """[K, 2]"""
    keepout: Array
    """[K]"""
    z: Array
    """[K]"""
    slices: dict[str, slice]
    """Kind -> its entries."""
    turn: Array
    """[K] fixed rotation, NaN where it is sampled."""
    fixed: Array
    """[K, 2] fixed place, NaN where it is sampled."""


def plan(level: Level, agent_z: float) -> Plan:
    """All entries of a level with their regions, already shrunk by the keepouts."""
    square = (-level.extent, -level.extent, level.extent, level.extent)
    rows = [("agent", level.start or square, level.agent_keepout, agent_z, np.nan)]
    slices = {"agent": slice(0, 1)}
    for kind in level.kinds:
        slices[kind.name] = slice(len(rows), len(rows) + kind.number)
        rows += [_entry(kind, i, square) for i in range(kind.number)]
    names, regions, keepouts, heights, turns = zip(*rows, strict=True)
    region, keepout = np.array(regions), np.array(keepouts)
    low, high = region[:, :2] + keepout[:, None], region[:, 2:] - keepout[:, None]
    nowhere = (np.nan, np.nan)
    kinds = [kind.at or (nowhere,) * kind.number for kind in level.kinds]
    fixed = np.array([nowhere, *[place for places in kinds for place in places]])
    z, turn = np.array(heights), np.array(turns)
    return Plan(names, low, high - low, keepout, z, slices, turn, fixed)


def _entry(kind: Kind, i: int, square: tuple[float, ...]) -> tuple[str, Any, float, float, float]:
    name = f"{kind.name[:-1]}{i}" if kind.name.endswith("s") else kind.name
    region = square
    if kind.at:  # fixed objects still draw a jitter, which keeps the random stream as it was
        x, y = kind.at[i]
        reach = kind.keepout + JITTER
        region = (x - reach, y - reach, x + reach, y + reach)
    return name, region, kind.keepout, kind.z, kind.turn[i] if kind.turn else np.nan


class Doubles:
    """Uniform doubles read ahead of a generator."""

    def __init__(self, generator: np.random.RandomState) -> None:
        self._generator = generator
        self._ahead = np.random.RandomState(0)
        self._ahead.set_state(generator.get_state())
        self._block = self._ahead.random_sample(BLOCK)
        self._start = 0
        self.used = 0

    def peek(self, count: int) -> Array:
        """The next `count` doubles, none of them consumed."""
        begin = self.used - self._start
        if begin + count > len(self._block):
            fresh = self._ahead.random_sample(max(BLOCK, count))
            self._block = np.concatenate((self._block[begin:], fresh))
            self._start, begin = self.used, 0
        return self._block[begin : begin + count]

    def finish(self) -> None:
        """Leave the generator exactly behind the last double used."""
        self._generator.random_sample(self.used)


def sample(generator: np.random.RandomState, entries: Plan) -> tuple[Array, Array]:
    """Places [K, 2] and rotations [K]."""
    doubles = Doubles(generator)
    for _ in range(ATTEMPTS):
        places = _attempt(doubles, entries)
        if places is not None:
            doubles.finish()
            rotations = 2 * pi * generator.random_sample(len(entries.names))
            return places, np.where(np.isnan(entries.turn), rotations, entries.turn)
    raise RuntimeError(f"no layout found in {ATTEMPTS} attempts; the world is too crowded.")


def _attempt(doubles: Doubles, entries: Plan) -> Array | None:
    """One pass over all entries, or None when one of them finds no place in `TRIES` tries."""
    count = len(entries.names)
    places = np.empty((count, 2))
    for k in range(count):
        points = entries.low[k] + entries.span[k] * doubles.peek(2 * TRIES).reshape(TRIES, 2)
        fits = clear(points, places[:k], entries.keepout[:k] + entries.keepout[k])
        first = int(fits.argmax())
        if not fits[first]:
            doubles.used += 2 * TRIES
            return None
        doubles.used += 2 * first + 2
        places[k] = points[first]
    return places


def clear(points: Array, others: Array, distance: Array) -> NDArray[np.bool_]:
    """Which points [P, 2] keep `distance` [M] from all others [M, 2]."""
    dx = points[:, None, 0] - others[:, 0]
    dy = points[:, None, 1] - others[:, 1]
    return np.asarray((np.sqrt(dx * dx + dy * dy) >= distance).all(1))


def draw_goal(
    generator: np.random.RandomState, entries: Plan, goal: int, places: Array
) -> Array | None:
    """A new place [2] for entry `goal` among all others, or None when there is no room."""
    others = np.delete(places, goal, 0)
    distance = np.delete(entries.keepout, goal) + entries.keepout[goal]
    for _ in range(GOAL_TRIES):
        point = entries.low[goal] + entries.span[goal] * generator.random_sample(2)
        if clear(point[None], others, distance)[0]:
            return point
    return None
