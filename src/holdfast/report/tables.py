# SPDX-License-Identifier: Apache-2.0
"""The report's numbers as CSV for machines and LaTeX for papers."""

import csv
from collections.abc import Iterable, Sequence
from dataclasses import astuple, fields
from pathlib import Path

from holdfast.records import statistics as stats
from holdfast.records.statistics import Estimate
from holdfast.report.finals import Pair, regret_column
from holdfast.report.holding import LimitMeasures
from holdfast.report.html import differing, short
from holdfast.report.summary import (
    METRICS,
    TABLE,
    End,
    Summary,
    normalised,
    printed,
    short_steps,
)

ESTIMATE = ("iqm", "low", "high")
PAIR = ("algorithm", "task")
ESCAPES = {letter: "\\" + letter for letter in "_%&#${}"} | {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
}


def write_tables(out: Path, summary: Summary) -> list[Path]:
    """Write all tables under `out`; returns the files."""
    out.mkdir(parents=True, exist_ok=True)
    gaps = [
        [line]
        for line in (
            *summary.missing_units,
            *summary.incomplete,
            *summary.waiting,
            *summary.skipped,
        )
    ]
    speeds = ("rollout_s", "update_s", "steps_per_s", "hours")
    files: dict[str, tuple[Sequence[str], Rows]] = {
        "final.csv": (
            (*PAIR, "metric", *ESTIMATE, "runs", "bold", "boxed", "steps"),
            _final(summary),
        ),
        "aggregate.csv": (("algorithm", "group", "metric", *ESTIMATE), _aggregate(summary)),
        "improvement.csv": (("algorithm", "over", "metric", *ESTIMATE), _improvement(summary)),
        "runs.csv": ((*PAIR, "seed", "steps", "return", "cost", "regret"), _runs(summary)),
        "holding.csv": (
            (*PAIR, *(f.name for f in fields(LimitMeasures))),
            _holding(summary),
        ),
        "timing.csv": ((*PAIR, *speeds), _timing(summary)),
        "settings.csv": (("setting", *summary.labels), _settings(summary)),
        "incomplete.csv": (("what",), gaps),
    }
    for name, (header, rows) in files.items():
        with open(out / name, "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(header)
            writer.writerows(rows)
    (out / "final.tex").write_text(latex_final(summary), "utf-8")
    (out / "aggregate.tex").write_text(latex_aggregate(summary), "utf-8")
    return [out / name for name in (*files, "final.tex", "aggregate.tex")]


Rows = Iterable[Sequence[object]]


def _numbers(estimate: Estimate) -> list[str]:
    return [f"{value:.7g}" for value in astuple(estimate)]


def _final(summary: Summary) -> Rows:
    """Values at the common steps, then those of longer runs at their own end."""
    common = End(summary.finals, summary.estimates, summary.bold, summary.boxed)
    for steps, end in ((None, common), *summary.ends.items()):
        for pair, estimates in sorted(end.estimates.items()):
            for metric in TABLE:
                marked = [metric == "reward" and pair in end.bold]
                marked += [metric == "regret" and pair in end.boxed]
                about = [len(end.finals[pair].seeds), *map(int, marked)]
                reached = steps or summary.horizon[pair[1]]
                yield [*pair, metric, *_numbers(estimates[metric]), *about, reached]


def _aggregate(summary: Summary) -> Rows:
    for name in summary.aggregate:
        group = next(title for title, names in summary.groups.items() if name in names)
        for metric in METRICS:
            yield [name, group, metric, *_numbers(printed(summary, name, metric))]


def _improvement(summary: Summary) -> Rows:
    """The first algorithm (C-TRPO where present) against every other; regret: lower is better."""
    names = list(summary.aggregate)
    scores = {n: normalised(summary.finals, summary.units, n, summary.tasks) for n in names}
    for metric, sign in (("reward", 1.0), ("regret", -1.0)):
        for other in names[1:]:
            ours, theirs = ([sign * s for s in scores[n][metric]] for n in (names[0], other))
            found = stats.probability_of_improvement(ours, theirs, resamples=5_000)
            yield [names[0], other, metric, *_numbers(found)]


def _runs(summary: Summary) -> Rows:
    for (label, task), final in sorted(summary.finals.items()):
        columns = (final.seeds, final.reward, final.cost, final.regret)
        for seed, *values in zip(*columns, strict=True):
            yield [label, task, seed, summary.horizon[task], *(f"{v:.7g}" for v in values)]


def _holding(summary: Summary) -> Rows:
    for (label, task), found in sorted(summary.limit_measures.items()):
        yield [label, task, *(f"{v:.6g}" for v in astuple(found))]


def _timing(summary: Summary) -> Rows:
    for (label, task), t in sorted(summary.timing.items()):
        yield [label, task, *(f"{v:.4g}" for v in astuple(t))]


def _settings(summary: Summary) -> Rows:
    differ, same = differing(summary)
    for name, values in differ.items():
        yield [name, *(values.get(label, "") for label in summary.labels)]
    for name, value in same.items():
        yield [name, *([value] * len(summary.labels))]


def latex(text: str) -> str:
    return "".join(ESCAPES.get(letter, letter) for letter in text)


def latex_final(summary: Summary) -> str:
    """The paper's table: per algorithm the rows V_r, V_c and regret, one column per task."""
    head = " & ".join(latex(short(task)) for task in summary.tasks)
    lines = [
        r"% needs \usepackage{booktabs}",
        f"% regret: {regret_column(summary.runs)}",
        rf"\begin{{tabular}}{{ll{'r' * len(summary.tasks)}}}",
    ]
    lines += [r"\toprule", rf"Algorithm & & {head} \\", r"\midrule"]
    signs = {"reward": "$V_r$", "cost": "$V_c$", "regret": r"$\mathrm{Reg}_+$"}
    common = End(summary.finals, summary.estimates, summary.bold, summary.boxed)
    for label in summary.labels:
        for steps, end in ((0, common), *summary.ends.items()):
            if steps and not any(name == label for name, _ in end.estimates):
                continue
            words = f"{label}, at {short_steps(steps)}" if steps else label
            for metric in TABLE:
                cells = [_cell(end, (label, task), metric) for task in summary.tasks]
                name = latex(words) if metric == "reward" else ""
                lines.append(rf"{name} & {signs[metric]} & {' & '.join(cells)} \\")
            lines.append(r"\addlinespace")
    return "\n".join([*lines[:-1], r"\bottomrule", r"\end{tabular}", ""])


def _cell(end: End, pair: Pair, metric: str) -> str:
    if pair not in end.estimates:
        return "--"
    e = end.estimates[pair][metric]
    value = round(e.value, 1)
    text = f"{value:.1f}"
    if metric == "reward" and pair in end.bold:
        text = rf"\mathbf{{{text}}}"
    if metric == "regret" and pair in end.boxed:
        text = rf"\boxed{{{text}}}"
    return rf"${text}^{{+{max(0.0, e.high - value):.1f}}}_{{-{max(0.0, value - e.low):.1f}}}$"


def latex_aggregate(summary: Summary) -> str:
    lines = [r"% needs \usepackage{booktabs}", r"\begin{tabular}{llrrr}", r"\toprule"]
    lines += [r"& Algorithm & Final cost & Return & Cost regret \\", r"\midrule"]
    for group, names in summary.groups.items():
        for i, name in enumerate(names):
            each = [printed(summary, name, metric) for metric in METRICS]
            cells = [f"${e.value:.3f}$ $[{e.low:.3f}, {e.high:.3f}]$" for e in each]
            lines.append(rf"{group if i == 0 else ''} & {latex(name)} & {' & '.join(cells)} \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])
