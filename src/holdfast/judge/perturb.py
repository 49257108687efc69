# SPDX-License-Identifier: Apache-2.0
"""Changed conditions: mass, friction, sensor noise and action delay.

    mass=+20%  friction=-30%     of every body and contact of a native task
    sensor-noise=0.05            standard deviation of normal noise on each observation, in units of
                                 the standard deviation in training
    action-delay=2               steps between a decision and its effect

Several values of one make a grid: `mass=-20%,0,+20% action-delay=0,2` is six conditions.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.envs.base import Alterable, Floats, Snapshot, Step, VecEnv
from holdfast.envs.budget import Budgeted
from holdfast.envs.foreign.spaces import still_action
from holdfast.settings import nearest

NOISE = 7
"""Purpose of the sensor noise in its random key (seed of the environment, purpose)."""


@dataclass(frozen=True)
class Perturbation:
    """One condition; the defaults are those of training."""

    mass: float = 0.0
    """Relative change."""
    friction: float = 0.0
    """Relative change."""
    sensor_noise: float = 0.0
    action_delay: int = 0

    def __post_init__(self) -> None:
        if not self.mass > -1 or not self.friction >= -1:
            raise ValueError(
                f"mass={self.mass:+.0%} friction={self.friction:+.0%} is not possible: mass must "
                "stay above -100%, friction at or above it."
            )
        if not 0 <= self.sensor_noise < np.inf or self.action_delay < 0:
            raise ValueError(
                f"sensor-noise={self.sensor_noise} and action-delay={self.action_delay} must not "
                "be negative."
            )

    def __str__(self) -> str:
        parts = [f"{n} {getattr(self, n):+.0%}" for n in ("mass", "friction") if getattr(self, n)]
        parts += [f"sensor noise {self.sensor_noise:g}"] if self.sensor_noise else []
        parts += [f"action delay {self.action_delay}"] if self.action_delay else []
        return ", ".join(parts) or "as trained"


def parse_perturbations(words: Iterable[str]) -> list[Perturbation]:
    """The grid of conditions from words such as mass=+20% or action-delay=0,2."""
    known = [field.name.replace("_", "-") for field in fields(Perturbation)]
    axes: dict[str, list[Any]] = {}
    for word in words:
        name, equals, values = word.partition("=")
        if name not in known:
            raise ValueError(f"--perturb does not know '{name}'{nearest(name, known)}")
        try:
            axes[name] = [_number(value, name) for value in values.split(",")]
        except ValueError:
            equals = ""
        if not equals:
            raise ValueError(
                f"--perturb {word} is not NAME=VALUE; write mass=+20%, friction=-30%, "
                "sensor-noise=0.05 or action-delay=2, several values with commas."
            )
    grid = [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]
    return [Perturbation(**{k.replace("-", "_"): v for k, v in one.items()}) for one in grid]


def _number(text: str, name: str) -> Any:
    if name == "action-delay":
        return int(text)
    relative = name in ("mass", "friction")
    if relative and text not in ("0", "0%") and not text.endswith("%"):
        raise ValueError("a change of mass or friction is relative")
    return float(text.removesuffix("%")) / (100.0 if relative else 1.0)


def perturbed(env: VecEnv, how: Perturbation, deviation: NDArray[np.float64]) -> VecEnv:
    """The batch under a condition; `deviation` [O] is the unit of the noise on observations."""
    if how.mass or how.friction:
        bare = env.inner if isinstance(env, Budgeted) else env
        if not isinstance(bare, Alterable):
            raise ValueError(
                "mass and friction can be changed in native tasks only; sensor-noise and "
                "action-delay in any environment."
            )
        bare.alter(1.0 + how.mass, 1.0 + how.friction)
    if how.sensor_noise or how.action_delay:
        return Perturbed(env, how.sensor_noise * deviation, how.action_delay)
    return env


class Perturbed:
    """A batch with sensor noise and delayed actions; actions are 0 until the first one arrives.

    Environment i draws its noise from the seed of its reset, so an episode does not depend on the
    number of parallel ones.
    """

    can_snapshot = False

    def __init__(self, env: VecEnv, noise: NDArray[np.float64], delay: int) -> None:
        self._env, self._noise = env, noise
        self.num_envs, self.cost_names = env.num_envs, env.cost_names
        self.observation_space, self.action_space = env.observation_space, env.action_space
        self.facts = env.facts
        shape = (delay, env.num_envs, *(env.action_space.shape or ()))
        self._still = np.broadcast_to(still_action(env.action_space), shape)
        self._queue: list[NDArray[Any]] = []
        self._generators: list[np.random.Generator] = []

    def reset(self, seed: int) -> Floats:
        seeds = range(seed, seed + self.num_envs)
        self._generators = [np.random.default_rng([one, NOISE]) for one in seeds]
        self._queue = [late.copy() for late in self._still]
        return self._seen(self._env.reset(seed))

    def step(self, action: NDArray[Any]) -> Step:
        self._queue.append(np.asarray(action).copy())
        step = self._env.step(self._queue.pop(0))
        ended = step.terminated | step.truncated
        for late, still in zip(self._queue, self._still, strict=True):
            late[ended] = still[ended]  # orders to an episode that is over
        obs = self._seen(step.obs)
        next_obs = np.where(ended[:, None], self._seen(step.next_obs), obs) if ended.any() else obs
        return Step(obs, next_obs, step.reward, step.cost, step.terminated, step.truncated)

    def _seen(self, obs: Floats) -> Floats:
        if not self._noise.any():
            return obs
        drawn = [rng.standard_normal(len(self._noise)) for rng in self._generators]
        return (obs + self._noise * np.stack(drawn)).astype(obs.dtype)

    def snapshot(self) -> Snapshot:
        raise ValueError("a perturbed batch is for evaluation and has no snapshots.")

    def restore(self, snapshot: Snapshot) -> Floats:
        raise ValueError("a perturbed batch is for evaluation and has no snapshots.")

    def close(self) -> None:
        self._env.close()
