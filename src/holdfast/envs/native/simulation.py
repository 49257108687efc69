# SPDX-License-Identifier: Apache-2.0
"""What a family of native tasks provides: N simulators that advance, restart and save together.

A simulation knows worlds, rewards and costs. It knows nothing of time limits, automatic resets,
constraints or workers: those are the same for every family and live in `batch.lockstep`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Indices = NDArray[np.intp]


@dataclass(frozen=True)
class Outcome:
    """What one step of the whole batch did, before any episode is restarted."""

    obs: Array
    """[N, O]"""
    reward: Array
    """[N]"""
    costs: Array
    """[N, C] raw 0/1 values in the order of `cost_keys`; NaN where a cost does not apply now."""
    terminated: NDArray[np.bool_]
    """[N]"""


class Simulation(Protocol):
    """N simulators of one task."""

    num_envs: int
    obs_low: Array
    """[O]"""
    obs_high: Array
    action_low: Array
    """[A]"""
    action_high: Array
    action_dtype: type[np.floating[Any]]
    cost_keys: tuple[str, ...]
    """The first one is the original's summed cost."""
    time_limit: int

    @property
    def models(self) -> Sequence[Any]:
        """The engine's models behind them, to be altered before the first episode."""
        ...

    def seed(self, seeds: NDArray[np.int64]) -> None:
        """Give every simulator a new random generator; seeds [N]."""
        ...

    def restart(self, which: Indices) -> Array:
        """Begin new episodes in the simulators `which` [n]; returns their observations [n, O]."""
        ...

    def advance(self, action: NDArray[np.floating[Any]]) -> Outcome:
        """Apply actions [N, A], finite and of the right shape."""
        ...

    def info(self, index: int) -> dict[str, Any]:
        """The original's `info` entries of simulator `index` after its latest step."""
        ...

    def save(self) -> dict[str, NDArray[Any]]:
        """Everything the future depends on."""
        ...

    def load(self, saved: dict[str, NDArray[Any]]) -> None:
        """Undo everything since `save`."""
        ...


class Simulated:
    """A batch whose simulators are in this process, to be drawn."""

    simulation: Simulation
