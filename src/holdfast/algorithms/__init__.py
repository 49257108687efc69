# SPDX-License-Identifier: Apache-2.0
"""One file for each algorithm: frozen hyper-parameters, `init`, `update`. No base class.

A variant that is only a setting is a constructor function. `ALGORITHMS` is the register: a name as
in the published results, what it makes, and the run settings that belong to it.
"""

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from jax import Array

from holdfast.algorithms.ctrpo import CTRPO, c_npg, c_trpo_no_hysteresis
from holdfast.algorithms.trpo import TRPO, npg
from holdfast.core.critic import CriticFit
from holdfast.core.types import Batch, Learner, Metrics

__all__ = ["ALGORITHMS", "CTRPO", "TRPO", "Algorithm", "Entry", "c_npg", "find", "npg"]


class Algorithm(Protocol):
    """A value with hyper-parameters; `update` is pure and compiled once."""

    @property
    def critic(self) -> CriticFit:
        """How its critics are made and fitted."""
        ...

    def init(self, constraints: int) -> Any:
        """The algorithm's own state (a pytree of arrays or None)."""
        ...

    def update(self, learner: Learner, batch: Batch, key: Array) -> tuple[Learner, Metrics]:
        """One epoch's learning."""
        ...


@dataclass(frozen=True)
class Entry:
    """A line of the register."""

    make: Callable[[], Algorithm]
    summary: str
    settings: Mapping[str, object] = field(default_factory=dict[str, object])
    """Run settings that differ from their defaults for this name."""


ALGORITHMS: dict[str, Entry] = {
    "c-trpo": Entry(CTRPO, "trust regions that contain only safe policies"),
    "c-trpo-no-hysteresis": Entry(c_trpo_no_hysteresis, "C-TRPO, recovery ends at the limit"),
    "c-trpo-noise": Entry(
        c_trpo_no_hysteresis,
        "C-TRPO (no hysteresis) with noisy cost values, the paper's ablation",
        {"cost_value_noise": 0.1},
    ),
    "c-npg": Entry(c_npg, "C-TRPO's natural step without a line search"),
    "trpo": Entry(TRPO, "reward only, KL trust region"),
    "npg": Entry(npg, "reward only, natural gradient without a line search"),
}


def find(name: str) -> str:
    """The registered name, case, hyphens and underscores ignored."""
    plain = lambda text: text.lower().replace("-", "").replace("_", "")
    names = {plain(known): known for known in ALGORITHMS}
    if plain(name) in names:
        return names[plain(name)]
    close = difflib.get_close_matches(plain(name), names, n=1)
    hint = f"did you mean '{names[close[0]]}'? " if close else ""
    raise ValueError(f"unknown algorithm '{name}'; {hint}`holdfast list` shows all.")
