# SPDX-License-Identifier: Apache-2.0
"""Layouts of objects: rejection sampling with the original's random numbers.

Entries are placed in order; each has up to 100 tries to keep its distance from all before it, then
the whole attempt is abandoned. A crowded Button world takes some 8000 tries, and most of them fail.
So all but the first few tries of an entry are tested at once, on doubles read ahead from a copy of
the generator. The generator itself is then advanced by exactly the doubles used.
"""

from dataclasses import dataclass
from functools import cached_property
from math import pi, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.envs.native.simulation import Array
from holdfast.envs.native.worlds.tasks import Kind, Level

TRIES = 100
FEW = 10
ATTEMPTS = 10_000
GOAL_TRIES = 10_000
JITTER = 1e-9
BLOCK = 4096
Place = tuple[float, float]


@dataclass(frozen=True)
class Plan:
    """The entries of a layout in order, the robot first; K of them."""

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
    """[K] fixed rotation, NaN if it is sampled."""
    fixed: Array
    """[K, 2] fixed place, NaN if it is sampled."""

    @cached_property
    def apart(self) -> list[list[float]]:
        """[K][K] smallest distance between two entries."""
        return (self.keepout[:, None] + self.keepout).tolist()

    @cached_property
    def low_list(self) -> list[Place]:
        return [(float(x), float(y)) for x, y in self.low]

    @cached_property
    def span_list(self) -> list[Place]:
        return [(float(x), float(y)) for x, y in self.span]


def plan(level: Level, robot_z: float) -> Plan:
    """All entries of a level with their regions, already shrunk by the keepouts."""
    square = (-level.extent, -level.extent, level.extent, level.extent)
    rows = [("agent", level.start or square, level.robot_keepout, robot_z, np.nan)]
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
    """Uniform doubles read ahead of a generator, as a list and as an array."""

    def __init__(self, generator: np.random.RandomState) -> None:
        self._generator = generator
        self._ahead = np.random.RandomState(0)
        self._ahead.set_state(generator.get_state())
        self.array = self._ahead.random_sample(BLOCK)
        self.list: list[float] = self.array.tolist()
        self._before = 0
        self.at = 0
        """Position of the next double in `array` and `list`."""

    def reserve(self, count: int) -> None:
        """Read ahead until `count` more doubles are available."""
        if self.at + count > len(self.list):
            fresh = self._ahead.random_sample(BLOCK)
            self.array = np.concatenate((self.array[self.at :], fresh))
            self.list = self.array.tolist()
            self._before, self.at = self._before + self.at, 0

    def finish(self) -> None:
        """Leave the generator exactly behind the last double used."""
        self._generator.random_sample(self._before + self.at)


def sample(generator: np.random.RandomState, entries: Plan) -> tuple[Array, Array]:
    """Places [K, 2] and rotations [K]."""
    doubles = Doubles(generator)
    for _ in range(ATTEMPTS):
        places = _attempt(doubles, entries)
        if places is not None:
            doubles.finish()
            rotations = 2 * pi * generator.random_sample(len(entries.names))
            return np.array(places), np.where(np.isnan(entries.turn), rotations, entries.turn)
    raise RuntimeError(
        f"no layout found in {ATTEMPTS} attempts, as the world is too crowded; "
        "reset with another seed."
    )


def _attempt(doubles: Doubles, entries: Plan) -> list[Place] | None:
    """One pass over all entries, or None when one of them finds no place in `TRIES` tries."""
    places: list[Place] = []
    for k in range(len(entries.names)):
        doubles.reserve(2 * TRIES)
        place = _try_few(doubles, entries, k, places) or _try_rest(doubles, entries, k, places)
        if place is None:
            return None
        places.append(place)
    return places


def _try_few(doubles: Doubles, entries: Plan, k: int, places: list[Place]) -> Place | None:
    """The first tries of entry k, one by one: most entries need no more."""
    (x0, y0), (width, height) = entries.low_list[k], entries.span_list[k]
    apart, numbers, at = entries.apart[k], doubles.list, doubles.at
    for i in range(at, at + 2 * FEW, 2):
        x, y = x0 + width * numbers[i], y0 + height * numbers[i + 1]
        for (px, py), distance in zip(places, apart, strict=False):
            dx, dy = x - px, y - py
            if sqrt(dx * dx + dy * dy) < distance:
                break
        else:
            doubles.at = i + 2
            return x, y
    doubles.at = at + 2 * FEW
    return None


def _try_rest(doubles: Doubles, entries: Plan, k: int, places: list[Place]) -> Place | None:
    """The remaining tries of entry k at once: few of them succeed."""
    rest = TRIES - FEW
    ahead = doubles.array[doubles.at : doubles.at + 2 * rest].reshape(rest, 2)
    points = entries.low[k] + entries.span[k] * ahead
    fits = clear(points, np.array(places).reshape(-1, 2), np.array(entries.apart[k][:k]))
    first = int(fits.argmax())
    if not fits[first]:
        doubles.at += 2 * rest
        return None
    doubles.at += 2 * first + 2
    return float(points[first, 0]), float(points[first, 1])


def clear(points: Array, others: Array, distance: Array) -> NDArray[np.bool_]:
    """Which points [P, 2] keep `distance` [M] from all others [M, 2]."""
    dx = points[:, None, 0] - others[:, 0]
    dy = points[:, None, 1] - others[:, 1]
    return np.asarray((np.sqrt(dx * dx + dy * dy) >= distance).all(1))


def draw_goal(
    generator: np.random.RandomState, entries: Plan, goal: int, places: Array
) -> Array | None:
    """A new position [2] for entry `goal` among all others, or None if there is no room."""
    others = np.delete(places, goal, 0)
    distance = np.delete(entries.keepout, goal) + entries.keepout[goal]
    for _ in range(GOAL_TRIES):
        point = entries.low[goal] + entries.span[goal] * generator.random_sample(2)
        if clear(point[None], others, distance)[0]:
            return point
    return None
