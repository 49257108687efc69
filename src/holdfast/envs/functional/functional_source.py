# SPDX-License-Identifier: Apache-2.0
"""Recognise functional environments and make those of suites; imports no JAX.

    reset(key) -> state           step(state, action) -> state

A state has `obs`, `reward`, `done` and optional dictionaries `metrics` and `info`, as in Brax and
MuJoCo Playground. User-defined environments can use `states.EnvState`.
"""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeGuard

from holdfast.envs.base import Facts
from holdfast.process import pip_install
from holdfast.settings import nearest

DECLARED = ("time_limit", "cost_bounds", "cost_limits")
"""Attributes by which an environment declares facts."""
SUITES = ("brax", "playground")
"""Names of the suites, the part of an id before the slash."""


@dataclass(frozen=True)
class Functional:
    """A functional environment with its label and time limit."""

    env: Any
    label: str
    """Its name in messages."""
    facts: Facts = Facts()
    """Its time limit: None if only the environment ends episodes. Its costs' bounds and limits."""


def is_functional(env: object) -> bool:
    """Whether `step` takes a state and an action; of a class or of an environment."""
    step = inspect.getattr_static(env, "step", None)
    if step is None or not hasattr(env, "reset"):
        return False
    try:
        found = inspect.signature(getattr(env, "step")).parameters.values()  # noqa: B009
    except (TypeError, ValueError):
        return False
    own = isinstance(env, type) and inspect.isfunction(step)  # and so the first one is `self`
    needed = [p for p in found if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD]
    return len(needed) == 2 + own


def described(env: Any, label: str = "") -> Functional:
    """An environment with what it declares by attributes of these names, if anything."""
    declared = {name: getattr(env, name) for name in DECLARED if hasattr(env, name)}
    return Functional(env, label or repr(type(env).__name__), Facts(**declared))


def is_suite_id(name: object) -> TypeGuard[str]:
    """Whether it is an id such as brax/ant."""
    return isinstance(name, str) and name.partition("/")[0] in SUITES and ":" not in name


def open_suite(name: str, args: Mapping[str, object] | None = None) -> Functional:
    """The environment of a suite's id, made with these arguments."""
    suite, _, own = name.partition("/")
    make = _brax if suite == "brax" else _playground
    try:
        return make(own, dict(args or {}))
    except ImportError as error:
        raise ValueError(
            f"Env {name!r} cannot be made: {error}; install what it needs with "
            f"{pip_install(suite)}."
        ) from error


def _brax(name: str, args: dict[str, Any]) -> Functional:
    """A Brax environment; the arguments are those of its class, and `episode_length`."""
    from brax import envs  # pyright: ignore[reportMissingImports]

    known: Any = getattr(envs, "_envs")  # noqa: B009 - there is no public list
    if name not in known:
        raise ValueError(f"Brax has no environment {name!r}{nearest(name, sorted(known))}")
    facts = Facts(time_limit=_length(args.pop("episode_length", 1000)))
    try:
        return Functional(envs.get_environment(name, **args), repr(f"brax/{name}"), facts)
    except TypeError as error:
        raise ValueError(f"Env 'brax/{name}' cannot be made: {error}; correct env_args.") from error


def _playground(name: str, args: dict[str, Any]) -> Functional:
    """A Playground environment; the arguments replace entries of its configuration."""
    try:
        from mujoco_playground import registry  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise
    except Exception as error:  # it clones a repository when it is first imported
        raise ValueError(
            f"importing MuJoCo Playground raised {type(error).__name__}: {error}; when it is first "
            "imported it downloads its models (mujoco_menagerie) from GitHub: do that once where "
            "the network allows it."
        ) from error
    if name not in registry.ALL_ENVS:
        known = sorted(registry.ALL_ENVS)
        raise ValueError(f"Playground has no environment {name!r}{nearest(name, known)}")
    config: Any = registry.get_default_config(name)
    try:
        config.update_from_flattened_dict(args)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"Env 'playground/{name}' cannot be made: {error}; correct env_args, which replace "
            "entries of its configuration."
        ) from error
    if config.get("action_repeat", 1) != 1:
        raise ValueError(
            f"Env 'playground/{name}' repeats actions (action_repeat={config.action_repeat}), "
            "which is not supported; set it to 1, or lengthen ctrl_dt instead."
        )
    env = registry.load(name, config=config)
    facts = Facts(time_limit=_length(config.episode_length))
    return Functional(env, repr(f"playground/{name}"), facts)


def _length(value: Any) -> int:
    if not isinstance(value, int) or value < 1:
        raise ValueError(f"episode_length={value!r} must be a whole number of at least 1.")
    return value
