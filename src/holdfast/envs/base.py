# SPDX-License-Identifier: Apache-2.0
"""What every environment looks like to training: a batch with costs, both end flags, snapshots.

    N environments, observations of size O, K constraints. All arrays are NumPy.
An environment resets itself in the step that ends an episode; the true successor is kept apart,
so that bootstrapping needs no special case.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
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
"""Called now and then with the environment steps done so far; may raise to stop."""


class NotReproducible(ValueError):
    """An environment that does not come back to where its snapshot was taken."""


@dataclass(frozen=True)
class Step:
    """The result of one vector step."""

    obs: Floats
    """[N, O] what to act on next: the new episode's first observation where one has just ended."""
    next_obs: Floats
    """[N, O] the true successor of the action; differs from `obs` only where an episode ended."""
    reward: Floats
    """[N]"""
    cost: Floats
    """[N, K], in the order of `cost_names`."""
    terminated: Bools
    """[N] the episode ended in a terminal state: its future is worth 0."""
    truncated: Bools
    """[N] the episode was cut (time limit): its future is worth the value of `next_obs`."""


@runtime_checkable
class VecEnv(Protocol):
    """N environments that step together and reset themselves.

    It may have the attributes of `Facts` too. `cost_bounds` and `time_limit` let safety be proved
    from episodes (`episode_cost_bounds`).
    """

    num_envs: int
    observation_space: gym.spaces.Box
    """Of one environment, flat: shape (O,)."""
    action_space: ActionSpace
    """Of one environment."""
    cost_names: tuple[str, ...]
    """One name for each constraint, K >= 1."""
    can_snapshot: bool
    """Whether `snapshot` and `restore` reproduce the future bit for bit."""

    def reset(self, seed: int) -> Floats:
        """Start all episodes anew, environment i seeded with `seed + i`; returns obs [N, O]."""
        ...

    def step(self, action: NDArray[Any]) -> Step:
        """Apply actions in the space's units: Box [N, A], Discrete [N], MultiDiscrete [N, D]."""
        ...

    def snapshot(self) -> Snapshot:
        """Everything the future depends on, the random generators included, as named arrays."""
        ...

    def restore(self, snapshot: Snapshot) -> Floats:
        """Continue from a snapshot; returns the observations [N, O] that were current then."""
        ...

    def close(self) -> None:
        """Release processes and simulators."""
        ...


@runtime_checkable
class Alterable(Protocol):
    """A batch whose physics can be changed."""

    def alter(self, mass: float, friction: float) -> None:
        """Multiply the mass of every body and the friction of every contact."""
        ...


@dataclass(frozen=True)
class Facts:
    """What a batch may say of itself, by attributes of these names."""

    native_observation_space: gym.Space[Any]
    """Of one environment before it was made flat."""
    native_action_space: gym.Space[Any]
    cost_bounds: tuple[float, ...] | None = None
    """The most that one step can cost, for each constraint; costs are never negative then."""
    cost_limits: Mapping[str, float] = field(default_factory=dict[str, float])
    """The limits that the task declares, by the names of constraints."""
    budget_names: tuple[str, ...] = ()
    """Costs of whose budgets the share that is left stands behind each observation."""
    cost_parts: tuple[str, ...] = ()
    """Names of the costs that its one cost is the sum of."""
    free_costs: tuple[str, ...] = ()
    """Names of the costs that it reports and that are part of no constraint."""
    time_limit: int | None = None
    """The most steps of an episode."""
    workers: int = 1
    """Processes that share it."""
    place: str = ""
    """Where it acts, in words, if not in processes."""


OPTIONAL = [fact.name for fact in fields(Facts)]


def facts_of(env: VecEnv) -> Facts:
    """What a batch says of itself, else the plain case."""
    plain: dict[str, Any] = {
        "native_observation_space": env.observation_space,
        "native_action_space": env.action_space,
    }
    return Facts(**plain | {name: getattr(env, name) for name in OPTIONAL if hasattr(env, name)})


def adopt(batch: object, source: object, names: Iterable[str] = OPTIONAL) -> None:
    """Give a batch the optional attributes of what it stands for."""
    for name in names:
        if hasattr(source, name):
            setattr(batch, name, getattr(source, name))


Kept = TypeVar("Kept")


def require_reset(state: Kept | None, label: str) -> Kept:
    """What a batch keeps from its first reset on."""
    if state is None:
        raise ValueError(f"{label} was used before its first reset; call reset(seed).")
    return state


def kept_in(snapshot: Snapshot, name: str, like: Any, where: str) -> NDArray[Any]:
    """An array of a snapshot, which must have the shape and type of another."""
    kept = snapshot.get(name)
    if kept is None or kept.shape != like.shape or kept.dtype != like.dtype:
        raise ValueError(
            f"snapshot entry {name!r} must be {like.dtype}{list(like.shape)}: restore into {where} "
            "with the same num_envs."
        )
    return kept


def check_count(num_envs: int) -> None:
    """Refuse a batch of none."""
    if num_envs < 1:
        raise ValueError(f"num_envs={num_envs} must be at least 1.")


def actions_of(label: str, action: Any, shape: tuple[int, ...]) -> NDArray[Any]:
    """The actions of a step as an array of this shape, or a sentence on what they should be."""
    array = np.asarray(action)
    if array.shape != shape:
        raise ValueError(
            f"{label} got actions of shape {array.shape}, expected {shape}: pass one action for "
            "each environment."
        )
    return array


def episode_cost_bounds(env: VecEnv, discount: float = 1.0) -> tuple[float, ...] | None:
    """The most that an episode can cost, for each constraint: c·Σ γᵗ up to the time limit.

    None where the environment does not say what a step can cost, or may run for ever undiscounted.
    """
    facts = facts_of(env)
    bounds, limit = facts.cost_bounds, facts.time_limit
    if bounds is None or (limit is None and discount == 1):
        return None
    tail = 0.0 if limit is None else discount**limit
    steps = float(limit or 0) if discount == 1 else (1.0 - tail) / (1.0 - discount)
    return tuple(bound * steps for bound in bounds)
