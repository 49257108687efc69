# SPDX-License-Identifier: Apache-2.0
"""The velocity tasks as data: six robots, two sets of thresholds.

Adding a robot or a task means adding an entry; `batch.velocity` reads nothing else.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from holdfast.envs.native.simulation import Array

Health = Callable[[Array, Array], NDArray[np.bool_]]


def always(qpos: Array, qvel: Array) -> NDArray[np.bool_]:
    """Robots that cannot fall."""
    return np.ones(len(qpos), np.bool_)


def ant_stands(qpos: Array, qvel: Array) -> NDArray[np.bool_]:
    """Healthy: finite, and the torso neither on the ground nor in the air."""
    finite = np.isfinite(qpos).all(1) & np.isfinite(qvel).all(1)
    return finite & (qpos[:, 2] >= 0.2) & (qpos[:, 2] <= 1.0)


def humanoid_stands(qpos: Array, qvel: Array) -> NDArray[np.bool_]:
    """The torso between sitting and jumping height."""
    return (qpos[:, 2] > 1.0) & (qpos[:, 2] < 2.0)


def hopper_stands(qpos: Array, qvel: Array) -> NDArray[np.bool_]:
    """Healthy: upright, and joints and speeds within bounds."""
    bounded = (np.abs(qpos[:, 2:]) < 100).all(1) & (np.abs(qvel) < 100).all(1)
    return bounded & (qpos[:, 1] > 0.7) & (np.abs(qpos[:, 2]) < 0.2)


def walker_stands(qpos: Array, qvel: Array) -> NDArray[np.bool_]:
    """Upright enough to walk."""
    return (qpos[:, 1] > 0.8) & (qpos[:, 1] < 2.0) & (np.abs(qpos[:, 2]) < 1.0)


@dataclass(frozen=True)
class Runner:
    """What the two versions of a velocity task share."""

    file: str
    frame_skip: int
    noise: float
    """Scale of the noise on positions and velocities at reset."""
    normal_velocities: bool
    """Velocity noise is Gaussian rather than uniform."""
    control_cost: float
    hidden: int
    """Leading entries of qpos that the observation leaves out."""
    position: str = "root"
    """The point of which the velocity is measured: "root" (qpos), "torso" (body 1) or "mass
    centre".
    """
    planar: bool = False
    """The robot's place is (x, y) rather than x."""
    forward: float = 1.0
    """Weight of vx in the reward."""
    bonus: float = 0.0
    """Reward of every step, including the terminating one."""
    healthy: Health = always
    clip: float = np.inf
    """Bound on the observed velocities."""
    dynamics: bool = False
    """The observation contains inertias, velocities and forces of all bodies (Humanoid)."""
    quaternion: bool = False
    """qpos[3:7] is an orientation, normalised at reset."""
    info: tuple[str, str, str] = ("reward_run", "reward_ctrl", "")
    """The original's names of forward reward, control cost and bonus in `info`."""


RUNNERS = {
    "Ant": Runner(
        "ant.xml", 5, 0.1, True, 0.5, 2, "torso", planar=True, bonus=1.0, healthy=ant_stands,
        quaternion=True, info=("reward_forward", "reward_ctrl", "reward_survive"),
    ),
    "HalfCheetah": Runner("half_cheetah.xml", 5, 0.1, True, 0.1, 1),
    "Hopper": Runner(
        "hopper.xml", 4, 5e-3, False, 1e-3, 1, bonus=1.0, healthy=hopper_stands, clip=10.0,
        info=("", "", ""),
    ),
    "Humanoid": Runner(
        "humanoid.xml", 5, 0.01, False, 0.1, 2, "mass centre", planar=True, forward=1.25,
        bonus=5.0, healthy=humanoid_stands, dynamics=True, quaternion=True,
        info=("reward_linvel", "reward_quadctrl", "reward_alive"),
    ),
    "Swimmer": Runner(
        "swimmer.xml", 4, 0.1, False, 1e-4, 2, planar=True, info=("reward_fwd", "reward_ctrl", "")
    ),
    "Walker2d": Runner(
        "walker2d.xml", 4, 5e-3, False, 1e-3, 1, bonus=1.0, healthy=walker_stands, clip=10.0,
        info=("", "", ""),
    ),
}  # fmt: skip


@dataclass(frozen=True)
class VelocityTask:
    """A robot and the speed it must not exceed."""

    robot: str
    threshold: float
    sideways: bool = False
    """Speed is √(vx² + vy²) rather than vx, which has no cost when running backwards."""
    time_limit: int = 1000


VELOCITY_TASKS = {
    "SafetyAntVelocity-v1": VelocityTask("Ant", 2.6222, sideways=True),
    "SafetyHalfCheetahVelocity-v1": VelocityTask("HalfCheetah", 3.2096),
    "SafetyHopperVelocity-v1": VelocityTask("Hopper", 0.7402),
    "SafetyHumanoidVelocity-v1": VelocityTask("Humanoid", 1.4149, sideways=True),
    "SafetySwimmerVelocity-v1": VelocityTask("Swimmer", 0.2282),
    "SafetyWalker2dVelocity-v1": VelocityTask("Walker2d", 2.3415),
    "SafetyAntVelocity-v0": VelocityTask("Ant", 2.5745, sideways=True),
    "SafetyHalfCheetahVelocity-v0": VelocityTask("HalfCheetah", 2.8795),
    "SafetyHopperVelocity-v0": VelocityTask("Hopper", 0.37315),
    "SafetyHumanoidVelocity-v0": VelocityTask("Humanoid", 2.3475, sideways=True),
    "SafetySwimmerVelocity-v0": VelocityTask("Swimmer", 0.04845, sideways=True),
    "SafetyWalker2dVelocity-v0": VelocityTask("Walker2d", 1.7075),
}
