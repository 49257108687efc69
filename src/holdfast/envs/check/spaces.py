# SPDX-License-Identifier: Apache-2.0
"""Rules of `check_env` about spaces, and whether observations keep to theirs."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from gymnasium import spaces

from holdfast.envs.check.evidence import Finding, Recording
from holdfast.envs.foreign.spaces import dtype_of


def observation_space_findings(space: Any) -> Iterator[Finding]:
    leaves = list(_leaves(space))
    if sum(int(np.prod(leaf.shape)) for leaf in leaves if leaf.shape is not None) == 0:
        yield Finding(
            "error", "observation space",
            f"observation_space {space} holds no numbers.", "observe at least one.",
        )  # fmt: skip
    for leaf in leaves:
        if not isinstance(leaf, spaces.Box):
            continue
        if not (leaf.low <= leaf.high).all():
            yield Finding(
                "error", "observation space",
                "a bound of observation_space is NaN, or low is above high.",
                "give each number a range, (-inf, inf) if unknown.",
            )  # fmt: skip
        if leaf.dtype == np.uint8 and len(leaf.shape) >= 2:
            yield Finding(
                "warning", "image observation",
                f"observations contain an image of shape {leaf.shape}; an MLP gets it flattened.",
                "observe features instead, or reduce the image before.",
            )  # fmt: skip


def action_space_findings(space: Any) -> Iterator[Finding]:
    match space:
        case spaces.Box():
            if not (np.isfinite(space.low).all() and np.isfinite(space.high).all()):
                yield Finding(
                    "warning", "unbounded actions",
                    "action_space has infinite bounds, so actions stay as the policy gives them.",
                    "give the range that makes sense; actions are then scaled to it.",
                )  # fmt: skip
            if not (space.low < space.high).all():
                yield Finding(
                    "error", "action space",
                    "a bound of action_space is NaN, or low is not below high.",
                    "give each action a range.",
                )  # fmt: skip
        case spaces.Discrete() if space.n == 1:
            yield Finding(
                "warning", "action space",
                "action_space has one action, so there is nothing to learn.", "offer at least two.",
            )  # fmt: skip
        case _:
            pass


def observation_findings(space: Any, seen: Recording) -> Iterator[Finding]:
    """Each kind of fault once, with the place where it first occurred."""
    found: dict[str, Finding] = {}
    places = [("reset()", obs) for obs in seen.firsts]
    places += [(f"step {i + 1}", step.next_obs) for i, step in enumerate(seen.steps)]
    for where, obs in places:
        fault = _observation_fault(space, obs, where)
        if fault is not None:
            found.setdefault(fault.check, fault)
    yield from found.values()


def _observation_fault(space: Any, obs: Any, where: str) -> Finding | None:
    for leaf, value in _values(space, obs):
        array = np.asarray(value)
        if leaf.shape is not None and array.shape != leaf.shape:
            return Finding(
                "error", "observation shape",
                f"{where} returned an observation of shape {array.shape}, not {leaf.shape}.",
                "make it agree with observation_space.",
            )  # fmt: skip
        if np.issubdtype(array.dtype, np.inexact) and not np.isfinite(array).all():
            return Finding(
                "error", "observation not finite",
                f"{where} returned an observation with NaN or infinity.",
                "find the division or overflow it comes from; training stops at the first one.",
            )  # fmt: skip
    if space.contains(obs):
        return None
    if _with_dtype(space, obs):
        return Finding(
            "note", "observation dtype",
            f"{where} returned an observation of another type than observation_space declares.",
            "convert it, for example with .astype(self.observation_space.dtype).",
        )  # fmt: skip
    return Finding(
        "warning", "observation outside",
        f"{where} returned an observation outside observation_space.",
        "widen the bounds or correct the observation.",
    )  # fmt: skip


def _leaves(space: Any) -> Iterator[Any]:
    if isinstance(space, spaces.Dict | spaces.Tuple):
        inner = space.spaces.values() if isinstance(space, spaces.Dict) else space.spaces
        for part in inner:
            yield from _leaves(part)
    else:
        yield space


def _values(space: Any, obs: Any) -> Iterator[tuple[Any, Any]]:
    """Leaf spaces with their values; parts that do not exist are left to `contains`."""
    if isinstance(space, spaces.Dict):
        for key, part in space.spaces.items():
            if isinstance(obs, dict) and key in obs:
                yield from _values(part, obs[key])
    elif isinstance(space, spaces.Tuple):
        for part, value in zip(space.spaces, obs, strict=False):
            yield from _values(part, value)
    else:
        yield space, obs


def _with_dtype(space: Any, obs: Any) -> bool:
    """Whether only the dtype (or a list instead of an array) keeps obs out of a Box."""
    if not isinstance(space, spaces.Box):
        return False
    array = np.asarray(obs)
    return array.shape == space.shape and space.contains(array.astype(dtype_of(space)))
