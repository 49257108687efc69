# SPDX-License-Identifier: Apache-2.0
"""Rewards of the navigation tasks: progress along stored distances, a bonus at each goal.

    r = Σ (last distance − distance now) + 1[goal]

Circle rewards tangential speed instead. Distances refer to the origin of the root body.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from holdfast.envs.native.simulation import Array

GOAL_RADIUS = 0.3
CIRCLE_RADIUS = 1.5
FINISH = -1000.0
"""The y coordinate of Run's far point."""


@dataclass(frozen=True)
class Scene:
    """The inputs of rewards, for n environments."""

    robot: Array
    """[n, 3] root position."""
    velocity: Array
    """[n, 2] of the root's origin."""
    goal: Array
    """[n, 2], with its height [n, 3] in tasks with a box."""
    box: Array
    """[n, 3]"""
    pressed: NDArray[np.bool_] | None
    """[n] the robot touches the goal button."""


def norm(vectors: Array) -> Array:
    """Euclidean length over the last axis."""
    return np.sqrt(np.square(vectors).sum(-1))


def to_goal(scene: Scene) -> Array:
    """[n, 1] distance in the plane."""
    return norm(scene.robot[:, :2] - scene.goal[:, :2])[:, None]


def to_box_and_goal(scene: Scene) -> Array:
    """[n, 2] robot to box, box to goal; in space, heights included, as in the original."""
    return np.stack((norm(scene.robot - scene.box), norm(scene.box - scene.goal)), 1)


def to_finish(scene: Scene) -> Array:
    """[n, 1] sixty times the distance to a far point."""
    x, y = scene.robot[:, 0], scene.robot[:, 1] - FINISH
    return 60.0 * np.sqrt(x * x + y * y)[:, None]


def nothing(scene: Scene) -> Array:
    """[n, 0]"""
    return np.zeros((len(scene.robot), 0))


def never(scene: Scene, distance: Array) -> NDArray[np.bool_]:
    """Tasks without a goal."""
    return np.zeros(len(distance), np.bool_)


def near(scene: Scene, distance: Array) -> NDArray[np.bool_]:
    """The last distance is within the goal's radius."""
    return distance[:, -1] <= GOAL_RADIUS


def pressed(scene: Scene, distance: Array) -> NDArray[np.bool_]:
    """The goal button is touched."""
    return np.zeros(len(distance), np.bool_) if scene.pressed is None else scene.pressed


def tangential_speed(scene: Scene) -> Array:
    """Tangential speed, counter-clockwise, worth most on the circle itself."""
    x, y = scene.robot[:, 0], scene.robot[:, 1]
    u, v = scene.velocity[:, 0], scene.velocity[:, 1]
    radius = np.sqrt(x * x + y * y)
    return 0.1 * ((-u * y + v * x) / radius) / (1 + np.abs(radius - CIRCLE_RADIUS))


@dataclass(frozen=True)
class Reward:
    """The reward of a task."""

    aim: str
    """The aim in words."""
    distances: Callable[[Scene], Array]
    reached: Callable[[Scene, Array], NDArray[np.bool_]]
    motion: Callable[[Scene], Array] | None = None


REWARDS = {
    "goal": Reward("drive to the goal, again and again", to_goal, near),
    "push": Reward("push the box into the goal, again and again", to_box_and_goal, near),
    "button": Reward("press the button that is the goal, again and again", to_goal, pressed),
    "circle": Reward("run counter-clockwise along the circle", nothing, never, tangential_speed),
    "run": Reward("run straight ahead", to_finish, never),
}
