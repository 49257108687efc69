# SPDX-License-Identifier: Apache-2.0
"""One self-contained page: markup, style, script and data in one file that needs no network."""

import base64
import html
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, astuple
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from holdfast.drawing.palette import page_colours
from holdfast.files import write_atomic
from holdfast.records.log import Scalar
from holdfast.records.statistics import Array, Estimate
from holdfast.report.curves import CURVES, Curve, curves
from holdfast.report.finals import Pair, regret_column
from holdfast.report.summary import Summary

SCRIPTS = ("stats.js", "charts.js", "holding.js", "page.js")


def write_page(out: Path, data: dict[str, Any]) -> Path:
    """Write `report.html` under `out`, atomically."""
    page = files("holdfast.report") / "page"
    scripts = "\n".join((page / name).read_text("utf-8") for name in SCRIPTS)
    parts = {
        "@TITLE@": html.escape(str(data["title"])),
        "@STYLE@": page_colours() + (page / "page.css").read_text("utf-8"),
        # Inside a script element only "<" could end the data early.
        "@DATA@": json.dumps(data, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c"),
        "@SCRIPT@": f'(() => {{\n"use strict";\n{scripts}\n}})();',
    }
    text = (page / "page.html").read_text("utf-8")
    whole = re.sub("@[A-Z]+@", lambda mark: parts[mark[0]], text)  # what is put in is not searched
    target = out / "report.html"
    write_atomic(target, whole.encode())
    return target


def payload(summary: Summary, title: str, watch: float | None = None) -> dict[str, Any]:
    """The data of the page's script; see page.js."""
    index = {label: i for i, label in enumerate(summary.labels)}
    where = {task: i for i, task in enumerate(summary.tasks)}
    key = lambda pair: f"{index[pair[0]]},{where[pair[1]]}"
    return {
        "title": title,
        "watch": watch,
        "rows": sum(run.columns["env_steps"].size for run in summary.runs),
        "runs": len(summary.runs),
        "done": sum(run.done for run in summary.runs),
        "smoothed": regret_column(summary.runs) == "cost_regret",
        "labels": list(summary.labels),
        "own": sorted({index[run.label] for run in summary.runs if run.source == "holdfast"}),
        "withdrawn": [index[label] for label in summary.withdrawn],
        "tasks": [_task(summary, task) for task in summary.tasks],
        "finals": {
            key(pair): {"seeds": final.seeds}
            | {m: _round(getattr(final, m)) for m in ("reward", "cost", "excess", "regret")}
            for pair, final in summary.finals.items()
        },
        "estimates": {
            key(pair): {m: _triple(e) for m, e in estimates.items()}
            for pair, estimates in summary.estimates.items()
        },
        "ends": [
            {
                "steps": steps,
                "seeds": {key(pair): len(final.seeds) for pair, final in end.finals.items()},
                "estimates": {
                    key(pair): {m: _triple(e) for m, e in estimates.items()}
                    for pair, estimates in end.estimates.items()
                },
                "bold": [key(pair) for pair in end.bold],
                "boxed": [key(pair) for pair in end.boxed],
            }
            for steps, end in summary.ends.items()
        ],
        "bold": [key(pair) for pair in summary.bold],
        "boxed": [key(pair) for pair in summary.boxed],
        "aggregate": {
            str(index[label]): {m: _triple(e) for m, e in estimates.items()}
            for label, estimates in summary.aggregate.items()
        },
        "curves": {key(pair): _curves(found) for pair, found in curves(summary.runs).items()},
        "evaluated": {key(pair): points for pair, points in _evaluated(summary).items() if points},
        "held": {
            key(pair): {name: _number(v) for name, v in asdict(values).items()}
            for pair, values in summary.limit_measures.items()
        },
        "predicted_vs_realised": {
            key(pair): [[_number(v) for v in point] for point in points]
            for pair, points in summary.predicted_vs_realised.items()
        },
        "timing": {
            key(pair): [_number(v) for v in astuple(t)] for pair, t in summary.timing.items()
        },
        "config": _configs(summary),
        "incomplete": [*summary.missing_units, *summary.incomplete],
        "without_history": summary.without_history,
        "without_epoch": summary.without_epoch,
        "skipped": summary.skipped,
        "waiting": summary.waiting,
    }


def _evaluated(summary: Summary) -> dict[Pair, list[list[float | None]]]:
    """Evaluations while training, of all seeds: steps, return, cost as drawn, whether safe."""
    found: dict[Pair, list[list[float | None]]] = {}
    for run in summary.runs:
        judged = run.evaluations
        if judged:
            alone = len(run.limits) == 1  # several costs are drawn as the worst cost / limit
            costs = [judged["cost"] if alone else np.full(judged["cost"].size, np.nan)]
            rows = zip(judged["env_steps"], judged["return"], *costs, judged["safe"], strict=True)
            points = found.setdefault((run.label, run.task), [])
            points += [[_number(value) for value in row] for row in rows]
    return found


def short(task: str) -> str:
    """SafetyAntVelocity-v1 -> AntVelocity"""
    return re.sub(r"^Safety(?=[A-Z])|-v\d+$", "", task)


def limits(summary: Summary, task: str) -> list[float]:
    """Distinct cost limits of the task's runs, in the units of its drawn cost."""
    return sorted({final.limit for (_, where), final in summary.finals.items() if where == task})


def differing(summary: Summary) -> tuple[dict[str, dict[str, str]], dict[str, str]]:
    """(settings that differ between labels: key -> label -> text, settings common to all)."""
    table: dict[str, dict[str, str]] = {}
    for label in summary.labels:
        members = [run for run in summary.runs if run.label == label]
        for name in {name for run in members for name in run.config}:
            by_task: dict[str, set[str]] = {}
            for run in members:
                by_task.setdefault(_text(run.config.get(name)), set()).add(short(run.task))
            table.setdefault(name, {})[label] = _values(by_task)
    noise = {"seed", "env", "task"}
    table = {name: values for name, values in sorted(table.items()) if name not in noise}
    same = {
        name: next(iter(values.values()))
        for name, values in table.items()
        if len(values) == len(summary.labels) and len(set(values.values())) == 1
    }
    return {name: values for name, values in table.items() if name not in same}, same


def _values(by_task: Mapping[str, set[str]]) -> str:
    """One value, or the common one and the tasks with another."""
    ordered = sorted(by_task, key=lambda value: (-len(by_task[value]), value))
    if len(ordered) > 4:
        return f"{len(ordered)} values"
    first, *rest = ordered
    return "; ".join(
        [first, *(f"{value} on {', '.join(sorted(by_task[value]))}" for value in rest)]
    )


def _text(value: Scalar) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _configs(summary: Summary) -> dict[str, Any]:
    differ, same = differing(summary)
    rows = [
        [name, *(values.get(label, "–") for label in summary.labels)]
        for name, values in differ.items()
    ]
    return {"differ": rows, "same": [list(item) for item in same.items()]}


def _task(summary: Summary, task: str) -> dict[str, Any]:
    unit = summary.units[task]
    return {
        "name": task,
        "short": short(task),
        "horizon": summary.horizon[task],
        "limits": limits(summary, task),
        "shared": max(len(run.limits) for run in summary.runs if run.task == task),
        "unit": {
            "reward": unit.reward,
            "regret": unit.regret,
            "rewardBy": unit.reward_by,
            "regretBy": unit.regret_by,
        },
    }


def _curves(found: Mapping[str, Curve]) -> dict[str, str]:
    packed = {"steps": _pack(found["reward"].steps)}
    for name in CURVES:
        curve = found[name]
        packed[name] = _pack(np.stack([curve.value, curve.low, curve.high]))
    return packed


def _pack(values: Array) -> str:
    return base64.b64encode(values.astype("<f4").tobytes()).decode()


def _triple(estimate: Estimate) -> list[float | None]:
    return [_number(v) for v in astuple(estimate)]


def _round(values: Array) -> list[float]:
    return [float(f"{value:.7g}") for value in values]


def _number(value: float) -> float | None:
    return float(f"{value:.6g}") if np.isfinite(value) else None
