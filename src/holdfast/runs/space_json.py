# SPDX-License-Identifier: Apache-2.0
"""Spaces as plain data, for run.json, and back."""

from collections.abc import Mapping
from math import prod
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

LARGEST = 10**7
"""Largest number of elements of a space: more than any network here needs, and safe to allocate."""
MOST_AXES = 32
NUMBERS = frozenset(
    "float16 float32 float64 int8 int16 int32 int64 uint8 uint16 uint32 uint64".split()
)


def describe_space(space: gym.Space[Any]) -> dict[str, Any]:
    """A space as plain data; equal bounds are stored as one number."""
    match space:
        case spaces.Box():
            bounds = {"low": _bound(space.low), "high": _bound(space.high)}
            return {"type": "box", "dtype": str(space.dtype), "shape": list(space.shape), **bounds}
        case spaces.Discrete():
            return {"type": "discrete", "n": int(space.n), "start": int(space.start)}
        case spaces.MultiDiscrete():
            data = {"sizes": space.nvec.tolist(), "start": space.start.tolist()}
            return {"type": "multi-discrete", **data}
        case spaces.MultiBinary():
            return {"type": "multi-binary", "shape": list(space.shape)}
        case spaces.Dict():
            parts = [[key, describe_space(part)] for key, part in space.spaces.items()]
            return {"type": "dict", "parts": parts}
        case spaces.Tuple():
            return {"type": "tuple", "parts": [describe_space(part) for part in space.spaces]}
        case _:
            return {"type": "other", "name": type(space).__name__}


def parse_space(data: Mapping[str, Any]) -> Any:
    """The space of a description; None for one that cannot be described."""
    if _size(data) > LARGEST:  # before anything of that size is allocated
        raise ValueError("a space is too large")
    return _parse(data)


def _size(data: Mapping[str, Any]) -> int:
    """The number of elements of a space."""
    if "parts" in data:
        inner = [part if data["type"] == "tuple" else part[1] for part in data["parts"]]
        return sum(map(_size, inner))
    return prod(parse_shape(data["shape"])) if "shape" in data else 1


def _parse(data: Mapping[str, Any]) -> Any:
    match data["type"]:
        case "box":
            return _parse_box(data)
        case "discrete":
            return spaces.Discrete(int(data["n"]), start=int(data["start"]))
        case "multi-discrete":
            sizes = np.array(data["sizes"], np.int64)
            start = np.array(data.get("start", np.zeros_like(sizes)), np.int64)
            if start.shape != sizes.shape:
                raise ValueError("a MultiDiscrete needs a start for each of its sizes")
            return spaces.MultiDiscrete(sizes, start=start)
        case "multi-binary":
            shape = parse_shape(data["shape"])
            return spaces.MultiBinary(shape[0] if len(shape) == 1 else shape)
        case "dict":
            parts = [(str(key), _parse(part)) for key, part in data["parts"]]
            return None if None in dict(parts).values() else spaces.Dict(parts)
        case "tuple":
            inner = [_parse(part) for part in data["parts"]]
            return None if None in inner else spaces.Tuple(inner)
        case "other":
            return None
        case kind:
            raise ValueError(f"unknown space {kind!r}")


def _bound(values: NDArray[Any]) -> Any:
    first = values.flat[0] if values.size else 0.0
    return float(first) if (values == first).all() else values.tolist()


def parse_shape(sizes: Any) -> tuple[int, ...]:
    """The shape of a space; ValueError if it is too large."""
    shape = tuple(int(size) for size in sizes)
    if len(shape) > MOST_AXES or any(size < 0 for size in shape) or prod(shape) > LARGEST:
        raise ValueError(f"a space of shape {str(shape)[:80]} is too large, or none at all")
    return shape


def _parse_box(data: Mapping[str, Any]) -> spaces.Box:
    if data["dtype"] not in NUMBERS:
        raise ValueError(f"a Box of {data['dtype']!r} does not contain numbers")
    dtype = np.dtype(data["dtype"])
    low, high = np.array(data["low"], np.float64), np.array(data["high"], np.float64)
    shape = parse_shape(data.get("shape", low.shape))
    if low.shape not in ((), shape) or high.shape not in ((), shape):
        raise ValueError(f"the bounds of a Box of shape {shape} have another one")
    with np.errstate(all="ignore"):  # a bound beyond the type is the type's own
        bounds = [np.broadcast_to(bound, shape).astype(dtype) for bound in (low, high)]
    return spaces.Box(bounds[0], bounds[1], shape, dtype.type)
