# SPDX-License-Identifier: Apache-2.0
"""Settings beside a base on the same seeds, and the demo's verdicts: tables for the docs.

`proof.py write` puts them there: the ablation (results/holding), two tasks that no setting was
chosen on (results/unseen), the default run again (results/again), what was tried and is gone
(results/screening.csv), the demo over seeds (results/demo_seeds.csv).
"""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from holding import run_row
from intervals import student
from kept import Outcome, outcome, outcomes
from tables import Rows, number, short

DEFAULT = "default"
"""The base of what was tried, as results/screening.csv names it."""


def beside(runs: Sequence[Outcome], base: str) -> Rows:
    """A row for each label and task, the base first: means, and raw regret and return against the
    base on common seeds, with the interval of the mean difference."""
    rows = [["task", "", "seeds", "return", "regret", "raw regret", "return − base", "raw − base"]]
    labels = sorted({run.label for run in runs}, key=lambda label: (label != base, label))
    for task in sorted({run.task for run in runs}):
        own = {r.seed: r for r in runs if (r.task, r.label) == (task, base)}
        first = True
        for label in labels:
            found = {r.seed: r for r in runs if (r.task, r.label) == (task, label)}
            if not found:
                continue
            means = [np.mean([getattr(r, k) for r in found.values()]) for k in METRICS]
            common = sorted(set(own) & set(found)) if label != base else []
            gaps = [
                difference([getattr(found[s], k) - getattr(own[s], k) for s in common])
                for k in ("reward", "raw")
            ]
            seeds = ", ".join(map(str, sorted(found)))
            name = f"**{label}**" if label == base else label
            told = [number(float(m)) for m in means]
            rows.append([short(task) if first else "", name, seeds, *told, *gaps])
            first = False
    return rows


METRICS = ("reward", "smooth", "raw")


def again(first: Sequence[Outcome], second: Sequence[Outcome]) -> Rows:
    """The same command twice, on processors that round otherwise; differences of the same seeds."""
    common = {(run.task, run.seed) for run in second}
    base = [replace(run, label=FIRST) for run in first if (run.task, run.seed) in common]
    return beside([*base, *(replace(run, label="again") for run in second)], FIRST)


FIRST = "first"


def difference(gaps: Sequence[float]) -> str:
    """The mean of paired differences, with Student's 95 % interval from two pairs on."""
    if not gaps:
        return ""
    if len(gaps) == 1:
        return number(gaps[0], "+")
    found = student(gaps)
    return f"{number(found.value, '+')} ({number(found.low, '+')} .. {number(found.high, '+')})"


def slow(results: Path) -> list[Outcome]:
    """Slow noise beside the default with white noise, on the seeds that its time was chosen on."""
    white = [
        replace(run, label=WHITE) for run in outcomes(results / "holding") if run.label == "c-trpo"
    ]
    found = outcomes(results / "noise")
    tasks = {run.task for run in found}
    return [*(run for run in white if run.task in tasks), *found]


WHITE = "white noise"


def screened(file: Path) -> list[Outcome]:
    """The default and what was tried on top of it, at their ends."""
    last: dict[tuple[str, str, int], list[dict[str, str]]] = {}
    with file.open(newline="") as stream:
        for row in csv.DictReader(stream):
            if row["setting"].startswith(DEFAULT):
                key = row["setting"], row["task"], int(row["seed"])
                last.setdefault(key, []).append(row)
    return [outcome(task, label, seed, rows) for (label, task, seed), rows in last.items()]


def finals(*folders: Path) -> Rows:
    """A row for each task: what `holdfast evaluate --save` left of its final policies, by seed,
    sampled and, where that was judged too, greedy."""
    head = ["task", "seeds", "mean cost of each", "safe, if the tail is as seen", "proved at 95 %"]
    rows = [[*head, "mean cost of each, greedy"]]
    found: dict[str, dict[int, list[dict[str, Any]]]] = {}
    for file in (f for folder in folders for f in folder.glob("*/evaluation_sampled.json")):
        run = json.loads((file.parent / "run.json").read_text())["run"]
        files = [file, file.with_name("evaluation_greedy.json")]
        both = [json.loads(each.read_text()) for each in files if each.exists()]
        found.setdefault(run["env"], {})[run["seed"]] = both
    mean = lambda one: f"{next(iter(one['cost'].values()))['mean']:.1f}"
    for task, each in sorted(found.items()):
        judged = [each[seed] for seed in sorted(each)]
        said = [", ".join(str(sampled[key]) for sampled, *_ in judged) for key in VERDICTS]
        costs = ", ".join(mean(sampled) for sampled, *_ in judged)
        greedy = ", ".join(mean(other[0]) if other else "–" for _, *other in judged)
        seeds = ", ".join(map(str, sorted(each)))
        rows.append([short(task), seeds, costs, *said, greedy if greedy.strip("–, ") else "–"])
    return rows


VERDICTS = ("safe_if_tail_as_seen", "safe_at_95")


def crossings(folders: Mapping[str, Path]) -> Rows:
    """A row for each task and name of a folder: how its C-TRPO crossed the limit, means over the
    seeds."""
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for name, folder in folders.items():
        for file in sorted(folder.glob("c-trpo_Safety*/progress.csv")):
            run = json.loads((file.parent / "run.json").read_text())["run"]
            found.setdefault((run["env"], name), []).append(run_row(file.parent))
    rows = [["task", "", "seeds", *CROSSINGS]]
    for (task, name), each in sorted(found.items()):
        means = (np.nanmean([one[key] for one in each]) for key in CROSSINGS.values())
        rows.append([short(task), name, str(len(each)), *(number(float(value)) for value in means)])
    return rows


CROSSINGS = {
    "raw regret": "regret raw",
    "of it after 0.3M steps": "after 0.3M",
    "excursions": "excursions",
    "their length, epochs": "length",
    "their area": "area",
    "share of epochs in recovery": "recovery",
    "realised / predicted": "realised / predicted",
}
"""Column of the table → that of `holding.run_row`."""


def demo(file: Path) -> tuple[str, Rows]:
    """A sentence and a row for each seed."""
    with file.open(newline="") as stream:
        found = list(csv.DictReader(stream))
    said = sum(row["verdict"] == "yes" for row in found)
    above = [row for row in found if row["crossed"] == "True"]
    raised = ", ".join(f"{row['worst_epoch']} (seed {row['seed']})" for row in above)
    sentence = (
        f'"Yes" in {said} of {len(found)}. In {len(found) - len(above)} no epoch of training cost '
        f"more than the limit of 25"
        + (f"; in the others the worst cost {raised}" if above else "")
        + ".\n\n"
    )
    head = ["seed", "verdict", "return", "cost", "proved below", "episodes", "worst epoch"]
    names = ("seed", "verdict", "earned", "cost", "proved_high", "episodes", "worst_epoch")
    return sentence, [head, *([row[name] for name in names] for row in found)]
