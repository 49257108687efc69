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

    obs: Float32
    """[T, N, O] as the policy saw them."""
    next_obs: Float32
    """[T, N, O] true successors, seen likewise."""
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
    raw: NDArray[np.float64]
    """[T, N, O] what was acted on next, as the environment gave it: for the running statistics."""

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Field -> array."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


class Batch(Protocol):
    """What an epoch needs of an environment."""

    num_envs: int
    cost_names: tuple[str, ...]

    def step(self, action: NDArray[Any]) -> Step: ...


def allocate(steps: int, num_envs: int, size: int, actions: int, constraints: int) -> Epoch:
    """Room for an epoch."""
    shape = (steps, num_envs)
    return Epoch(
        obs=np.empty((*shape, size), np.float32),
        next_obs=np.empty((*shape, size), np.float32),
        action=np.empty((*shape, actions), np.float32),
        reward=np.empty(shape),
        cost=np.empty((*shape, constraints)),
        terminated=np.empty(shape, np.bool_),
        truncated=np.empty(shape, np.bool_),
        raw=np.empty((*shape, size)),
    )


def fly(
    env: Batch, obs: NDArray[np.float64], pilot: Pilot, noise: Float32, watch: Watch | None = None
) -> Epoch:
    """Act for noise.shape[0] steps from the current observations [N, O]."""
    steps, num_envs, actions = noise.shape
    out = allocate(steps, num_envs, obs.shape[1], actions, len(env.cost_names))
    seen = pilot.view(obs)
    for t in range(steps):
        action = pilot.act(seen, noise[t])
        step = env.step(pilot.steer(action))
        out.obs[t], out.action[t], out.raw[t] = seen, action, step.obs
        out.reward[t], out.cost[t] = step.reward, step.cost
        out.terminated[t], out.truncated[t] = step.terminated, step.truncated
        seen = out.next_obs[t] = pilot.view(step.obs)
        if step.obs is not step.next_obs:
            seen = seen.copy()
            ended = step.terminated | step.truncated
            out.next_obs[t, ended] = pilot.view(step.next_obs[ended])
        if watch is not None and (t + 1) % PATIENCE == 0:
            watch(t + 1)
    return out


def check_noise(env_id: str, noise: NDArray[Any], num_envs: int, actions: int) -> None:
    """Refuse noise that does not fit the batch."""
    if noise.ndim != 3 or noise.shape[1:] != (num_envs, actions):
        raise ValueError(
            f"{env_id} got noise of shape {noise.shape}, "
            f"expected (steps, {num_envs}, {actions}): one row for each environment and step."
        )
