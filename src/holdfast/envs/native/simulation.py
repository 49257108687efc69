# SPDX-License-Identifier: Apache-2.0
"""The interface of a family of native tasks: N simulators that step, restart and save together.

A simulation defines worlds, rewards and costs. Time limits, automatic resets and constraints are
the same for every family and are in `batch.lockstep`.
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
    """The result of one step of the whole batch, before episodes are restarted."""

    obs: Array
    """[N, O]"""
    reward: Array
    """[N]"""
    costs: Array
    """[N, C] raw 0/1 values in the order of `cost_keys`; NaN if a cost does not apply at
    present.
    """
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
        """The engine's models; they may be changed before the first episode."""
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
        """The whole state."""
        ...

    def load(self, saved: dict[str, NDArray[Any]]) -> None:
        """Restore the state of `save`."""
        ...


class Simulated:
    """A batch with its simulators in this process, which can be drawn."""

    simulation: Simulation
