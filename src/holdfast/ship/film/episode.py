# SPDX-License-Identifier: Apache-2.0
"""Selection and recording of episodes for films."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Address:
    """Episode `index` of an evaluation with `seed`."""

    seed: int
    index: int = 0

    def __str__(self) -> str:
        return f"seed {self.seed + self.index}"


@dataclass(frozen=True)
class Episode:
    """One episode, step by step."""

    address: Address
    rewards: NDArray[np.float64]
    """[T]"""
    costs: NDArray[np.float64]
    """[T, K] as they count against the limits: discounted if the limits are on discounted sums."""
    actions: NDArray[np.float64]
    """[T, A]"""

    @property
    def length(self) -> int:
        return len(self.rewards)


@dataclass(frozen=True)
class Instant:
    """One step of an episode."""

    reward: float
    cost: NDArray[np.float64]
    """[K]"""
    action: NDArray[np.float64]
    """[A]"""
    last: bool
    """The environment has already started the next episode, so this step cannot be drawn."""


def episode_of(address: Address, played: Sequence[Instant]) -> Episode:
    """The episode of these steps."""
    return Episode(
        address,
        np.array([instant.reward for instant in played]),
        np.array([instant.cost for instant in played]),
        np.array([instant.action for instant in played]),
    )


def choose(
    episodes: int,
    seeds: Sequence[int],
    worst_of: int,
    ranked: Callable[[], list[Address]],
    seed: int,
) -> list[Address]:
    """The requested episodes: the first ones, those of chosen seeds, or the worst of several."""
    if seeds and worst_of:
        raise ValueError(
            "seeds and worst_of cannot be combined, as seeds already selects the "
            "episodes: pass one of them."
        )
    if episodes < 1 or 0 < worst_of < episodes:
        raise ValueError(
            f"episodes={episodes} must be at least 1, and at most worst_of={worst_of} if given."
        )
    if seeds:
        return [Address(chosen) for chosen in seeds]
    return ranked()[:episodes] if worst_of else [Address(seed, i) for i in range(episodes)]
