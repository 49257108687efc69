# SPDX-License-Identifier: Apache-2.0
"""A run as a value: algorithm, task, seed, limits and progress."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from holdfast.records.statistics import Array, cost_regret

Scalar = str | int | float | bool | None
PUBLISHED_LIMIT = 25.0


@dataclass(frozen=True)
class RunLog:
    """One run as read from disk."""

    algorithm: str
    task: str
    seed: int
    limits: Mapping[str, float]
    """Limit per constraint; a single constraint is called "cost"."""
    columns: Mapping[str, Array]
    """Progress, one entry per epoch: always env_steps, ep_return, ep_cost, cost_regret."""
    config: Mapping[str, Scalar]
    """All settings, nested ones with dotted names."""
    done: bool
    budget: int | None
    """Requested environment steps, if known."""
    source: str
    """Its file format: holdfast, safepo, omnisafe, or the name of a table."""
    path: str
    label: str = ""
    evaluations: Mapping[str, Array] = field(default_factory=dict[str, Array])
    """Columns of evaluations.csv; empty without evaluations while training."""

    @property
    def steps(self) -> int:
        """Environment steps taken so far."""
        steps = self.columns["env_steps"]
        return int(steps[-1]) if steps.size else 0

    def until(self, steps: int) -> "RunLog":
        """The run up to a number of environment steps."""
        cut = lambda columns: {n: x[columns["env_steps"] <= steps] for n, x in columns.items()}
        return replace(self, columns=cut(self.columns), evaluations=cut(self.evaluations))

    def costs(self) -> Array:
        """Episode cost per epoch and constraint, [epochs, m], in the order of `limits`."""
        several = [f"ep_cost/{name}" for name in self.limits]
        present = [name for name in several if name in self.columns]
        names = present if len(present) == len(self.limits) else ["ep_cost"]
        return np.stack([self.columns[name] for name in names], axis=-1)


def read_limits(limits: Any) -> dict[str, float]:
    """The limit of each constraint from the data of a file."""
    if not isinstance(limits, dict):
        raise ValueError("limits must be a table, one for each constraint")
    known = {str(name): float(limit) for name, limit in limits.items()}
    if not known or not all(0 <= limit < np.inf for limit in known.values()):
        raise ValueError(f"limits {str(known)[:80]} must be finite, not negative, and at least one")
    return known


def complete(run: RunLog) -> RunLog:
    """Add the columns that every reader needs: the summed cost and the cumulative regret."""
    columns = dict(run.columns)
    for name in ("env_steps", "ep_return"):
        if name not in columns:
            raise ValueError(f"progress has no column '{name}' ({', '.join(columns) or 'empty'})")
    steps = columns["env_steps"]
    if not (np.isfinite(steps).all() and (np.diff(steps, prepend=0.0) >= 0).all()):
        raise ValueError("its env_steps do not increase: it was not written by one run")
    if "ep_cost" not in columns:
        each = [columns[f"ep_cost/{name}"] for name in run.limits if f"ep_cost/{name}" in columns]
        if not each:
            raise ValueError(f"progress has no column 'ep_cost' ({', '.join(columns)})")
        columns["ep_cost"] = np.sum(each, axis=0)
    run = replace(run, columns=columns)
    if "cost_regret" not in columns:
        costs, limits = run.costs(), list(run.limits.values())
        regret = cost_regret(np.nan_to_num(costs), limits[: costs.shape[-1]])
        run = replace(run, columns=columns | {"cost_regret": regret})
    return run


def dotted(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Scalar]:
    """Nested settings with dotted names; lists become text, as they are only compared and shown."""
    flat: dict[str, Scalar] = {}
    for key, value in tree.items():
        if isinstance(value, dict):
            flat |= dotted(value, f"{prefix}{key}.")  # pyright: ignore[reportUnknownArgumentType]
        elif isinstance(value, list):
            flat[f"{prefix}{key}"] = json.dumps(value)
        else:
            flat[f"{prefix}{key}"] = value
    return flat
