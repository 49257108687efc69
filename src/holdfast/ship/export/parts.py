# SPDX-License-Identifier: Apache-2.0
"""The parts of an observation, which are the inputs of an exported policy.

A Dict or Tuple has one for each of its leaves, named by its path (observation/gear/0); any other
space is one part, `observation`. The policy concatenates them: numbers and bits unchanged, choices
one-hot.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

WHOLE = "observation"
BUDGET = "budget"
"""Name of the input for the remaining budgets, in [-1, 1]."""


@dataclass(frozen=True)
class Part:
    """A leaf of the observation space."""

    path: tuple[str | int, ...]
    """Its path of keys and indices."""
    shape: tuple[int, ...]
    sizes: tuple[int, ...] = ()
    """Number of choices of each component; empty for numbers."""
    starts: tuple[int, ...] = ()
    """Number of the first choice of each component."""
    root: str = WHOLE
    """The name of its input."""

    @property
    def name(self) -> str:
        return "/".join([self.root, *map(str, self.path)])

    @property
    def width(self) -> int:
        """Its size in the policy's flat input."""
        return sum(self.sizes) if self.sizes else prod(self.shape)


def parts_of(space: gym.Space[Any], path: tuple[str | int, ...] = ()) -> tuple[Part, ...] | None:
    """The parts in the order of the flat input; None if some part is of another kind."""
    match space:
        case spaces.Dict() | spaces.Tuple():
            inner: Any = space.spaces
            keyed = inner.items() if isinstance(space, spaces.Dict) else enumerate(inner)
            found = [parts_of(part, (*path, key)) for key, part in keyed]
            whole = [parts for parts in found if parts is not None]
            return sum(whole, ()) if len(whole) == len(found) else None
        case spaces.Discrete():
            return (Part(path, (), (int(space.n),), (int(space.start),)),)
        case spaces.MultiDiscrete():
            sizes, starts = space.nvec.reshape(-1).tolist(), space.start.reshape(-1).tolist()
            return (Part(path, tuple(space.shape), tuple(sizes), tuple(starts)),)
        case spaces.Box() | spaces.MultiBinary():
            return (Part(path, tuple(space.shape)),)
        case _:
            return None


def possible(
    parts: Sequence[Part], flat: NDArray[np.float64], rng: np.random.Generator
) -> NDArray[np.float64]:
    """Flat observations [n, O] with a random one-hot choice in each discrete component."""
    flat, first = flat.copy(), 0
    for part in parts:
        for size in part.sizes:
            chosen = rng.integers(0, size, len(flat))
            flat[:, first : first + size] = chosen[:, None] == np.arange(size)
            first += size
        first += 0 if part.sizes else part.width
    return flat


def apart(parts: Sequence[Part], flat: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
    """Name → [n, ...] of flat observations [n, O], in the environment's form."""
    ends = np.cumsum([part.width for part in parts])[:-1]
    blocks = np.split(flat, ends, axis=1)
    given = {}
    for part, block in zip(parts, blocks, strict=True):
        if part.sizes:
            hot = np.split(block, np.cumsum(part.sizes)[:-1], axis=1)
            block = np.stack([one.argmax(1) for one in hot], 1) + np.array(part.starts, np.float64)
        given[part.name] = block.reshape(len(flat), *part.shape)
    return given


def nested(space: gym.Space[Any], leaves: Iterator[Any]) -> Any:
    """The dictionaries and tuples of a space around its leaves."""
    if isinstance(space, spaces.Dict):
        return {key: nested(part, leaves) for key, part in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(nested(part, leaves) for part in space.spaces)
    return next(leaves)
