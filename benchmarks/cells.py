# SPDX-License-Identifier: Apache-2.0
"""The cells of the reproduction: each run of ours beside the published seeds of its cell.

Two questions. Where does each number lie: inside the range of the published seeds, or outside, and
why? And all together: could ours be further seeds of the published code? If they were, their ranks
among the published ones would be those of any other seeds, so the second question is answered by
exchanging ours with published ones within each cell (`Shift`), without an assumption on how returns
and costs scatter. Our default, which is another algorithm, shows that the answer can be no.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.stats import rankdata

from kept import Outcome, column, grouped, outcomes, published
from tables import Rows, markdown, number, short

HALF, WHOLE = 500_000, 1_000_000
METRICS = {"return": "reward", "cost": "cost"}
RANKED = METRICS | {"regret": "smooth"}
EXCHANGES = 20_000
CAUSES = "reproduction/causes.txt"


@dataclass(frozen=True)
class Shift:
    """Where ours lie among published seeds, over all cells."""

    rank: float
    """Mean: 0 below all, 1 above all, 0.5 expected of further seeds."""
    p: float
    """How often seeds that are exchanged within each cell lie as far from 0.5, on either side."""


def shift(cells: Sequence[tuple[Sequence[float], Sequence[float]]]) -> Shift:
    """Of pairs (ours, published), each cell counted alike."""
    rng = np.random.default_rng(0)
    seen: list[float] = []
    drawn: list[np.ndarray] = []
    for ours, theirs in cells:
        size = len(ours)
        ranks = (rankdata([*ours, *theirs]) - (size + 1) / 2) / len(theirs)  # means lie in [0, 1]
        exchanged = rng.permuted(np.tile(ranks, (EXCHANGES, 1)), axis=1)
        seen.append(ranks[:size].mean())
        drawn.append(exchanged[:, :size].mean(1))
    rank = float(np.mean(seen))
    as_far = np.abs(np.mean(drawn, 0) - 0.5) >= abs(rank - 0.5) - 1e-12
    return Shift(rank, (1 + int(as_far.sum())) / (1 + EXCHANGES))


def shifts(folder: Path, theirs: Mapping[int, Sequence[Outcome]]) -> dict[str, Shift]:
    """Of the runs in a folder: each number of the table below, and the regret."""
    cells: dict[int, list[tuple[list[Outcome], list[Outcome]]]] = {}
    for steps, runs in theirs.items():
        mine, known = grouped(outcomes(folder, steps)), grouped(runs)
        cells[steps] = [(mine[cell], known[cell]) for cell in mine if cell in known]
    return {
        f"{word} at {steps / 1e6:g}M": shift(
            [(column(o, metric), column(t, metric)) for o, t in own]
        )
        for word, metric in RANKED.items()
        for steps, own in cells.items()
    }


def cell_table(
    results: Path,
    theirs: Mapping[int, Sequence[Outcome]],
    causes: Mapping[str, str],
) -> tuple[Rows, dict[str, int]]:
    """A row for each run: its return and cost at each of the steps of `theirs`, where they lie in
    the range of the published seeds, and why not where they do not; and how many do."""
    ours = {steps: grouped(outcomes(results, steps)) for steps in theirs}
    ranges = {steps: grouped(runs) for steps, runs in theirs.items()}
    last = max(theirs)
    words = [f"{name} at {steps / 1e6:g}M" for name in METRICS for steps in theirs]
    rows = [["task", "algorithm", "seed", *words, "inside", "cause"]]
    counts = {"cells": 0, "cells inside": 0, "numbers": 0, "numbers inside": 0}
    for (task, label), runs in ours[last].items():
        if (task, label) not in ranges[last]:
            continue
        numbers = [
            (column(ours[steps][task, label], metric), column(ranges[steps][task, label], metric))
            for metric in METRICS.values()
            for steps in theirs
        ]
        for i, run in enumerate(runs):
            marks = [min(known) <= own[i] <= max(known) for own, known in numbers]
            spelt = [
                f"{number(own[i])} ({number(min(known))} .. {number(max(known))})"
                for own, known in numbers
            ]
            spelt = [x if mark else f"**{x}**" for x, mark in zip(spelt, marks, strict=True)]
            outside = [pair for pair, mark in zip(numbers, marks, strict=True) if not mark]
            cause = causes.get(f"{label}_{task}_seed{run.seed}", reason(outside)) if outside else ""
            inside = "yes" if all(marks) else f"{sum(marks)} of {len(marks)}"
            rows.append([short(task), label, str(run.seed), *spelt, inside, cause])
            counts["cells"] += 1
            counts["cells inside"] += all(marks)
            counts["numbers"] += len(marks)
            counts["numbers inside"] += sum(marks)
    return rows, counts


def reason(outside: Sequence[tuple[Sequence[float], Sequence[float]]]) -> str:
    """What the numbers themselves say of those that lie outside: pairs (ours, published)."""
    if len(outside[0][0]) == 1:
        return "one seed"
    meet = lambda own, known: min(own) <= max(known) and min(known) <= max(own)
    return "scatter" if all(meet(*pair) for pair in outside) else "not known"


def read_causes(file: Path) -> dict[str, str]:
    """Lines `CELL: why`, written by whoever has looked; a cell without one has no known cause."""
    lines = file.read_text().splitlines() if file.exists() else []
    pairs = (line.partition(":") for line in lines if line.strip() and not line.startswith("#"))
    return {name.strip(): why.strip() for name, _, why in pairs}


def told_cells(results: Path, source: Path) -> str:
    """The part of docs/reproduction.md that needs the published runs."""
    theirs = {steps: published(source, steps) for steps in (HALF, WHOLE)}
    rows, counts = cell_table(results / "reproduction", theirs, read_causes(results / CAUSES))
    if len(rows) == 1:
        return "No run is kept yet.\n"
    share = counts["numbers inside"] / counts["numbers"]
    told = (
        f"{counts['cells inside']} of {counts['cells']} runs lie inside with all four numbers, and "
        f"{counts['numbers inside']} of {counts['numbers']} numbers do ({share:.0%}; two of three "
        "would, if ours were further seeds of the published code).\n\n"
    )
    return told + markdown(shift_table(results, theirs)) + "\n" + markdown(rows)


def shift_table(results: Path, theirs: Mapping[int, Sequence[Outcome]]) -> Rows:
    """Mean rank and p of the reproduction, and of our default as the control."""
    folders = {"reproduction": "preset `published`", "ours": "our default (control)"}
    found = {name: shifts(results / folder, theirs) for folder, name in folders.items()}
    rows = [["mean rank among published seeds", *next(iter(found.values()))]]
    spelt = lambda one: f"{one.rank:.2f} (p = {one.p:.2g})"
    return rows + [[name, *map(spelt, own.values())] for name, own in found.items()]
