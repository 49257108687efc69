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
EDGES = (-1.0, 2.0)
"""Of the picture, in published ranges; what lies beyond is a triangle there."""


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


@dataclass(frozen=True)
class Compared:
    """The runs of one cell beside the published ones."""

    task: str
    label: str
    seeds: tuple[int, ...]
    numbers: dict[str, tuple[list[float], list[float]]]
    """What is compared → (ours, published)."""

    def inside(self, run: int) -> list[bool]:
        """Which numbers of a run lie in the range of the published seeds."""
        return [min(known) <= own[run] <= max(known) for own, known in self.numbers.values()]


def compared(
    results: Path,
    theirs: Mapping[int, Sequence[Outcome]],
    metrics: Mapping[str, str] = METRICS,
) -> list[Compared]:
    """The metrics of the kept runs at each of the steps of `theirs`."""
    ours = {steps: grouped(outcomes(results, steps)) for steps in theirs}
    ranges = {steps: grouped(runs) for steps, runs in theirs.items()}
    last = max(theirs)
    return [
        Compared(
            *cell,
            tuple(run.seed for run in runs),
            {
                f"{name} at {steps / 1e6:g}M": (
                    column(ours[steps][cell], metric),
                    column(ranges[steps][cell], metric),
                )
                for name, metric in metrics.items()
                for steps in theirs
            },
        )
        for cell, runs in ours[last].items()
        if cell in ranges[last]
    ]


def shifts(cells: Sequence[Compared]) -> dict[str, Shift]:
    """Of each number that is compared."""
    return {word: shift([cell.numbers[word] for cell in cells]) for word in cells[0].numbers}


def cell_table(cells: Sequence[Compared], causes: Mapping[str, str]) -> Rows:
    """A row for each run: its numbers, where they lie in the range of the published seeds, and why
    not where they do not."""
    rows = [["task", "algorithm", "seed", *cells[0].numbers, "inside", "cause"]]
    for cell in cells:
        numbers = list(cell.numbers.values())
        for i, seed in enumerate(cell.seeds):
            marks = cell.inside(i)
            spelt = [
                f"{number(own[i])} ({number(min(known))} .. {number(max(known))})"
                for own, known in numbers
            ]
            spelt = [x if mark else f"**{x}**" for x, mark in zip(spelt, marks, strict=True)]
            outside = [pair for pair, mark in zip(numbers, marks, strict=True) if not mark]
            name = f"{cell.label}_{cell.task}_seed{seed}"
            cause = causes.get(name, reason(outside)) if outside else ""
            inside = "yes" if all(marks) else f"{sum(marks)} of {len(marks)}"
            rows.append([short(cell.task), cell.label, str(seed), *spelt, inside, cause])
    return rows


def inside_table(cells: Sequence[Compared]) -> Rows:
    """How many runs and numbers of each algorithm lie inside, and of all together."""
    rows = [["", "tasks", "runs", "inside with all numbers", "numbers", "inside", "share"]]
    for name in (*dict.fromkeys(cell.label for cell in cells), ""):
        own = [cell for cell in cells if name in ("", cell.label)]
        marks = [cell.inside(i) for cell in own for i in range(len(cell.seeds))]
        flat = [mark for run in marks for mark in run]
        tasks = len({cell.task for cell in own})
        counts = [tasks, len(marks), sum(map(all, marks)), len(flat), sum(flat)]
        share = f"{np.mean(flat):.0%}"
        rows.append([name or "**all**", *map(str, counts), share])
    return rows


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


def cells_table(results: Path, theirs: Mapping[int, Sequence[Outcome]]) -> str:
    """The part of docs/reproduction.md that needs the published runs."""
    cells = compared(results / "reproduction", theirs)
    if not cells:
        return "No run is kept yet.\n"
    tables = (
        shift_table(results, theirs),
        inside_table(cells),
        cell_table(cells, read_causes(results / CAUSES)),
    )
    return "\n".join(map(markdown, tables))


def half_and_whole(source: Path) -> dict[int, list[Outcome]]:
    """The published runs at the two steps that are compared."""
    return {steps: published(source, steps) for steps in (HALF, WHOLE)}


def place(value: float, known: Sequence[float]) -> float:
    """Where a number lies in the published range: 0 at its low end, 1 at its high end."""
    low, high = min(known), max(known)
    if low < high:
        return (value - low) / (high - low)
    return 0.5 if value == low else np.copysign(np.inf, value - low)


def draw_cells(cells: Sequence[Compared], file: Path) -> Path:
    """A line for each cell, a panel for each number: our runs as dots in the published range."""
    from matplotlib.figure import Figure

    lines = [(cell, i and cells[i - 1].task == cell.task) for i, cell in enumerate(cells)]
    heights: list[float] = []
    for _, same in lines:
        heights.append((heights[-1] if heights else 0.0) - (1.0 if same else 2.1))
    words = list(cells[0].numbers)
    made = Figure(figsize=(8.6, 0.7 - 0.135 * heights[-1]), dpi=150, layout="constrained")
    axes = made.subplots(1, len(words), sharey=True, squeeze=False)[0]
    for axis, word in zip(axes, words, strict=True):
        axis.axvspan(0, 1, color="#dbe9ed")
        for (cell, _), height in zip(lines, heights, strict=True):
            own, known = cell.numbers[word]
            for at in (place(value, known) for value in own):
                colour = "#0b6e8a" if 0 <= at <= 1 else "#c4572c"
                beyond = "<" if at < EDGES[0] else ">" if at > EDGES[1] else "o"
                axis.plot(np.clip(at, *EDGES), height, beyond, ms=4, color=colour, alpha=0.85)
        axis.set(title=word, xlim=(EDGES[0] - 0.15, EDGES[1] + 0.15), ylim=(heights[-1] - 1, 0))
        axis.title.set_fontsize(9)
        axis.set_xticks([0, 1], ["lowest", "highest"], fontsize=7)
        axis.spines[["top", "right", "left"]].set_visible(False)
        axis.tick_params(axis="y", length=0)
    axes[0].set_yticks(heights, [cell.label for cell, _ in lines], fontsize=6.5)
    for (cell, same), height in zip(lines, heights, strict=True):
        if not same:
            name = short(cell.task).removesuffix("Velocity")
            own = {"xycoords": ("axes fraction", "data"), "ha": "right", "va": "center"}
            axes[0].annotate(name, (-0.03, height + 0.95), fontsize=7.5, weight="bold", **own)
    made.supxlabel("in the range of the five published seeds (shaded)", fontsize=8)
    made.savefig(file, facecolor="white", metadata={"Software": None})
    return file


def shift_table(results: Path, theirs: Mapping[int, Sequence[Outcome]]) -> Rows:
    """Mean rank and p of the reproduction, and of our default as the control."""
    folders = {"reproduction": "preset `published`", "ours": "our default (control)"}
    found = {
        name: shifts(compared(results / folder, theirs, RANKED)) for folder, name in folders.items()
    }
    rows = [["mean rank among published seeds", *next(iter(found.values()))]]
    spelt = lambda one: f"{one.rank:.2f} (p = {one.p:.2g})"
    return rows + [[name, *map(spelt, own.values())] for name, own in found.items()]
