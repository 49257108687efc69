# SPDX-License-Identifier: Apache-2.0
"""Conversion of foreign spaces: flat float observations, plain Box or categorical actions.

observations   Box of any shape, Discrete (one-hot), MultiBinary, MultiDiscrete, Dict, Tuple actions
Box of any shape, Discrete, MultiDiscrete, MultiBinary, all counted from 0
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeGuard, cast

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from holdfast.envs.base import ActionSpace, Floats


def _variable(space: Any) -> str:
    """The kind of a space of variable size; in a Dict or Tuple, with the name of the part."""
    parts: Any = getattr(space, "spaces", {})
    for name, part in parts.items() if isinstance(parts, Mapping) else enumerate(parts):
        if not part.is_np_flattenable:
            return f"{name}: {_variable(part)}"
    return type(space).__name__


def flat_observation_space(space: Any, label: str) -> spaces.Box:
    """The Box of shape (O,) of `flat_observation`."""
    if not is_space(space):
        raise ValueError(
            f"Env {label} has observation_space {space!r}, which is not a Gymnasium space: "
            "set it to one, for example gymnasium.spaces.Box(-1.0, 1.0, (3,))."
        )
    if not space.is_np_flattenable:
        raise ValueError(
            f"Env {label} has observations of variable size ({_variable(space)}), which no encoder "
            "reads: wrap it so that it returns a Box, Discrete, Dict or Tuple of fixed size."
        )
    flat = cast("spaces.Box", spaces.flatten_space(space))
    dtype = _float_of(flat)
    return spaces.Box(flat.low.astype(dtype), flat.high.astype(dtype), flat.shape, dtype)


def _float_of(flat: gym.Space[Any]) -> Any:
    """The dtype of observations: float64 if the environment's are, else float32."""
    return np.float64 if flat.dtype == np.float64 else np.float32


def flat_observation(space: gym.Space[Any], obs: Any) -> NDArray[Any]:
    """One observation as an array of its numbers; a Box keeps its shape."""
    if isinstance(space, spaces.Box):
        return np.asarray(obs)
    return cast("NDArray[Any]", spaces.flatten(space, obs))


def flat_parts(space: gym.Space[Any], first: int = 0) -> list[tuple[int, gym.Space[Any]]]:
    """(its first number, space) of each part of a flat observation, in their order."""
    if not isinstance(space, spaces.Dict | spaces.Tuple):
        return [(first, space)]
    inner = space.spaces.values() if isinstance(space, spaces.Dict) else space.spaces
    found: list[tuple[int, gym.Space[Any]]] = []
    for part in inner:
        found += flat_parts(part, first)
        first += spaces.flatdim(part)
    return found


def as_array(value: Any) -> NDArray[Any]:
    """A NumPy array, also from a tensor on another device."""
    return np.asarray(value.detach().cpu() if hasattr(value, "detach") else value)


def mapped(function: Callable[..., Any], first: Any, *others: Any) -> Any:
    """Apply a function to the arrays of nested dictionaries and tuples."""
    if isinstance(first, Mapping):
        parts = cast("Mapping[str, Any]", first)
        return {k: mapped(function, v, *(o[k] for o in others)) for k, v in parts.items()}
    if isinstance(first, tuple):
        parts = cast("tuple[Any, ...]", first)
        return tuple(mapped(function, *each) for each in zip(parts, *others, strict=True))
    return function(first, *others)


def row_of(value: Any, i: int) -> Any:
    """One observation of a batch."""
    return mapped(lambda part: as_array(part)[i], value)


def read_observations(space: gym.Space[Any], given: Any) -> tuple[NDArray[Any], bool]:
    """(flat [n, O], whether it was single) of one observation in the environment's form, or a
    batch.

    In a batch each part has a leading n, as in a VectorEnv.
    """
    try:
        leaf, value = _first_leaf(space, given)
        shape = as_array(value).shape
        extra = len(shape) - len(leaf.shape or ())
        if extra not in (0, 1):
            raise ValueError(f"it has {len(shape)} axes")
        many = mapped(lambda part: as_array(part)[None], given) if extra == 0 else given
        flat = flatten_batch(space, many, shape[0] if extra else 1)
        flat = flat.astype(_float_of(spaces.flatten_space(space)))
    except (TypeError, ValueError, KeyError, IndexError, AttributeError) as error:
        raise ValueError(
            f"this is not an observation of the training environment ({error}): pass what its "
            f"reset and step return, {space}, or a batch of them with a leading axis."
        ) from None
    if not np.isfinite(flat).all():
        raise ValueError(
            "the observation contains NaN or infinity: correct the environment or sensor."
        )
    return flat, extra == 0


def _first_leaf(space: gym.Space[Any], obs: Any) -> tuple[gym.Space[Any], Any]:
    while isinstance(space, spaces.Dict | spaces.Tuple):
        key: Any = next(iter(space.spaces)) if isinstance(space, spaces.Dict) else 0
        space, obs = space.spaces[key], obs[key]
    return space, obs


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


def plain_action_space(space: Any, label: str) -> ActionSpace:
    """The policy's action space: flat, counted from 0."""
    match space:
        case spaces.Box():
            if not np.issubdtype(np.dtype(space.dtype), np.floating):
                raise ValueError(
                    f"Env {label} has a Box of {space.dtype} as action space: use a float dtype, "
                    "or Discrete or MultiDiscrete for whole numbers."
                )
            return spaces.Box(space.low.reshape(-1), space.high.reshape(-1), dtype=dtype_of(space))
        case spaces.Discrete():
            return spaces.Discrete(int(space.n))
        case spaces.MultiDiscrete():
            return spaces.MultiDiscrete(space.nvec.reshape(-1))
        case spaces.MultiBinary():
            return spaces.MultiDiscrete([2] * int(np.prod(space.shape)))
        case _:
            raise ValueError(
                f"Env {label} has action space {space!r}, but policies act in Box, Discrete, "
                "MultiDiscrete or MultiBinary: wrap it to one of these."
            )


def to_native(space: gym.Space[Any], action: NDArray[Any], clip: bool) -> NDArray[Any]:
    """Plain actions of n environments, [n, ...], in the environment's own space."""
    shaped = action.reshape(len(action), *(space.shape or ()))
    match space:
        case spaces.Box():
            # Gymnasium's contract: actions lie in the space. Many environments assert it.
            shaped = np.clip(shaped, space.low, space.high) if clip else shaped
        case spaces.Discrete() | spaces.MultiDiscrete():
            shaped = shaped + space.start
        case _:
            pass
    return shaped.astype(dtype_of(space))  # a copy: environments may keep or change their action


def still_action(space: ActionSpace) -> NDArray[Any]:
    """A fixed plain action: 0, or the bound nearest to it."""
    if isinstance(space, spaces.Box):
        return np.clip(np.zeros(space.shape, dtype_of(space)), space.low, space.high)
    return np.zeros(space.shape or (), np.int64)


def sample_actions(space: ActionSpace, num_envs: int, rng: np.random.Generator) -> NDArray[Any]:
    """Random plain actions: uniform where bounded, normal where not."""
    match space:
        case spaces.Discrete():
            return rng.integers(0, int(space.n), num_envs)
        case spaces.MultiDiscrete():
            return rng.integers(0, space.nvec, (num_envs, len(space.nvec)))
        case spaces.Box():
            normal = rng.normal(size=(num_envs, *space.shape))
            bounded = np.isfinite(space.low) & np.isfinite(space.high)
            low, high = np.where(bounded, space.low, 0.0), np.where(bounded, space.high, 1.0)
            uniform = low + (high - low) * rng.random((num_envs, *space.shape))
            sampled: Floats = np.where(bounded, uniform, np.clip(normal, space.low, space.high))
            return sampled.astype(dtype_of(space))


def is_space(space: Any) -> TypeGuard[gym.Space[Any]]:
    return isinstance(space, gym.Space)


def dtype_of(space: gym.Space[Any]) -> Any:
    """Its dtype; untyped, since Gymnasium declares a Box of any kind of number."""
    return space.dtype
