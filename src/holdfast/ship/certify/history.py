# SPDX-License-Identifier: Apache-2.0
"""The costs of a run while it learned: regret, excursions, recoveries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.records.excursions import Excursion, excursions
from holdfast.records.rows import Row


@dataclass(frozen=True)
class History:
    """The history of a run from progress.csv; empty if an agent was saved without it."""

    steps: NDArray[np.float64]
    """[E] environment steps"""
    returns: NDArray[np.float64]
    """[E]"""
    costs: NDArray[np.float64]
    """[E, K] mean episode costs of each epoch's own episodes"""
    limits: Mapping[str, float]
    regret: float
    """Σ over epochs and constraints of max(0, cost − limit)"""
    recovering: int
    """Epochs whose update only reduced the cost."""
    excursions: tuple[Excursion, ...]

    def summary(self) -> dict[str, Any]:
        """Plain data."""
        epochs = len(self.steps)
        return {
            "epochs": epochs,
            "env_steps": int(self.steps[-1]) if epochs else 0,
            "return_last": float(self.returns[-1]) if epochs else None,
            "cost_last": dict(zip(self.limits, self.costs[-1].tolist(), strict=True))
            if epochs
            else None,
            "cost_regret": self.regret,
            "epochs_over_limit": sum(e.epochs for e in self.excursions),
            "recoveries": sum(e.ended for e in self.excursions),
            "epochs_recovering": self.recovering,
            "excursions": [asdict(excursion) for excursion in self.excursions],
        }


def history(rows: Sequence[Row], limits: Mapping[str, float]) -> History:
    """From the rows of progress.csv."""
    names = ["ep_cost_raw"] if len(limits) == 1 else [f"ep_cost_raw/{name}" for name in limits]
    column = lambda name: np.array([float(row[name]) for row in rows], np.float64)
    costs = np.array([[float(row[name]) for name in names] for row in rows]).reshape(-1, len(names))
    over = costs - np.array(list(limits.values()))
    return History(
        steps=column("env_steps"),
        returns=column("ep_return_raw"),
        costs=costs,
        limits=limits,
        regret=float(np.maximum(over, 0.0).sum()),
        recovering=sum(row.get("recovering", 0) > 0 for row in rows),
        excursions=tuple(excursions(over)),
    )
