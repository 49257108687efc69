# SPDX-License-Identifier: Apache-2.0
"""The page of the paper's studies: our runs beside the published ones.

    holdfast bench evidence/studies.toml --out runs/studies
    python evidence/proof.py keep runs/studies results/studies
    python evidence/studies.py --published paper_runs.parquet

The last line writes docs/studies.md between its marks, and draws its pictures, from the runs that
are kept now: none, some or all of them. It names what is missing and the command that runs it.
What a study shares with the reproduction (C-TRPO itself, and single seeds of its rivals) is read
from results/reproduction: the same preset, steps and schedule.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from holdfast.drawing.palette import BLUE
from holdfast.drawing.palette import LIMIT as LIMIT_COLOUR
from kept import Outcome, all_cells, column, not_run_text, outcomes
from tables import Rows, markdown, number, short

ROOT = Path(__file__).parents[1]
STEPS, LAST, LIMIT = 1_000_000, 10_000_000, 25.0
MARKS = re.compile(r"(<!-- begin ([\w-]+) -->\n).*?(<!-- end \2 -->)", re.S)
METRICS = {"reward": "return", "cost": "cost", "smooth": "regret"}
Point = tuple[str, str, str]
"""What the axis says, our label, the published name ("": there is none)."""


@dataclass(frozen=True)
class Study:
    name: str
    axis: str
    points: tuple[Point, ...]


STUDIES = (
    Study(
        "ablation",
        "method",
        (
            ("C-TRPO", "c-trpo", "c-trpo"),
            ("C-TRPO, h = 1", "c-trpo-no-hysteresis", "c-trpo-no-hysteresis"),
            ("CPO, h = 0.8", "cpo-hysteresis", "cpo-hysteresis"),
            ("CPO", "cpo", "cpo"),
            ("TRPO-Lag", "trpo-lag", "trpo-lag"),
            ("PPO", "ppo", "ppo"),
        ),
    ),
    Study(
        "beta",
        "β",
        (
            ("0.05", "c-trpo_beta=0.05", ""),
            ("0.1", "", "c-trpo-beta-0.1"),
            ("0.2", "c-trpo_beta=0.2", ""),
            ("1", "c-trpo", "c-trpo"),
            ("2", "c-trpo_beta=2", ""),
            ("5", "c-trpo_beta=5", ""),
        ),
    ),
    Study(
        "hysteresis",
        "b_H / b",
        (
            *((h, f"c-trpo_hysteresis={h}", "") for h in ("0.2", "0.4", "0.6")),
            ("0.8", "c-trpo", "c-trpo"),
            ("1", "c-trpo-no-hysteresis", "c-trpo-no-hysteresis"),
        ),
    ),
    Study(
        "barrier",
        "φ",
        (
            ("x log x", "c-trpo", "c-trpo"),
            ("−log x", "c-trpo_barrier=log", ""),
            ("x log x, reversed", "c-trpo_barrier=reversed-entropy", ""),
        ),
    ),
    Study(
        "noise",
        "σ",
        (
            ("0", "c-trpo-no-hysteresis", "c-trpo-no-hysteresis"),
            *(
                (s, f"c-trpo-noise_cost_value_noise={s}", f"c-trpo-noise {s}")
                for s in ("0.05", "0.1", "0.2", "0.5")
            ),
        ),
    ),
)


def published_at(file: Path, steps: int) -> list[Outcome]:
    """Published runs after so many steps, those with noise by its size, withdrawn ones too."""
    from pyarrow import parquet

    names = ("task", "algorithm", "noise_sigma", "seed", "ep_return", "ep_cost", "cost_regret")
    here = [("env_steps", "==", steps)]
    rows: Any = parquet.read_table(file, columns=list(names), filters=here).to_pylist()
    found: list[Outcome] = []
    for row in rows:
        task, name, sigma, seed, *numbers = (row[key] for key in names)
        label = f"{name} {sigma:g}" if name == "c-trpo-noise" else name
        found.append(Outcome(task, label, int(seed), *map(float, numbers), np.nan, np.nan))
    return found


def own_runs(results: Path) -> list[Outcome]:
    """Kept runs of the studies, and those of the reproduction that are points of a study."""
    labels = {label for study in STUDIES for _, label, _ in study.points}
    tasks = {cell.run.env for cell in all_cells("studies")}
    shared = [
        run
        for run in outcomes(results / "reproduction", STEPS)
        if run.label in labels and run.task in tasks
    ]
    return [*outcomes(results / "studies", STEPS), *shared]


def members(runs: Sequence[Outcome], task: str, label: str) -> list[Outcome]:
    return [run for run in runs if label and (run.task, run.label) == (task, label)]


def tasks_of(study: Study, ours: Sequence[Outcome]) -> list[str]:
    """Tasks on which more of the study has run than what other studies share with it."""
    labels = {label for _, label, _ in study.points} - {""}
    shared = {"c-trpo", "c-trpo-no-hysteresis"} if study.name != "ablation" else set[str]()
    return sorted({run.task for run in ours if run.label in labels - shared})


def spread(runs: Sequence[Outcome], metric: str) -> str:
    values = column(runs, metric)
    if not values:
        return "–"
    middle = number(float(np.mean(values)))
    return (
        middle if len(values) == 1 else f"{middle} ({number(min(values))} .. {number(max(values))})"
    )


HEADS = [f"{word}, {whose}" for word in METRICS.values() for whose in ("ours", "published")]


def side_by_side(mine: Sequence[Outcome], others: Sequence[Outcome]) -> list[str]:
    """The number of our seeds, and the cells under HEADS."""
    return [str(len(mine)), *(spread(runs, m) for m in METRICS for runs in (mine, others))]


def rows_of(study: Study, ours: Sequence[Outcome], theirs: Sequence[Outcome]) -> Rows:
    """Per task and point: mean (lowest .. highest seed), ours and published at equal steps."""
    rows = [["task", study.axis, "seeds", *HEADS]]
    for task in tasks_of(study, ours):
        for word, label, name in study.points:
            mine, others = members(ours, task, label), members(theirs, task, name)
            if mine or others:
                rows.append([short(task), word, *side_by_side(mine, others)])
    return rows


def draw(study: Study, ours: Sequence[Outcome], theirs: Sequence[Outcome], file: Path) -> None:
    """A row for each task, a panel for each metric; a dot is a run of ours, grey is published."""
    from matplotlib.figure import Figure

    tasks = tasks_of(study, ours)
    size = (9.0, 0.5 + 2.1 * len(tasks))
    figure = Figure(figsize=size, layout="constrained")
    axes: Any = figure.subplots(len(tasks), len(METRICS), squeeze=False)
    for row, task in zip(axes, tasks, strict=True):
        for axis, (metric, word) in zip(row, METRICS.items(), strict=True):
            for x, (_, label, name) in enumerate(study.points):
                if others := column(members(theirs, task, name), metric):
                    axis.plot([x + 0.14] * 2, [min(others), max(others)], color="#b0b0b0", lw=4)
                    axis.plot(x + 0.14, np.mean(others), "_", color="#505050", ms=9, mew=2)
                if mine := column(members(ours, task, label), metric):
                    axis.plot([x - 0.1] * len(mine), mine, "o", color=BLUE, ms=4, alpha=0.8)
                    axis.plot(x - 0.1, np.mean(mine), "_", color="#0b3f66", ms=13, mew=2)
            if metric == "cost":
                axis.axhline(LIMIT, color=LIMIT_COLOUR, ls="--", lw=1)
                axis.set_yscale("symlog", linthresh=50.0)
                low, high = axis.get_ylim()
                axis.set_yticks([y for y in (0, 10, 25, 50, 100, 300, 1000) if low <= y <= high])
                axis.yaxis.set_major_formatter("{x:g}")
            if metric == "smooth":
                axis.set_yscale("symlog", linthresh=10.0)
                axis.set_ylim(bottom=-1.0)
            axis.set_title(f"{short(task)}: {word}", fontsize=9)
            axis.set_xticks(range(len(study.points)), [p[0] for p in study.points], fontsize=7)
            axis.set_xlim(-0.5, len(study.points) - 0.5)
            axis.spines[["top", "right"]].set_visible(False)
            if len(study.points[0][0]) > 5:
                for label in axis.get_xticklabels():
                    label.set(rotation=25, ha="right", rotation_mode="anchor")
    for axis in axes[-1]:
        axis.set_xlabel(study.axis, fontsize=9)
    figure.savefig(file, dpi=120, metadata={"Software": None})


def at_the_end(study: Study, tasks: Sequence[str], theirs: Sequence[Outcome]) -> Rows:
    """What the paper's figure shows: published runs at their ends, mean (lowest .. highest)."""
    rows = [["task", study.axis, *METRICS.values()]]
    for task in tasks:
        for word, _, name in study.points:
            if others := members(theirs, task, name):
                rows.append([short(task), word, *(spread(others, metric) for metric in METRICS)])
    return rows


def agreement(study: Study, ours: Sequence[Outcome], theirs: Sequence[Outcome]) -> str:
    """How many of our means lie in the range of the published seeds beside them."""
    inside: list[bool] = []
    for task in tasks_of(study, ours):
        for _, label, name in study.points:
            mine, others = members(ours, task, label), members(theirs, task, name)
            for metric in METRICS if mine and others else ():
                known = column(others, metric)
                inside.append(min(known) <= float(np.mean(column(mine, metric))) <= max(known))
    return (
        f"{sum(inside)} of our {len(inside)} means that have published seeds beside them lie in "
        "their range.\n"
        if inside
        else ""
    )


def told(
    study: Study,
    ours: Sequence[Outcome],
    theirs: Mapping[int, Sequence[Outcome]],
    images: Path,
    page: Path,
) -> str:
    """The generated part of a study's section; its picture is drawn, or removed."""
    file = images / f"study-{study.name}.png"
    tasks = tasks_of(study, ours)
    if not tasks:
        file.unlink(missing_ok=True)
        return "*No run of it is kept yet.*\n"
    early = theirs.get(STEPS, ())
    draw(study, ours, early, file)
    where = file.relative_to(page.parent).as_posix()
    words = f"{study.axis}: return, cost and regret"
    texts = [f"![{words}]({where})\n", markdown(rows_of(study, ours, early))]
    texts += [text for text in (agreement(study, ours, early),) if text]
    ends = at_the_end(study, tasks, theirs.get(LAST, ()))
    if len(ends) > 1:
        texts += ["In the paper, at 10 million steps (mean of five seeds):\n", markdown(ends)]
    return "\n".join(texts)


def headline(folder: Path, theirs: Sequence[Outcome]) -> str:
    """The paper's C-TRPO at its full length, beside the published seeds."""
    ours = outcomes(folder, LAST)
    if not ours:
        return "*No run of it is kept yet.*\n"
    rows = [["task", "seeds", *HEADS]]
    for task in sorted({run.task for run in ours}):
        mine, others = members(ours, task, "c-trpo"), members(theirs, task, "c-trpo")
        rows.append([short(task), *side_by_side(mine, others)])
    return markdown(rows)


def parts(
    results: Path, theirs: Mapping[int, Sequence[Outcome]], images: Path, page: Path
) -> dict[str, str]:
    """Mark → what stands there."""
    ours = own_runs(results)
    found = {study.name: told(study, ours, theirs, images, page) for study in STUDIES}
    found["headline"] = headline(results / "headline", theirs.get(LAST, ()))
    folders = (results / "studies", results / "headline")
    found["missing"] = "\n".join(map(not_run_text, folders))
    return found


def write(
    results: Path = ROOT / "results",
    page: Path = ROOT / "docs" / "studies.md",
    published: Path | None = None,
) -> None:
    """Fill the page between its marks."""
    steps = (STEPS, LAST) if published else ()
    theirs = {at: published_at(published, at) for at in steps if published}
    found = parts(results, theirs, page.parent / "images", page)
    put = lambda mark: mark[1] + found.get(mark[2], "") + mark[3]
    page.write_text(MARKS.sub(put, page.read_text()))


if __name__ == "__main__":
    reader = argparse.ArgumentParser(description=__doc__)
    reader.add_argument("--results", type=Path, default=ROOT / "results")
    reader.add_argument("--published", type=Path, help="the published runs, a Parquet table")
    given = reader.parse_args()
    write(given.results, published=given.published)
