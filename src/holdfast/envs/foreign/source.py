# SPDX-License-Identifier: Apache-2.0
"""Making a single environment from an id, a factory or an instance."""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Protocol, TypeGuard, cast

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec

from holdfast.envs.base import ActionSpace
from holdfast.envs.failure import EnvFailure, named
from holdfast.envs.foreign import references
from holdfast.envs.foreign.costs import CostFunction, CostSource, Transition, find_cost
from holdfast.envs.foreign.spaces import (
    flat_observation_space,
    plain_action_space,
    still_action,
    to_native,
)
from holdfast.settings import near_miss


class Steppable(Protocol):
    """An environment: Gymnasium's, one that looks like it, a whole batch, or a functional one."""

    @property
    def reset(self) -> Callable[..., Any]: ...

    @property
    def step(self) -> Callable[..., Any]: ...


EnvSource = str | EnvSpec | Callable[..., Any] | Steppable
"""A name (see `references`), a Gymnasium spec, a factory of one environment, or an environment."""


@dataclass(frozen=True)
class Factory:
    """A factory of an environment, and its arguments."""

    make: Callable[..., Any]
    args: Mapping[str, object]

    def __call__(self, **more: object) -> Any:
        given = {**self.args, **more}
        try:
            inspect.signature(self.make).bind(**given)
        except TypeError as error:
            raise ValueError(
                f"Env {label_of(self.make)} cannot be made: {error}; give arguments with "
                "env_args={...}."
            ) from None
        except ValueError:  # some compiled functions have no signature
            pass
        return self.make(**given)

    @property
    def takes_num_envs(self) -> bool:
        """Whether it makes a whole batch."""
        try:
            return "num_envs" in inspect.signature(self.make).parameters
        except (TypeError, ValueError):
            return False


@dataclass(frozen=True)
class Interface:
    """Spaces and cost source of one environment: found from the first, valid for all."""

    label: str
    native_observations: gym.Space[Any]
    native_actions: gym.Space[Any]
    observation_space: gym.spaces.Box
    action_space: ActionSpace
    cost: CostSource
    clip_actions: bool
    time_limit: int | None
    timeout: float
    """Time limit in seconds for a step or reset of the whole batch; 0: none."""


def is_instance(source: object) -> TypeGuard[Steppable]:
    """Whether it is an environment, not what makes one."""
    return not isinstance(source, str | EnvSpec | type) and hasattr(source, "step")


def label_of(source: EnvSource) -> str:
    """The environment's name in messages."""
    if isinstance(source, str):
        return repr(source)
    spec = source if isinstance(source, EnvSpec) else getattr(source, "spec", None)
    if isinstance(spec, EnvSpec):
        return repr(spec.id)
    if isinstance(source, Factory):
        return label_of(source.make)
    name = getattr(source, "__name__", None)
    return repr(name or type(getattr(source, "unwrapped", source)).__name__)


def name_env(source: EnvSource) -> tuple[str, dict[str, object]]:
    """(name, arguments) with which the environment can be made again, for run.json."""
    if isinstance(source, str):
        return source, {}
    spec = source if isinstance(source, EnvSpec) else getattr(source, "spec", None)
    known = gym.registry.get(spec.id) if isinstance(spec, EnvSpec) else None
    several = hasattr(getattr(source, "unwrapped", source), "num_envs")
    if isinstance(spec, EnvSpec) and known is not None and not several:
        own = {k: v for k, v in spec.kwargs.items() if known.kwargs.get(k, spec) != v}
        same = spec.max_episode_steps == known.max_episode_steps
        if same and not spec.additional_wrappers and all(map(_is_plain, own.values())):
            return spec.id, own
    name = None if is_instance(source) else references.name_of(source)
    return name or references.unnamed(label_of(source).strip("'")), {}


def name_function(function: Callable[..., Any]) -> str:
    """The name of a cost function, for run.json."""
    return references.name_of(function) or references.unnamed(
        getattr(function, "__name__", type(function).__name__)
    )


def _is_plain(value: object) -> bool:
    return value is None or isinstance(value, bool | int | float | str)


def resolve(
    source: EnvSource,
    known: Callable[[], tuple[str, ...]] = tuple,
    args: Mapping[str, object] | None = None,
) -> EnvSource:
    """Turn a name into a spec or a factory, which can be sent to other processes.

    The error for an unknown id suggests the nearest of Gymnasium's and of those of `known`.
    """
    if isinstance(source, Factory):
        return source
    if isinstance(source, str):
        if references.split(source) is None:
            source = _spec(source, known)
        else:
            source = references.load(source)
    if isinstance(source, EnvSpec):
        source = deepcopy(source)
        source.kwargs.update(args or {})
        return source
    if is_instance(source):
        if args:
            raise ValueError(
                f"env_args cannot change Env {label_of(source)}, which is made already: pass its "
                "class or a function that makes it."
            )
        return source
    if not callable(source):
        raise ValueError(
            f"env={source!r} is not an environment: pass a Gymnasium id, a function that makes "
            "an environment, or an environment with reset and step."
        )
    return Factory(source, dict(args or {}))


def same_body(name: str, ours: Iterable[str]) -> str | None:
    """A native task whose name contains this word: SafetyHalfCheetahVelocity for halfcheetah."""
    word = name.lower().partition("-v")[0]
    return next((one for one in ours if len(word) > 2 and word in one.lower()), None)


def _spec(name: str, known: Callable[[], tuple[str, ...]]) -> EnvSpec:
    """Gymnasium's spec of an id, after importing the package before its colon."""
    package, colon, own = name.partition(":")
    if colon:
        references.import_place(package)
    try:
        return gym.spec(own if colon else name)
    except (gym.error.Error, ModuleNotFoundError) as error:
        close = same_body(name, known()) or near_miss(name, [*gym.registry, *known()])
        hint = f"did you mean {close!r}? " if close else ""
        raise ValueError(
            f"unknown env {name!r}; {hint}`holdfast envs` shows ours, gymnasium.registry others; "
            "your own is module:Class or path/to/file.py:Class, and 'package:Name-v0' imports a "
            "package that registers its own."
        ) from error


def open_single(source: EnvSource) -> Any:
    """Make (or take) one environment."""
    if is_instance(source):
        return source
    make = cast("Callable[[], Any]", source)
    try:
        with named(lambda: f"the construction of Env {label_of(source)}", noted=False):
            env = _registered(source) if isinstance(source, str | EnvSpec) else make()
    except EnvFailure as failure:
        error = failure.__cause__
        if not isinstance(error, ImportError | gym.error.DependencyNotInstalled):
            raise
        raise ValueError(
            f"Env {label_of(source)} cannot be made: {error}; install what it needs."
        ) from error
    if not is_instance(env):
        raise ValueError(
            f"factory {label_of(source)} returned {env!r}: it must return an environment."
        )
    return env


def _registered(source: str | EnvSpec) -> Any:
    try:
        # Gymnasium's passive checker slows every step and repeats the rules of check_env.
        return gym.make(source, disable_env_checker=True)
    except TypeError as error:  # of its arguments, with Gymnasium's words on which
        raise ValueError(
            f"Env {label_of(source)} cannot be made: {error}; correct env_args."
        ) from error


def close_all(envs: list[Any]) -> None:
    """Close and remove the environments."""
    while envs:
        env = envs.pop()
        if hasattr(env, "close"):
            env.close()


def reset_env(env: Any, seed: int | None = None) -> Any:
    """The first observation of a new episode."""
    returned = env.reset() if seed is None else env.reset(seed=seed)
    if not (isinstance(returned, tuple) and len(returned) == 2 and hasattr(returned[1], "keys")):
        raise ValueError(
            f"reset() of Env {label_of(env)} returned {_kind(returned)}, expected (obs, info): "
            "it follows an old Gym interface; bring it to Gymnasium's."
        )
    return returned[0]


def step_env(env: Any, obs: Any, action: Any) -> Transition:
    """One step of five (Gymnasium) or six (Safety-Gymnasium) return values."""
    returned = env.step(action)
    match returned:
        case (next_obs, reward, terminated, truncated, info):
            return Transition(obs, action, next_obs, reward, None, terminated, truncated, info)
        case (next_obs, reward, cost, terminated, truncated, info):
            return Transition(obs, action, next_obs, reward, cost, terminated, truncated, info)
        case _:
            raise ValueError(
                f"step() of Env {label_of(env)} returned {_kind(returned)}, expected (obs, reward, "
                "terminated, truncated, info), or six values with the cost after the reward."
            )


def inspect_env(
    env: Any,
    constraints: Sequence[str] | None,
    cost: CostFunction | None,
    clip_actions: bool,
    timeout: float,
) -> Interface:
    """Find spaces and cost source by one seeded reset and step; the caller resets again."""
    label = label_of(env)
    if isinstance(env, gym.vector.VectorEnv):
        raise ValueError(
            f"Env {label} is vectorised already: let the function that makes it take num_envs, or "
            "pass its result."
        )
    native_observations = getattr(env, "observation_space", None)
    native_actions = getattr(env, "action_space", None)
    observation_space = flat_observation_space(native_observations, label)
    action_space = plain_action_space(native_actions, label)
    assert native_observations is not None and native_actions is not None
    obs = reset_env(env, seed=0)
    action = to_native(native_actions, still_action(action_space)[None], clip_actions)[0]
    source = find_cost(label, step_env(env, obs, action), constraints, cost)
    return Interface(
        label, native_observations, native_actions, observation_space, action_space, source,
        clip_actions, time_limit_of(env), timeout,
    )  # fmt: skip


def time_limit_of(env: Any) -> int | None:
    """The time limit that Gymnasium has in a wrapper or in the spec."""
    if isinstance(env, gym.wrappers.TimeLimit):
        return env._max_episode_steps  # pyright: ignore[reportPrivateUsage]
    if isinstance(env, gym.Wrapper):
        return time_limit_of(cast("Any", env).env)
    return getattr(getattr(env, "spec", None), "max_episode_steps", None)


def _kind(returned: Any) -> str:
    if isinstance(returned, tuple):
        return f"{len(returned)} values"
    return f"a {type(returned).__name__}"
