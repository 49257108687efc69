# SPDX-License-Identifier: Apache-2.0
"""Many observations of one space at once: flat rows of the numbers that `spaces.flatten` gives."""

from collections.abc import Callable, Mapping
from typing import Any, cast

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray


def as_array(value: Any) -> NDArray[Any]:
    """NumPy's, also of a tensor on another device."""
    return np.asarray(value.detach().cpu() if hasattr(value, "detach") else value)


def mapped(function: Callable[..., Any], first: Any, *others: Any) -> Any:
    """Of the arrays of nested dictionaries and tuples."""
    if isinstance(first, Mapping):
        parts = cast("Mapping[str, Any]", first)
        return {k: mapped(function, v, *(o[k] for o in others)) for k, v in parts.items()}
    if isinstance(first, tuple):
        parts = cast("tuple[Any, ...]", first)
        return tuple(mapped(function, *each) for each in zip(parts, *others, strict=True))
    return function(first, *others)


def row_of(value: Any, i: int) -> Any:
    """One of many."""
    return mapped(lambda part: as_array(part)[i], value)


def read_observations(space: gym.Space[Any], given: Any) -> tuple[NDArray[Any], bool]:
    """(flat [n, O], whether it was one) of an observation as the environment gives it, or of many.

    Many are what a VectorEnv gives: each part has a leading n.
    """
    try:
        extra = _extra_axes(space, given)
        if extra not in (0, 1):
            raise ValueError(f"{extra} axes too many")
        many = mapped(lambda part: as_array(part)[None], given) if extra == 0 else given
        flat = flatten_batch(space, many, _count(space, many))
        dtype = np.float64 if spaces.flatten_space(space).dtype == np.float64 else np.float32
        flat = flat.astype(dtype)
    except (TypeError, ValueError, KeyError, IndexError, AttributeError) as error:
        raise ValueError(
            f"this is no observation of the environment that was trained on ({error}): pass what "
            f"its reset and step return, {space}, or many of them with a leading axis."
        ) from None
    if not np.isfinite(flat).all():
        raise ValueError("the observation holds NaN or infinity: no action would be right.")
    return flat, extra == 0


def _first_leaf(space: gym.Space[Any], obs: Any) -> tuple[gym.Space[Any], Any]:
    while isinstance(space, spaces.Dict | spaces.Tuple):
        key: Any = next(iter(space.spaces)) if isinstance(space, spaces.Dict) else 0
        space, obs = space.spaces[key], obs[key]
    return space, obs


def _extra_axes(space: gym.Space[Any], obs: Any) -> int:
    leaf, value = _first_leaf(space, obs)
    return np.ndim(as_array(value)) - len(leaf.shape or ())


def _count(space: gym.Space[Any], obs: Any) -> int:
    return len(as_array(_first_leaf(space, obs)[1]))


def flatten_batch(space: gym.Space[Any], obs: Any, count: int) -> NDArray[Any]:
    """[n, O] of n observations, each part with a leading n."""
    match space:
        case spaces.Dict():
            parts = [flatten_batch(s, obs[key], count) for key, s in space.spaces.items()]
            return np.concatenate(parts, 1)
        case spaces.Tuple():
            pairs = zip(space.spaces, obs, strict=True)
            return np.concatenate([flatten_batch(s, part, count) for s, part in pairs], 1)
        case spaces.Discrete():
            return _one_hot(_shaped(obs, (count,)) - int(space.start), int(space.n))
        case spaces.MultiDiscrete():
            sizes = space.nvec.reshape(-1)
            chosen = _shaped(obs, (count, *space.shape)).reshape(count, len(sizes))
            chosen = chosen - space.start.reshape(-1)
            return np.concatenate(
                [_one_hot(chosen[:, i], int(size)) for i, size in enumerate(sizes)], 1
            )
        case spaces.Box() | spaces.MultiBinary():
            return _shaped(obs, (count, *space.shape)).reshape(count, -1)
        case _:
            return np.stack([cast("NDArray[Any]", spaces.flatten(space, one)) for one in obs])


def _shaped(obs: Any, shape: tuple[int, ...]) -> NDArray[Any]:
    array = as_array(obs)
    if array.shape != shape:
        raise ValueError(f"a part has shape {array.shape} where {shape} was expected")
    return array


def _one_hot(chosen: NDArray[Any], size: int) -> NDArray[np.float32]:
    if (chosen < 0).any() or (chosen >= size).any():
        raise ValueError(
            f"an observation of {int(chosen.min())} to {int(chosen.max())} lies outside its "
            f"{size} choices: make it agree with observation_space."
        )
    return (chosen[:, None] == np.arange(size)).astype(np.float32)
