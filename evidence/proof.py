# SPDX-License-Identifier: Apache-2.0
"""What kept runs show, beside the published ones: records, tables and pictures for the docs.

    holdfast bench ours --out runs/ours
    python evidence/proof.py keep runs/ours results/ours        # small files of finished runs
    python evidence/proof.py write --published paper_runs.parquet   # all tables and pictures

`keep` takes several folders of runs and adds to what is kept already. `write` puts into docs/,
between their marks, what results/ holds now: our default beside published runs at equal
steps, the cells of the reproduction, what has not run and by which command it would. `table` prints
the first. Published files are read, never written: what becomes of them here are single figures.
"""

from __future__ import annotations

import argparse
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from cells import cells_table, compared, draw_cells, half_and_whole
from holdfast.records.statistics import Array, Estimate, bootstrap, iqm
from intervals import student, welch
from kept import Outcome, column, grouped, keep, logs, not_run_text, outcomes, published
from paired import DEFAULT, WHITE, again, beside, crossings, demo, finals, screened, slow
from picture import PUBLISHED, draw, draw_noise
from tables import Rows, markdown, number, short
from tails import table as tails_table
from update_sizes import size_table

ROOT = Path(__file__).parents[1]
STEPS, LAST = 1_000_000, 10_000_000
LIMIT = 25.0
RIVALS = ("c-trpo", "cpo", "p3o")
MARKS = re.compile(r"(<!-- begin (\w+) -->\n).*?(<!-- end \2 -->)", re.S)


def shown(found: Estimate) -> str:
    return f"{number(found.value)} ({number(found.low)} .. {number(found.high)})"


def mean_of(values: Sequence[float]) -> str:
    """With its interval; a single run has none."""
    return shown(student(values)) if len(values) > 1 else number(values[0])


def apart(ours: Sequence[float], theirs: Sequence[float]) -> str:
    """The difference of two means with its interval."""
    return shown(welch(ours, theirs))


def table(
    ours: Sequence[Outcome], theirs: Sequence[Outcome], repeated: Sequence[Outcome] = ()
) -> Rows:
    """A row for ours and one for each rival on each task, the head first; between them what this
    code does with the published settings, so that code and settings are told apart."""
    rows = [["task", "", "seeds", "return", "cost", "regret", "raw regret", "cost, last 15 epochs"]]
    for (task, label), runs in grouped(ours).items():
        others = {name: grouped(theirs).get((task, name), []) for name in RIVALS}
        values = [mean_of(column(runs, k)) for k in METRICS]
        raw = mean_of(column(runs, "raw"))
        late = f"{np.mean(column(runs, 'late')):.1f}"
        rows.append([short(task), f"**{label}**, ours", str(len(runs)), *values, raw, late])
        if again := grouped(repeated).get((task, label)):
            values = [mean_of(column(again, k)) for k in (*METRICS, "raw")]
            late = f"{np.mean(column(again, 'late')):.1f}"
            rows.append(["", f"{label}, published settings here", str(len(again)), *values, late])
        for name, found in others.items():
            if found:
                values = [mean_of(column(found, k)) for k in METRICS]
                rows.append(["", f"{name}, published", str(len(found)), *values, "", ""])
        if (base := others[RIVALS[0]]) and len(runs) > 1:
            gaps = [apart(column(runs, k), column(base, k)) for k in METRICS]
            rows.append(["", "ours − published c-trpo", "", *gaps, "", ""])
    return rows


METRICS = ("reward", "cost", "smooth")


def aggregate(ours: Sequence[Outcome], theirs: Sequence[Outcome], ends: Sequence[Outcome]) -> Rows:
    """The paper's aggregates over the tasks that ours has several runs of, at equal steps, each
    with its stratified interval, and in its units: at the `ends` of its runs PPO's mean return and
    CPO's IQM regret."""
    tasks = sorted({task for (task, _), runs in grouped(ours).items() if len(runs) > 1})
    rivals, final = grouped(theirs), grouped(ends)
    ppo = {task: abs(np.mean(column(final[task, "ppo"], "reward"))) for task in tasks}
    cpo = {task: float(iqm(column(final[task, "cpo"], "smooth"))) for task in tasks}
    rows = [["", "cost / limit − 1", "return", "regret"]]
    named = [("**ours**", {task: [r for r in ours if r.task == task] for task in tasks})]
    named += [(f"{n}, published", {task: rivals[task, n] for task in tasks}) for n in RIVALS]
    for name, runs in named:
        scores: list[list[Array]] = [
            [np.array(column(runs[task], "cost")) / LIMIT - 1 for task in tasks],
            [np.array(column(runs[task], "reward")) / ppo[task] for task in tasks],
            [np.array(column(runs[task], "smooth")) / cpo[task] for task in tasks],
        ]
        found = [bootstrap(strata, iqm) for strata in scores]
        rows.append([name, *(f"{e.value:.3f} ({e.low:.3f} .. {e.high:.3f})" for e in found)])
    return rows


def filled(rows: Rows) -> str:
    """A table that may still be empty."""
    return markdown(rows) if len(rows) > 1 else "Not run yet.\n"


def short_table(ours: Sequence[Outcome]) -> str:
    """Return and regret of ours beside published means, for the tasks that have finished runs; the
    best return and the smallest regret of a row are bold. Raw regrets are known of ours alone."""
    rows = [["", "seeds", "raw regret", "Holdfast", *(f"published {n.upper()}" for n in RIVALS)]]
    groups = grouped(ours)
    for task, known in PUBLISHED.items():
        runs = groups.get((task, "c-trpo"), [])
        if runs:
            means = [float(np.mean(column(runs, k))) for k in ("reward", "smooth", "raw")]
            pairs = [(means[0], means[1]), *(known[n] for n in RIVALS)]
            most, least = max(r for r, _ in pairs), min(c for _, c in pairs)
            best = lambda text, is_best: f"**{text}**" if is_best else text
            told = [
                f"{best(number(earned), earned == most)}, {best(number(regret), regret == least)}"
                for earned, regret in pairs
            ]
            rows.append([short(task), str(len(runs)), number(means[2]), *told])
    return markdown(rows)


def unseen_seeds(results: Path) -> Rows:
    """The default beside the earlier one with white noise and published C-TRPO, a row for each and
    each task that the default has run: means over seeds that no setting was chosen on."""
    head = ["task", "", "seeds", "return", "regret", "raw regret", "epochs above the limit"]
    rows = [[*head, "cost, last 15 epochs"]]
    names = {"slow": "**default**", "ours": "white noise"}
    found = {name: grouped(outcomes(results / name, STEPS)) for name in names}
    above = {name: shares_above(results / name) for name in names}
    for task, known in PUBLISHED.items():
        if (task, "c-trpo") not in found["slow"]:
            continue
        for name, label in names.items():
            runs = found[name][task, "c-trpo"]
            means = [float(np.mean(column(runs, k))) for k in ("reward", "smooth", "raw", "late")]
            numbers = [*map(number, means[:3]), above[name][task]]
            seeds = str(len(runs))
            first = short(task) if name == "slow" else ""
            rows.append([first, label, seeds, *numbers, f"{means[3]:.1f}"])
        rows.append(["", "published C-TRPO", "5", *map(number, known["c-trpo"]), "", "", ""])
    return rows


def shares_above(folder: Path) -> dict[str, str]:
    """Task → of the epochs of its runs, the share above the limit by their own episodes."""
    above: dict[str, list[bool]] = defaultdict(list)
    for task, _, _, rows in logs(folder, STEPS):
        above[task] += [float(row["ep_cost_raw"]) > LIMIT for row in rows]
    return {task: f"{100 * np.mean(epochs):.0f} %" for task, epochs in above.items()}


def put(file: Path, parts: Mapping[str, str]) -> None:
    """Replace what stands between the marks of each part."""
    text = file.read_text()
    there = {name for _, name, _ in MARKS.findall(text)}
    if missing := set(parts) - there:
        raise ValueError(f"{file} has no marks for {', '.join(sorted(missing))}.")
    filled_in = lambda m: m[1] + parts[m[2]] + m[3] if m[2] in parts else m[0]
    file.write_text(MARKS.sub(filled_in, text))


def write(root: Path, source: Path | None) -> None:
    """All that README.md and docs/ show of results/; tables with published runs need these."""
    results = root / "results"
    ours = outcomes(results / "ours", STEPS)
    draw(ours, root / "docs" / "images" / "ours.png")
    draw_noise(results / "slow", root / "docs" / "images" / "noise_time.png")
    pages = evidence_texts(results)
    if source:
        theirs, ends = published(source, STEPS), published(source, LAST)
        pages["docs/holding.md"] |= {
            "ours": markdown(table(ours, theirs, outcomes(results / "reproduction", STEPS))),
            "aggregate": markdown(aggregate(ours, theirs, ends)),
            "long": filled(table(outcomes(results / "ours-long", LAST), ends)),
        }
        beside = half_and_whole(source)
        pages["docs/reproduction.md"] |= {
            "cells": cells_table(results, beside),
            "updates": markdown(size_table(results / "reproduction", source)),
        }
        draw_cells(
            compared(results / "reproduction", beside),
            root / "docs" / "images" / "reproduction.png",
        )
    for page, parts in pages.items():
        put(root / page, parts)


def evidence_texts(results: Path) -> dict[str, dict[str, str]]:
    """Page → its parts that need no published runs."""
    sentence, rows = demo(results / "demo_seeds.csv")
    holding = {
        "short": short_table(outcomes(results / "ours", STEPS)),
        "slow": filled(unseen_seeds(results)),
        "not_run": not_run_text(results / "slow"),
        "finals": filled(finals(results / "ours", results / "again")),
        "again": filled(again(outcomes(results / "ours"), outcomes(results / "again"))),
        "long_not_run": not_run_text(results / "ours-long"),
        "noise": filled(beside(slow(results), WHITE)),
        "ablation": markdown(beside(outcomes(results / "holding"), "c-trpo")),
        "ablation_not_run": not_run_text(results / "holding"),
        "unseen": filled(beside(outcomes(results / "unseen"), "c-trpo_preset=published")),
        "unseen_not_run": not_run_text(results / "unseen"),
        "rivals": filled(beside(rivals(results), "c-trpo")),
        "rivals_not_run": not_run_text(results / "rivals"),
        "demo": sentence + markdown(rows),
    }
    folders = {"default": results / "ours", "published": results / "reproduction"}
    made = {
        "crossings": filled(crossings(folders)),
        "tries": markdown(beside(screened(results / "screening.csv"), DEFAULT)),
    }
    return {
        "docs/holding.md": holding,
        "docs/default.md": made,
        "docs/reproduction.md": {"not_run": not_run_text(results / "reproduction")},
        "docs/limits.md": {
            "tails": filled(tails_table(results / "tails")),
            "tails_not_run": not_run_text(results / "tails"),
        },
        "docs/algorithms/c-mdpo.md": {
            "mirror": filled(beside(outcomes(results / "mirror"), "c3po")),
            "mirror_not_run": not_run_text(results / "mirror"),
        },
    }


def rivals(results: Path) -> list[Outcome]:
    """What evidence/rivals.toml ran, and our default on the same tasks, seeds and processor."""
    theirs = outcomes(results / "rivals")
    common = {(run.task, run.seed) for run in theirs}
    return [*theirs, *(r for r in outcomes(results / "again") if (r.task, r.seed) in common)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    copy = commands.add_parser("keep")
    copy.add_argument("folders", type=Path, nargs="+", help="runs, then where to keep them")
    show = commands.add_parser("table")
    show.add_argument("results", type=Path)
    show.add_argument("--published", type=Path)
    new = commands.add_parser("write")
    new.add_argument("--published", type=Path)
    chosen = parser.parse_args()
    if chosen.command == "keep":
        *sources, target = chosen.folders
        kept, left = keep(sources, target)
        print(f"kept {len(kept)} runs" + "".join(f"\nnot finished: {name}" for name in left))
    elif chosen.command == "table":
        theirs = published(chosen.published, STEPS) if chosen.published else []
        print(markdown(table(outcomes(chosen.results, STEPS), theirs)))
    else:
        write(ROOT, chosen.published)


if __name__ == "__main__":
    main()
