# SPDX-License-Identifier: Apache-2.0
"""Kinds of limits side by side: the final policies of evidence/tails.toml by fresh episodes.

`proof.py write` puts the table into docs/limits.md. What a policy costs is taken from
`evaluation_sampled.json`, which `holdfast evaluate RUN --episodes 200 --save` writes; what happened
in training from progress.csv.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from holdfast.core.limits import parse_limit
from holdfast.records.rows import read_rows
from kept import read
from paired import difference
from tables import Rows, number, short

Numbers = Mapping[str, float]
COLUMNS = (
    "return",
    "mean cost",
    "worst 5 %",
    "raw regret",
    "episodes above 25",
    "epochs above the own limit",
)
MEAN = "25"
"""The limit that the others stand beside."""


def judged(folder: Path) -> dict[str, dict[str, dict[int, Numbers]]]:
    """Task → limit → seed → what the final policy does, of the runs that were evaluated."""
    found: dict[str, dict[str, dict[int, Numbers]]] = defaultdict(lambda: defaultdict(dict))
    for file in sorted(folder.glob("*/evaluation_sampled.json")):
        run, data = read(file.parent / "run.json")["run"], read(file)
        limit = str(next(iter((run["limits"] or {}).values()), MEAN))
        cost = next(iter(data["cost"].values()))
        above = data["violation_rate"]["estimate"]
        rows = read_rows(file.parent / "progress.csv")
        costs = (cost["mean"], cost["worst_5"], float(rows[-1]["cost_regret_raw"]))
        values = (data["return"]["mean"], *costs, above, share_above(rows, limit))
        found[run["env"]][limit][run["seed"]] = dict(zip(COLUMNS, values, strict=True))
    return found


def share_above(rows: Sequence[Mapping[str, Any]], limit: str) -> float:
    """The share of epochs in which the limited quantity was above its limit."""
    claim = parse_limit(limit)
    name = {"mean": "ep_cost_raw", "tail": "tail", "chance": "chance"}[claim.kind]
    return float(np.mean([float(row[name]) > claim.bound for row in rows]))


def table(folder: Path) -> Rows:
    """A row for each task and limit, the mean first: means over the seeds, and the return beside
    that of the mean's runs with the same seeds."""
    rows = [["task", "limit", "seeds", *COLUMNS, f"return − that of {MEAN}"]]
    for task, limits in sorted(judged(folder).items()):
        base = limits.get(MEAN, {})
        for limit, runs in sorted(limits.items(), key=lambda item: (item[0] != MEAN, item[0])):
            mean = [float(np.mean([run[key] for run in runs.values()])) for key in COLUMNS]
            common = sorted(set(base) & set(runs)) if limit != MEAN else []
            gap = difference([runs[s]["return"] - base[s]["return"] for s in common])
            cells = [*map(number, mean[:4]), *(f"{100 * share:.1f} %" for share in mean[4:])]
            seeds = ", ".join(map(str, sorted(runs)))
            rows.append([short(task) if limit == MEAN else "", f"`{limit}`", seeds, *cells, gap])
    return rows
