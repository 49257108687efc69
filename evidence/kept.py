# SPDX-License-Identifier: Apache-2.0
"""Records that the repository keeps of its runs, and the published ones beside them.

A kept run is run.json, progress.csv, done.json and what `holdfast evaluate --save` left, a few kB.
Checkpoints stay where they were made.
suite.json beside them lists every cell of the suite, so that what has not run is named, not missed.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from holdfast.bench.suite import Cell, cells, label_of, load_suite, shipped
from holdfast.records.rows import read_rows
from tables import markdown, short

RECORDS = ("run.json", "progress.csv", "done.json")
EXPERIMENTS = ("benchmark", "ablation")
"""Published runs that count: not the withdrawn ones, nor those with noise."""


@dataclass(frozen=True)
class Outcome:
    """A run after so many steps."""

    task: str
    label: str
    """The cell's name without task and seed; for a published run its algorithm."""
    seed: int
    reward: float
    cost: float
    """Smoothed, as published logs hold it."""
    smooth: float
    """Regret of the smoothed cost."""
    raw: float
    """Regret of the epochs' own costs; NaN where only smoothed ones were logged."""
    late: float
    """Mean raw cost of the last 15 epochs; NaN where only smoothed ones were logged."""


def keep(sources: Sequence[Path], target: Path) -> tuple[list[str], list[str]]:
    """Copy the records of finished runs; (kept, not finished)."""
    target.mkdir(parents=True, exist_ok=True)
    kept: list[str] = []
    left: list[str] = []
    listed = [target, *sources]
    suites = [read(folder / "suite.json") for folder in listed if (folder / "suite.json").exists()]
    for folder in sorted(path.parent for source in sources for path in source.glob("*/run.json")):
        if not (folder / "done.json").exists():
            left.append(folder.name)
            continue
        (target / folder.name).mkdir(exist_ok=True)
        for file in [*(folder / name for name in RECORDS), *folder.glob("evaluation_*.json")]:
            shutil.copyfile(file, target / folder.name / file.name)
        kept.append(folder.name)
    names = [name for suite in suites for name in suite.get("cells", ())]
    suite = suites[-1].get("suite", "") if suites else ""
    whole = [cell.name for cell in all_cells(suite)]
    known = [machine for suite in suites for machine in suite.get("machines", ())]
    found = {
        "suite": suite,
        "command": command(suite),
        "machines": known if machine() in known else [*known, machine()],
        "cells": list(dict.fromkeys([*whole, *names])),
    }
    (target / "suite.json").write_text(json.dumps(found, indent=2) + "\n")
    return kept, left


def read(file: Path) -> dict[str, Any]:
    return json.loads(file.read_text())


def file_of(suite: str) -> str:
    """What `holdfast bench` is to be given: a shipped suite's name, or a file beside this one."""
    own = Path(__file__).with_name(f"{suite}.toml")
    return f"{own.parent.name}/{own.name}" if own.exists() else suite


def command(suite: str) -> str:
    """What runs it."""
    foreign = any(":" in cell.run.env for cell in all_cells(suite))
    return f"holdfast bench {file_of(suite)}" + " --trust-env" * foreign


def all_cells(suite: str) -> tuple[Cell, ...]:
    """Of a suite that is shipped or lies here; of any other none."""
    file = file_of(suite)
    if file == suite and suite not in shipped():
        return ()
    return cells(load_suite(suite if file == suite else str(Path(__file__).parents[1] / file)))


def machine() -> dict[str, str | int]:
    """Where this runs; versions are in each run.json."""
    info = Path("/proc/cpuinfo")
    models = [
        line.partition(":")[2].strip()
        for line in (info.read_text().splitlines() if info.exists() else ())
        if line.startswith("model name")
    ]
    return {
        "processor": models[0] if models else platform.machine(),
        "cores": os.cpu_count() or 1,
        "system": platform.system(),
    }


def outcomes(folder: Path, steps: int | None = None) -> list[Outcome]:
    """The runs of a results folder at so many steps (None: at their ends), if they got there."""
    return [
        outcome(task, label, seed, rows)
        for task, label, seed, rows in logs(folder, steps)
        if rows and (steps is None or rows[-1]["env_steps"] >= steps)
    ]


def logs(folder: Path, steps: int | None = None) -> Iterator[tuple[str, str, int, Sequence[Any]]]:
    """(task, label, seed, rows up to so many steps) of each kept run."""
    for path in sorted(folder.glob("*/progress.csv")):
        run: dict[str, Any] = read(path.parent / "run.json")["run"]
        rows = [row for row in read_rows(path) if steps is None or row["env_steps"] <= steps]
        label = label_of(path.parent.name, run["env"], run["seed"])
        yield run["env"], label, run["seed"], rows


def outcome(task: str, label: str, seed: int, rows: Sequence[Mapping[str, Any]]) -> Outcome:
    """What the rows of a progress file, numbers or their texts, come to."""
    names = ("ep_return", "ep_cost", "cost_regret", "cost_regret_raw")
    late = float(np.mean([float(row["ep_cost_raw"]) for row in rows[-15:]]))
    return Outcome(task, label, seed, *(float(rows[-1][name]) for name in names), late)


def published(file: Path, steps: int) -> list[Outcome]:
    """The published runs of the benchmark and the ablation at so many steps."""
    from pyarrow import parquet

    table: Any = parquet.read_table(file)
    data = {name: np.asarray(table[name].to_pylist()) for name in table.column_names}
    at = (data["env_steps"] == steps) & np.isin(data["experiment"], EXPERIMENTS)
    names = ("task", "algorithm", "seed", "ep_return", "ep_cost", "cost_regret")
    return [
        Outcome(str(task), str(name), int(seed), *map(float, numbers), np.nan, np.nan)
        for task, name, seed, *numbers in zip(*(data[k][at] for k in names), strict=True)
    ]


def grouped(runs: Sequence[Outcome]) -> dict[tuple[str, str], list[Outcome]]:
    """(task, label) → its runs."""
    groups: dict[tuple[str, str], list[Outcome]] = defaultdict(list)
    for run in runs:
        groups[run.task, run.label].append(run)
    return dict(sorted(groups.items()))


def column(runs: Sequence[Outcome], name: str) -> list[float]:
    return [getattr(run, name) for run in runs]


def not_run(folder: Path) -> dict[str, list[Cell]]:
    """Command → the cells of a folder's suite that it would run, and that are not kept.

    A folder that is not there yet is named after its suite.
    """
    file = folder / "suite.json"
    suite = read(file)["suite"] if file.exists() else folder.name
    found: dict[str, list[Cell]] = {}
    whole = command(suite)
    for cell in all_cells(suite):
        if not (folder / cell.name / "done.json").exists():
            found.setdefault(f"{whole} --only /{cell.run.env}", []).append(cell)
    return found


def not_run_text(results: Path) -> str:
    """What is missing, and the command for it; what is finished stays as it is."""
    missing = not_run(results)
    if not missing:
        return f"Nothing of `results/{results.name}` is missing.\n"
    rows = [["not run", "seeds", "command"]]
    for command, own in missing.items():
        seeds: dict[str, list[str]] = defaultdict(list)
        for cell in own:
            seeds[cell.label].append(str(cell.run.seed))
        same: dict[str, list[str]] = defaultdict(list)
        for name, numbers in seeds.items():
            same[", ".join(numbers)].append(name)
        for numbers, names in same.items():
            rows.append([f"{short(own[0].run.env)}: {', '.join(names)}", numbers, f"`{command}`"])
    return markdown(rows)
