# SPDX-License-Identifier: Apache-2.0
"""How far an update goes: ours beside the published ones, by what both log of it.

Returns scatter by tens of percent from seed to seed; the size of an update by a few, since it
is mostly the algorithm that sets it: radius, damping, conjugate gradients, line search, step sizes,
early stopping.
So this looks closer than the cells of the reproduction can.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

from cells import WHOLE
from kept import EXPERIMENTS, logs
from tables import Rows

LOGGED = {"kl": "kl", "passes": "stop_iter"}
"""Our column → the published one."""
NOT_COMPARED = {("cup", "kl")}
"""Its published KL is 0 in most epochs of HalfCheetah, in which it made passes: of another pair of
policies."""
CONTROL = ("pcpo", "trpo-lag")
"""Ours, and another published algorithm of the same radius beside which it must not fit."""

Sizes = dict[tuple[str, str], list[float]]
"""(task, label) → the median over the epochs of each run."""


def kept_sizes(folder: Path, name: str) -> Sizes:
    """Of our runs."""
    found: Sizes = defaultdict(list)
    for task, label, _, rows in logs(folder, WHOLE):
        if name in rows[0]:
            found[task, label].append(float(np.median([row[name] for row in rows])))
    return found


def published_sizes(source: Path, name: str) -> Sizes:
    """Of the published runs."""
    from pyarrow import parquet

    columns = ["task", "algorithm", "experiment", "seed", "env_steps", name]
    table: Any = parquet.read_table(source, columns=columns)
    values: dict[tuple[str, str, int], list[float]] = defaultdict(list)
    for row in table.to_pylist():
        if row["experiment"] in EXPERIMENTS and row["env_steps"] <= WHOLE:
            if row[name] is not None and not np.isnan(row[name]):
                values[row["task"], row["algorithm"], row["seed"]].append(row[name])
    found: Sizes = defaultdict(list)
    for (task, label, _), own in sorted(values.items()):
        found[task, label].append(float(np.median(own)))
    return found


def ratios(
    ours: Sizes, theirs: Sizes, label: str, other: str | None = None
) -> tuple[list[float], list[float]]:
    """(each run of ours, each published one) by the mean of the published ones of its task, which
    are those of the same algorithm or of another."""
    tasks = [task for task, name in ours if name == label and theirs.get((task, other or label))]
    mine: list[float] = []
    known: list[float] = []
    for task in tasks:
        beside = theirs[task, other or label]
        mine += [value / np.mean(beside) for value in ours[task, label]]
        known += [value / np.mean(beside) for value in beside]
    return mine, known


def size_table(folder: Path, source: Path) -> Rows:
    """A row for each algorithm, and one beside the published runs of another as the control."""
    head = ["median of an epoch, by the mean of the published seeds", "runs"]
    for word in ("KL", "passes"):
        head += [f"{word}: mean", "ours", "published seeds"]
    ours = {name: kept_sizes(folder, name) for name in LOGGED}
    theirs = {name: published_sizes(source, logged) for name, logged in LOGGED.items()}
    rows = [head]
    own = [(label, None) for label in sorted({label for _, label in ours["kl"]})]
    for label, other in [*own, CONTROL]:
        runs = sum(len(values) for cell, values in ours["kl"].items() if cell[1] == label)
        row = [label + (f", by published {other} (control)" if other else ""), str(runs)]
        for name in LOGGED:
            mine, known = ratios(ours[name], theirs[name], label, other)
            if not mine or (label, name) in NOT_COMPARED:
                row += ["", "", ""]
                continue
            span = lambda found: f"{min(found):.2f} .. {max(found):.2f}"
            row += [f"{np.mean(mine):.2f}", span(mine), span(known)]
        rows.append(row)
    return rows
