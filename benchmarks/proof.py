# SPDX-License-Identifier: Apache-2.0
"""What the default holds: our runs beside published ones at equal steps, as a table.

    holdfast bench ours --out runs/ours
    python benchmarks/proof.py keep runs/ours results/ours      # the small files of finished runs
    python benchmarks/proof.py table results/ours --published paper_runs.parquet

`table` prints for each task return, regret of the smoothed cost (what published logs hold) and raw
regret: the mean over the seeds and a 95 % bootstrap interval of it. With published runs it adds
theirs and the interval of the difference, two means resampled apart. Runs that are not finished are
named as not run.
"""

from __future__ import annotations

import argparse
import json
import shutil
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from holdfast.core.stats import Estimate, bootstrap, mean
from holdfast.runs.progress import read_rows

RECORDS = ("run.json", "progress.csv", "done.json")
RIVALS = ("c-trpo", "cpo", "p3o")


@dataclass(frozen=True)
class Outcome:
    """A run at its end, or at as many steps of it as are compared."""

    task: str
    label: str
    seed: int
    reward: float
    smooth: float
    """Regret of the smoothed cost."""
    raw: float
    """Regret of the epochs' own costs; NaN where only smoothed ones were logged."""
    late: float
    """Mean raw cost of the last 15 epochs."""


def keep(source: Path, target: Path) -> tuple[list[str], list[str]]:
    """Copy the records of finished runs; (kept, not finished)."""
    target.mkdir(parents=True, exist_ok=True)
    kept: list[str] = []
    left: list[str] = []
    for folder in sorted(path.parent for path in source.glob("*/run.json")):
        if not (folder / "done.json").exists():
            left.append(folder.name)
            continue
        (target / folder.name).mkdir(exist_ok=True)
        for name in RECORDS:
            shutil.copyfile(folder / name, target / folder.name / name)
        kept.append(folder.name)
    shutil.copyfile(source / "suite.json", target / "suite.json")
    return kept, left


def outcomes(folder: Path) -> list[Outcome]:
    """The runs of a results folder; the label is the cell's name without task and seed."""
    found: list[Outcome] = []
    for path in sorted(folder.glob("*/progress.csv")):
        run: dict[str, Any] = json.loads((path.parent / "run.json").read_text())["run"]
        rows = read_rows(path)
        last = rows[-1]
        found.append(
            Outcome(
                task=run["env"],
                label=path.parent.name.removesuffix(f"_{run['env']}_seed{run['seed']}"),
                seed=run["seed"],
                reward=last["ep_return"],
                smooth=last["cost_regret"],
                raw=last["cost_regret_raw"],
                late=float(np.mean([row["ep_cost_raw"] for row in rows[-15:]])),
            )
        )
    return found


def published(file: Path, steps: int) -> list[Outcome]:
    """The benchmark's runs of the rivals at so many steps."""
    from pyarrow import parquet

    table: Any = parquet.read_table(file)
    data = {name: np.asarray(table[name].to_pylist()) for name in table.column_names}
    at = (data["env_steps"] == steps) & data["in_benchmark_figure"].astype(bool)
    return [
        Outcome(task, name, int(seed), float(reward), float(regret), np.nan, np.nan)
        for task, name, seed, reward, regret in zip(
            *(data[k][at] for k in ("task", "algorithm", "seed", "ep_return", "cost_regret")),
            strict=True,
        )
        if name in RIVALS
    ]


def of_means(values: Sequence[float]) -> str:
    """The mean with its interval."""
    return shown(bootstrap([values], mean))


def apart(ours: Sequence[float], theirs: Sequence[float]) -> str:
    """The difference of two means with its interval, both resampled."""
    size = len(ours)
    return shown(bootstrap([ours, theirs], lambda x: mean(x[..., :size]) - mean(x[..., size:])))


def shown(found: Estimate) -> str:
    return f"{found.value:.4g} ({found.low:.4g} .. {found.high:.4g})"


def table(ours: Sequence[Outcome], theirs: Sequence[Outcome]) -> list[list[str]]:
    """Rows of cells, the head first."""
    head = ["task", "setting", "seeds", "return", "smoothed regret", "raw regret", "last J"]
    rows = [head + [f"published {name}: return / regret" for name in RIVALS if theirs]]
    if theirs:
        rows[0].append("regret − published C-TRPO's")
    groups: dict[tuple[str, str], list[Outcome]] = defaultdict(list)
    for one in ours:
        groups[one.task, one.label].append(one)
    for (task, label), runs in sorted(groups.items()):
        columns = {k: [getattr(run, k) for run in runs] for k in ("reward", "smooth", "raw")}
        row = [task, label, str(len(runs)), *map(of_means, columns.values())]
        row.append(f"{np.mean([run.late for run in runs]):.1f}")
        for name in RIVALS if theirs else ():
            rivals = [run for run in theirs if (run.task, run.label) == (task, name)]
            means = np.mean([[run.reward, run.smooth] for run in rivals], 0)
            row.append(f"{means[0]:.4g} / {means[1]:.4g}")
        if theirs:
            base = [run.smooth for run in theirs if (run.task, run.label) == (task, RIVALS[0])]
            row.append(apart(columns["smooth"], base))
        rows.append(row)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    copy = commands.add_parser("keep")
    copy.add_argument("source", type=Path)
    copy.add_argument("target", type=Path)
    show = commands.add_parser("table")
    show.add_argument("results", type=Path)
    show.add_argument("--published", type=Path)
    show.add_argument("--steps", type=int, default=1_000_000)
    chosen = parser.parse_args()
    if chosen.command == "keep":
        kept, left = keep(chosen.source, chosen.target)
        print(f"kept {len(kept)} runs" + "".join(f"\nnot finished: {name}" for name in left))
        return
    theirs = published(chosen.published, chosen.steps) if chosen.published else []
    first, *rest = table(outcomes(chosen.results), theirs)
    print("| " + " | ".join(first) + " |\n|" + "---|" * len(first))
    for row in rest:
        print("| " + " | ".join(row) + " |")


if __name__ == "__main__":
    main()
