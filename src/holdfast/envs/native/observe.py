# SPDX-License-Identifier: Apache-2.0
"""What a navigation robot perceives: its own sensors, and one ring of pseudo-lidar per kind.

    e = Rᵀ·((x, y, 0) − p),  d = |e_xy|,  θ = atan2(e_y, e_x),  s = max(0, D − d) / D
Sixteen bins show, for each direction, how near the nearest object of a kind is; an object between
two directions also shines into the neighbouring bins. Everything is computed for the whole batch
by elementwise operations, whose rounding does not depend on the number of rows.
"""

from dataclasses import dataclass
from math import pi

import numpy as np

from holdfast.envs.native.agents import Agent
from holdfast.envs.native.layout import Plan
from holdfast.envs.native.simulation import Array, Indices
from holdfast.envs.native.tasks import Level

BINS = 16
WIDTH = 2 * pi / BINS
INERTIAL = 12


def sensor_size(agent: Agent) -> int:
    """Length of the robot's own part of the observation."""
    joints = 3 * len(agent.hinges) + (12 if agent.ball else 0) + (4 if agent.attitude else 0)
    return INERTIAL + len(agent.touch) + joints


def own(agent: Agent, raw: Array) -> Array:
    """The robot's part [n, S] from MuJoCo's sensors: angles as (sin, cos), balls as matrices."""
    hinges = len(agent.hinges)
    if not (hinges or agent.ball):
        return raw
    at = INERTIAL + len(agent.touch) + hinges
    blocks = [raw[:, :at]]
    if agent.ball:
        blocks.append(raw[:, at : at + 3])
        at += 3
    if agent.attitude:  # the site's position and its angular velocity: only the height is shown
        blocks.append(raw[:, at + 2 : at + 6])
        at += 6
    if hinges:
        angles = raw[:, at : at + hinges]
        pairs = np.stack((np.sin(angles), np.cos(angles)), 2)
        blocks.append(pairs.reshape(len(raw), -1))
        at += hinges
    if agent.ball:
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
    starts: Indices
    """First entry of each kind within `entries`."""
    reach: float
    """D, the distance at which an object becomes visible."""

    def scan(self, places: Array, position: Array, rotation: Array) -> Array:
        """[n, kinds, 16] from places [n, K, 2], root position [n, 3] and rotation [n, 9]."""
        rows = len(places)
        if not self.kinds:
            return np.zeros((rows, 0, BINS))
        delta = places.take(self.entries, 1)
        delta -= position[:, None, :2]
        dx, dy, r = delta[:, :, 0], delta[:, :, 1], rotation[:, :, None]
        dz = -position[:, 2, None]
        ex = r[:, 0] * dx + r[:, 3] * dy + r[:, 6] * dz
        ey = r[:, 1] * dx + r[:, 4] * dy + r[:, 7] * dz
        strength = np.maximum(0.0, self.reach - np.sqrt(ex * ex + ey * ey)) / self.reach
        angle = np.arctan2(ey, ex)
        angle += (angle < 0) * (2 * pi)
        # a tiny negative angle rounds to 2π itself: it belongs to the last bin
        index = np.minimum((angle / WIDTH).astype(np.intp), BINS - 1)
        share = (angle - index * WIDTH) / WIDTH * strength
        rings = np.zeros((rows, len(self.entries), BINS))
        flat, base = rings.reshape(-1), np.arange(0, rings.size, BINS).reshape(index.shape)
        flat[base + index] = strength
        flat[base + (index + 1 & BINS - 1)] = share
        flat[base + (index - 1 & BINS - 1)] = strength - share
        return np.maximum.reduceat(rings, self.starts, axis=1)


def lidar(level: Level, entries: Plan) -> Lidar:
    """The lidar of a level: one ring for each kind that is seen, in layout order."""
    kinds = tuple(kind.name for kind in level.kinds if kind.seen)
    columns = [np.arange(*entries.slices[kind].indices(len(entries.names))) for kind in kinds]
    starts = np.cumsum([0, *[len(column) for column in columns]])[:-1]
    seen = np.concatenate(columns) if columns else np.zeros(0, np.intp)
    return Lidar(kinds, seen.astype(np.intp), starts.astype(np.intp), level.lidar_range)
