# SPDX-License-Identifier: Apache-2.0
"""The interface of environments: a batch with costs, both end flags and snapshots.

    N environments, observations of size O, K constraints. All arrays are NumPy.

An environment resets itself in the step that ends an episode; the true successor is a separate
field, so bootstrapping needs no special case.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeVar, runtime_checkable

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating[Any]]
Bools = NDArray[np.bool_]
Snapshot = dict[str, NDArray[Any]]
ActionSpace = gym.spaces.Box | gym.spaces.Discrete | gym.spaces.MultiDiscrete
Vectorise = Literal["auto", "sync", "process"]
"""Where foreign environments run."""
OnProgress = Callable[[int], None]
"""Called from time to time with the environment steps so far; it may raise to stop."""


class NotReproducible(ValueError):
    """An environment whose state cannot be reproduced from a snapshot."""


@dataclass(frozen=True)
class Step:
    """The result of one vector step."""

    obs: Floats
    """[N, O] current observations; after the end of an episode the first of the next one."""
    next_obs: Floats
    """[N, O] the true successor of the action; differs from `obs` only where an episode ended."""
    reward: Floats
    """[N]"""
    cost: Floats
    """[N, K], in the order of `cost_names`."""
    terminated: Bools
    """[N] the episode ended in a terminal state: the value after it is 0."""
    truncated: Bools
    """[N] the episode was cut (time limit): the value after it is that of `next_obs`."""


@dataclass(frozen=True)
class Facts:
    """Attributes of a batch beyond its spaces and costs."""

    native_observation_space: gym.Space[Any] | None = None
    """Observation space of one environment before flattening; None: it was flat."""
    native_action_space: gym.Space[Any] | None = None
    """Action space of one environment; None: `action_space`."""
    cost_bounds: tuple[float, ...] | None = None
    """The largest cost of one step, for each constraint; implies that costs are never negative."""
    cost_limits: Mapping[str, float] = field(default_factory=dict[str, float])
    """The limits that the task declares, by the names of constraints."""
    budget_names: tuple[str, ...] = ()
    """Names of the costs whose remaining budget is appended to each observation."""
    cost_parts: tuple[str, ...] = ()
    """Names of the costs whose sum is the single cost."""
    free_costs: tuple[str, ...] = ()
    """Names of the costs that it reports and that are part of no constraint."""
    time_limit: int | None = None
    """The largest number of steps of an episode."""
    workers: int = 1
    """Number of processes that step it."""
    place: str = ""
    """A description of its place, if it is not in processes."""


@runtime_checkable
class VecEnv(Protocol):
    """N environments that step together and reset themselves.

    Of its `facts`, `cost_bounds` and `time_limit` are needed to prove safety from episodes
    (`episode_cost_bounds`).
    """

    num_envs: int
    observation_space: gym.spaces.Box
    """Observation space of one environment, flat: shape (O,)."""
    action_space: ActionSpace
    """Action space of one environment."""
    cost_names: tuple[str, ...]
    """One name for each constraint, K >= 1."""
    can_snapshot: bool
    """Whether `snapshot` and `restore` reproduce all later steps bit for bit."""
    facts: Facts
    """What else it declares; `Facts()` for nothing."""

    def reset(self, seed: int) -> Floats:
        """Start new episodes, environment i with seed `seed + i`; returns obs [N, O]."""
        ...

    def step(self, action: NDArray[Any]) -> Step:
        """Apply actions in the space's units: Box [N, A], Discrete [N], MultiDiscrete [N, D]."""
        ...

    def snapshot(self) -> Snapshot:
        """The whole state, including random generators, as named arrays."""
        ...

    def restore(self, snapshot: Snapshot) -> Floats:
        """Continue from a snapshot; returns the observations [N, O] that were current then."""
        ...

    def close(self) -> None:
        """Release processes and simulators."""
        ...


class Alterable(ABC):
    """A batch whose physics can be changed."""

    @abstractmethod
    def alter(self, mass: float, friction: float) -> None:
        """Multiply the mass of every body and the friction of every contact."""


def native_spaces(env: VecEnv) -> tuple[gym.Space[Any], gym.Space[Any]]:
    """(observations, actions) of one environment before they were made flat."""
    seen, acted = env.facts.native_observation_space, env.facts.native_action_space
    return (
        env.observation_space if seen is None else seen,
        env.action_space if acted is None else acted,
    )


Kept = TypeVar("Kept")


def require_reset(state: Kept | None, label: str) -> Kept:
    """An attribute that is set by the first reset; RuntimeError before that."""
    if state is None:
        raise ValueError(f"{label} was used before its first reset; call reset(seed).")
    return state


def kept_in(snapshot: Snapshot, name: str, like: Any, where: str) -> NDArray[Any]:
    """An array of a snapshot; ValueError unless it has the shape and type of `like`."""
    kept = snapshot.get(name)
    if kept is None or kept.shape != like.shape or kept.dtype != like.dtype:
        raise ValueError(
            f"snapshot entry {name!r} must be {like.dtype}{list(like.shape)}: restore into {where} "
            "with the same num_envs."
        )
    return kept


def check_count(num_envs: int) -> None:
    """Refuse an empty batch."""
    if num_envs < 1:
        raise ValueError(f"num_envs={num_envs} must be at least 1.")


def actions_of(label: str, action: Any, shape: tuple[int, ...]) -> NDArray[Any]:
    """The actions of a step as an array; ValueError unless it has this shape."""
    array = np.asarray(action)
    if array.shape != shape:
        raise ValueError(
            f"{label} got actions of shape {array.shape}, expected {shape}: pass one action for "
            "each environment."
        )
    return array


def episode_cost_bounds(env: VecEnv, discount: float = 1.0) -> tuple[float, ...] | None:
    """The largest cost of an episode, for each constraint: c·Σ γᵗ up to the time limit.

    None if the environment declares no largest cost of a step, or without a time limit and
    discount.
    """
    bounds, limit = env.facts.cost_bounds, env.facts.time_limit
    if bounds is None or (limit is None and discount == 1):
        return None
    tail = 0.0 if limit is None else discount**limit
    steps = float(limit or 0) if discount == 1 else (1.0 - tail) / (1.0 - discount)
    return tuple(bound * steps for bound in bounds)
