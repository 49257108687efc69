# SPDX-License-Identifier: Apache-2.0
"""A whole epoch in one call: T steps of a batch that acts by itself."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from holdfast.envs.base import Step
from holdfast.envs.native.pilot import Float32, Pilot

Watch = Callable[[int], None]
"""Called now and then with the number of vector steps done; may raise to stop."""
PATIENCE = 64
"""Vector steps between two calls of `watch`."""


@dataclass(frozen=True)
class Epoch:
    """T steps of N environments."""

    seen: Float32
    """[T + 1, N, O] observations as the policy saw them, the last before its next action."""
    final: Float32
    """[M, O] true successors at the ends of episodes, by environment, then time."""
    action: Float32
    """[T, N, A] as the policy gave them."""
    reward: NDArray[np.float64]
    """[T, N]"""
    cost: NDArray[np.float64]
    """[T, N, K]"""
    terminated: NDArray[np.bool_]
    """[T, N]"""
    truncated: NDArray[np.bool_]
    """[T, N]"""
    mean: NDArray[np.float64]
    """[N, O] of what each environment gave to act on next."""
    var: NDArray[np.float64]
    """[N, O]"""

    @property
    def obs(self) -> Float32:
        """[T, N, O]"""
        return self.seen[:-1]

    @property
    def next_obs(self) -> Float32:
        """[T, N, O] true successors."""
        out = self.seen[1:].copy()
        out.swapaxes(0, 1)[(self.terminated | self.truncated).T] = self.final
        return out

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Field -> array."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @classmethod
    def join(cls, parts: list[dict[str, NDArray[Any]]]) -> "Epoch":
        """One epoch of shares of a batch, in the order of their environments."""
        axis = {"final": 0, "mean": 0, "var": 0}
        whole = lambda name: np.concatenate([part[name] for part in parts], axis.get(name, 1))
        return cls(**{field.name: whole(field.name) for field in fields(cls)})


class Batch(Protocol):
    """What an epoch needs of an environment."""

    num_envs: int
    cost_names: tuple[str, ...]

    def step(self, action: NDArray[Any]) -> Step: ...


def moments(raw: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(mean, variance) [N, O] of each environment's own observations [T, N, O]."""
    mean = raw.sum(0) / len(raw)
    squares = raw - mean
    squares *= squares  # in place: these arrays are large
    return mean, squares.sum(0) / len(raw)


def fly(
    env: Batch, obs: NDArray[np.float64], pilot: Pilot, noise: Float32, watch: Watch | None = None
) -> Epoch:
    """Act for noise.shape[0] steps from the current observations [N, O]."""
    shape, size = noise.shape[:2], obs.shape[1]
    seen = np.empty((shape[0] + 1, shape[1], size), np.float32)
    action, raw = np.empty(noise.shape, np.float32), np.empty((*shape, size))
    reward, cost = np.empty(shape), np.empty((*shape, len(env.cost_names)))
    terminated, truncated = np.empty(shape, np.bool_), np.empty(shape, np.bool_)
    finals: list[list[Float32]] = [[] for _ in range(shape[1])]
    seen[0] = pilot.view(obs)
    for t in range(shape[0]):
        action[t] = pilot.act(seen[t], noise[t])
        step = env.step(pilot.steer(action[t]))
        raw[t], reward[t], cost[t] = step.obs, step.reward, step.cost
        terminated[t], truncated[t] = step.terminated, step.truncated
        seen[t + 1] = pilot.view(step.obs)
        if step.obs is not step.next_obs:
            for i in np.flatnonzero(step.terminated | step.truncated):
                finals[i].append(pilot.view(step.next_obs[i]))
        if watch is not None and (t + 1) % PATIENCE == 0:
            watch(t + 1)
    final = np.array([row for rows in finals for row in rows], np.float32).reshape(-1, size)
    return Epoch(seen, final, action, reward, cost, terminated, truncated, *moments(raw))


def check_noise(env_id: str, noise: NDArray[Any], num_envs: int, actions: int) -> None:
    """Refuse noise that does not fit the batch."""
    if noise.ndim != 3 or noise.shape[1:] != (num_envs, actions):
        raise ValueError(
            f"{env_id} got noise of shape {noise.shape}, "
            f"expected (steps, {num_envs}, {actions}): one row for each environment and step."
        )
