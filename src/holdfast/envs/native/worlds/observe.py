# SPDX-License-Identifier: Apache-2.0
"""Observations of a navigation robot: its own sensors, and one ring of pseudo-lidar per kind.

    e = Rᵀ·((x, y, 0) − p),  d = |e_xy|,  θ = atan2(e_y, e_x),  s = max(0, D − d) / D

Sixteen bins contain, for each direction, the closeness of the nearest object of a kind; an object
between two directions also contributes to the neighbouring bins. Everything is computed for the
whole batch, by elementwise operations and stacks of equal products, whose rounding does not depend
on the number of rows.
"""

from dataclasses import dataclass
from math import pi

import numpy as np

from holdfast.envs.native.simulation import Array, Indices
from holdfast.envs.native.worlds.layout import Plan
from holdfast.envs.native.worlds.robots import Robot
from holdfast.envs.native.worlds.tasks import Level

BINS = 16
WIDTH = 2 * pi / BINS
INERTIAL = 12
NEIGHBOURS = np.array([(np.arange(BINS) + shift) % BINS for shift in (0, 1, -1)])
"""[3, 16] a bin, the one after it, the one before it; negative bins count from the end."""


def sensor_size(robot: Robot) -> int:
    """Length of the robot's own part of the observation."""
    joints = 3 * len(robot.hinges) + (12 if robot.ball else 0) + (4 if robot.attitude else 0)
    return INERTIAL + len(robot.touch) + joints


def own(robot: Robot, raw: Array) -> Array:
    """The robot's part [n, S] from MuJoCo's sensors: angles as (sin, cos), balls as matrices."""
    hinges = len(robot.hinges)
    if not (hinges or robot.ball):
        return raw
    at = INERTIAL + len(robot.touch) + hinges
    blocks = [raw[:, :at]]
    if robot.ball:
        blocks.append(raw[:, at : at + 3])
        at += 3
    if robot.attitude:  # the site's position and its angular velocity: only the height is shown
        blocks.append(raw[:, at + 2 : at + 6])
        at += 6
    if hinges:
        angles = raw[:, at : at + hinges]
        pairs = np.stack((np.sin(angles), np.cos(angles)), 2)
        blocks.append(pairs.reshape(len(raw), -1))
        at += hinges
    if robot.ball:
        blocks.append(rotation_matrix(raw[:, at : at + 4]))
    return np.concatenate(blocks, 1)


def rotation_matrix(quaternion: Array) -> Array:
    """[n, 9] row-major from unit quaternions [n, 4]."""
    w, x, y, z = quaternion.T
    ww, xx, yy, zz = w * w, x * x, y * y, z * z
    rows = (
        ww + xx - yy - zz, 2 * (x * y - w * z), 2 * (x * z + w * y),
        2 * (x * y + w * z), ww - xx + yy - zz, 2 * (y * z - w * x),
        2 * (x * z - w * y), 2 * (y * z + w * x), ww - xx - yy + zz,
    )  # fmt: skip
    return np.stack(rows, 1)


@dataclass(frozen=True)
class Lidar:
    """Which entries of a layout are seen, grouped by kind."""

    kinds: tuple[str, ...]
    entries: Indices
    """[M] columns of the layout, kind after kind."""
    offsets: Indices
    """[M] where the ring of each entry's kind begins."""
    reach: float
    """D, the distance at which an object becomes visible."""

    def scan(self, places: Array, position: Array, rotation: Array) -> Array:
        """[n, kinds, 16] from places [n, K, 2], root position [n, 3] and rotation [n, 9]."""
        rows, kinds = len(places), len(self.kinds)
        rings = np.zeros(rows * kinds * BINS)
        if not kinds:
            return rings.reshape(rows, 0, BINS)
        turn = rotation.reshape(rows, 3, 3)[:, :, :2]
        delta = places.take(self.entries, 1)
        delta -= position[:, None, :2]
        ego = delta @ turn[:, :2]
        ego -= (position[:, 2, None] * turn[:, 2])[:, None]
        ex, ey = ego[:, :, 0], ego[:, :, 1]
        strength = np.maximum(0.0, self.reach - np.hypot(ex, ey)) / self.reach
        # angles from -π to π: counting bins from -8 to 7 leaves no full turn to round up to
        scaled = np.arctan2(ey, ex) / WIDTH
        index = np.floor(scaled)
        share = (scaled - index) * strength
        values = np.array((strength, share, strength - share))
        slots = NEIGHBOURS[:, index.astype(np.intp)] + self.offsets
        slots += np.arange(0, rings.size, kinds * BINS)[:, None]
        np.maximum.at(rings, slots.reshape(-1), values.reshape(-1))
        return rings.reshape(rows, kinds, BINS)


def lidar(level: Level, entries: Plan) -> Lidar:
    """The lidar of a level: one ring for each kind that is seen, in layout order."""
    kinds = tuple(kind.name for kind in level.kinds if kind.seen)
    columns = [np.arange(*entries.slices[kind].indices(len(entries.names))) for kind in kinds]
    offsets = [np.full(len(column), BINS * i) for i, column in enumerate(columns)]
    empty = np.zeros(0, np.intp)
    seen = np.concatenate([empty, *columns]).astype(np.intp)
    return Lidar(kinds, seen, np.concatenate([empty, *offsets]), level.lidar_range)
