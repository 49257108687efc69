# SPDX-License-Identifier: Apache-2.0
"""A picture of one run: return, cost against its limit, regret."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from holdfast.drawing.axes import draw_curve, draw_limit, figure_of, open_frame
from holdfast.drawing.palette import BLUE, CONSTRAINTS, GREY, LIMIT
from holdfast.records.rows import read_evaluations, read_progress
from holdfast.records.statistics import Array
from holdfast.run import Run
from holdfast.runs.folder import Folder


def plot_run(folder: Folder, target: Path) -> Path:
    """Write the figure (format by the suffix of `target`); returns its path."""
    columns = read_progress(folder.path / "progress.csv")
    judged = read_evaluations(folder.path)
    limits, called = folder.spaces.limits, f"'{folder.path}'"
    return plot_columns(columns, folder.run, limits, target, called, judged)


def plot_columns(
    columns: Mapping[str, Array],
    run: Run,
    limits: Mapping[str, float],
    target: Path,
    called: str,
    judged: Mapping[str, Array],
) -> Path:
    """The same from the columns of progress.csv and evaluations.csv; errors name the run as
    `called`.
    """
    ends = [""] if len(limits) == 1 else [f"/{name}" for name in limits]
    needed = "env_steps ep_return ep_return_raw ep_cost cost_regret cost_regret_raw".split()
    missing = [n for n in (*needed, *(f"ep_cost_raw{end}" for end in ends)) if n not in columns]
    if not columns or not next(iter(columns.values())).size:
        raise ValueError(f"{called} has no finished epoch yet, so there is nothing to draw.")
    if missing:
        raise ValueError(
            f"progress.csv of {called} has no column '{missing[0]}'; restore it from a copy."
        )
    steps = columns["env_steps"] / 1e6
    figure, axes = figure_of(1, 3, (11, 3.4))
    left, middle, right = axes[0]
    draw_curve(left, steps, columns["ep_return_raw"], BLUE, lw=1.5)
    draw_curve(left, steps, columns["ep_return"], GREY, lw=1)
    left.set_title("Return of an episode")
    for i, (name, limit) in enumerate(limits.items()):
        colour = CONSTRAINTS[i % len(CONSTRAINTS)]
        cost = columns[f"ep_cost_raw{ends[i]}"]  # what the regret sums
        draw_curve(middle, steps, cost, colour, lw=1.5, label=name)
        if len(limits) == 1:
            draw_curve(middle, steps, columns["ep_cost"], GREY, lw=1)
        draw_limit(middle, limit, LIMIT if len(limits) == 1 else colour, labelled=True)
        middle.fill_between(
            steps, limit, cost, where=(cost > limit).tolist(), color=LIMIT, alpha=0.25
        )
    middle.set_ylim(
        bottom=min(0.0, middle.get_ylim()[0]),
        top=max(middle.get_ylim()[1], 1.15 * max(limits.values())),
    )
    kind = "Discounted cost" if run.cost_criterion == "discounted" else "Cost"
    middle.set_title(f"{kind} of an episode, with its limit")
    if len(limits) > 1:
        middle.legend(frameon=False, fontsize=8)
    _draw_evaluations(judged, limits, left, middle)
    draw_curve(right, steps, columns["cost_regret_raw"], BLUE, lw=1.5, label="of each epoch")
    draw_curve(right, steps, columns["cost_regret"], GREY, lw=1, label="smoothed, as published")
    right.set_ylim(bottom=0)
    right.legend(frameon=False, fontsize=8)
    right.set_title("Cost regret: Σ (cost − limit)₊")
    for panel in (left, middle, right):
        panel.set_xlabel("million environment steps")
        open_frame(panel)
    figure.suptitle(f"{run.name} on {run.env}, seed {run.seed}", fontsize=11)
    target.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(target, dpi=150)
    return target


def _draw_evaluations(
    judged: Mapping[str, Array], limits: Mapping[str, float], returns: Any, costs: Any
) -> None:
    """A dot for each evaluation while training; a filled one was safe by its fresh episodes."""
    if not judged or not judged["env_steps"].size:
        return
    steps, several = judged["env_steps"] / 1e6, len(limits) > 1
    inside = ["black" if safe else "white" for safe in judged["safe"]]
    style = {"s": 18, "c": inside, "edgecolors": "black", "linewidths": 0.8, "zorder": 3}
    returns.scatter(steps, judged["return"], label="fresh episodes (filled: safe)", **style)
    returns.legend(frameon=False, fontsize=8)
    for i, name in enumerate(limits):
        column = f"cost/{name}" if several else "cost"
        edge = CONSTRAINTS[i % len(CONSTRAINTS)] if several else "black"
        if column in judged:
            costs.scatter(steps, judged[column], **style | {"edgecolors": edge})
