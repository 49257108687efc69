# SPDX-License-Identifier: Apache-2.0
"""The README's picture: return and regret of our default beside published C-TRPO, CPO and P3O; and
the time of the noise of actions, as `--noise-time auto` found it, over training.

`python evidence/proof.py write` draws both anew from results/.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kept import Outcome, logs
from tables import number, short

PUBLISHED: dict[str, dict[str, tuple[float, float]]] = {
    "SafetyHalfCheetahVelocity-v1": {
        "c-trpo": (1544, 1.821),
        "cpo": (1171, 62.36),
        "p3o": (1105, 0),
    },
    "SafetyHopperVelocity-v1": {
        "c-trpo": (1212, 79.08),
        "cpo": (1097, 266.2),
        "p3o": (1206, 1.369),
    },
    "SafetyAntVelocity-v1": {"c-trpo": (1747, 0.2818), "cpo": (1516, 16.58), "p3o": (17.73, 0)},
    "SafetyHumanoidVelocity-v1": {"c-trpo": (780, 0), "cpo": (874.2, 0), "p3o": (479.1, 0)},
    "SafetyPointGoal1-v0": {"c-trpo": (6.374, 482.6), "cpo": (8.556, 590.2), "p3o": (2.129, 357.1)},
    "SafetyPointPush1-v0": {
        "c-trpo": (0.243, 370.1),
        "cpo": (0.5193, 398.8),
        "p3o": (0.0449, 171.7),
    },
    "SafetyCarButton1-v0": {
        "c-trpo": (-0.3148, 1147),
        "cpo": (-0.86, 1083),
        "p3o": (-0.1805, 2019),
    },
    "SafetyRacecarCircle1-v0": {
        "c-trpo": (1.891, 650.9),
        "cpo": (1.966, 829.1),
        "p3o": (0.8196, 234.2),
    },
}
"""Means of the five published seeds at a million steps: (return, regret of the smoothed cost)."""
NAMES = {"ours": "Holdfast", "c-trpo": "C-TRPO", "cpo": "CPO", "p3o": "P3O"}
COLOURS = {"ours": "#0b6e8a", "c-trpo": "#8fb8c4", "cpo": "#c9c9c9", "p3o": "#e3c9a8"}
ACROSS = 4
"""Tasks in a row: more are too small to read on a screen of 1280."""
STYLE: dict[str, Any] = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "xtick.major.size": 0,
    "ytick.left": False,
    "ytick.labelleft": False,
}


def draw(ours: Sequence[Outcome], file: Path) -> Path:
    """Four tasks in a row, return above regret of each with finished runs; dots are our seeds."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    own = {task: [r for r in ours if (r.task, r.label) == (task, "c-trpo")] for task in PUBLISHED}
    own = {task: runs for task, runs in own.items() if runs}
    with rc_context(STYLE):
        across = min(ACROSS, max(len(own), 1))
        rows = -(-len(own) // across)
        made = Figure(figsize=(8.4, 0.5 + 3.3 * rows), dpi=150, layout="constrained")
        axes = made.subplots(2 * rows, across, squeeze=False)
        for k, (task, runs) in enumerate(own.items()):
            row, j = 2 * (k // across), k % across
            for i, metric in enumerate(("reward", "smooth")):
                values = [getattr(run, metric) for run in runs]
                theirs = {name: known[i] for name, known in PUBLISHED[task].items()}
                bars(axes[row + i, j], values, theirs)
            axes[row, j].set_title(short(task).removesuffix("Velocity"), fontsize=11, weight="bold")
        for k in range(len(own), rows * across):
            for i in (0, 1):
                axes[2 * rows - 2 + i, k % across].set_axis_off()
        for row in range(0, 2 * rows, 2):
            axes[row, 0].set_ylabel("return\n(higher is better)")
            axes[row + 1, 0].set_ylabel("cost regret\n(lower is better)")
        made.supxlabel(
            "Holdfast: C-TRPO with the default settings, mean over held-out seeds (dots)\n"
            "others: means of five published seeds; all after a million steps, cost limit 25",
            fontsize=9,
            color="#555555",
        )
        made.savefig(file, facecolor="white", metadata={"Software": None})
    return file


def noise_times(folder: Path) -> dict[str, list[tuple[list[int], list[float]]]]:
    """Task → (steps, time of the noise) of each of its runs that logs one."""
    found: dict[str, list[tuple[list[int], list[float]]]] = {}
    for task, _, _, rows in logs(folder):
        if rows and "noise_time" in rows[0]:
            own = [row["env_steps"] for row in rows], [float(row["noise_time"]) for row in rows]
            found.setdefault(task, []).append(own)
    return {task: found[task] for task in PUBLISHED if task in found}


def draw_noise(folder: Path, file: Path) -> Path | None:
    """Four tasks in a row, a line for each run."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    found = noise_times(folder)
    if not found:
        return None
    with rc_context({"font.size": 10, "axes.spines.top": False, "axes.spines.right": False}):
        across = min(ACROSS, len(found))
        rows = -(-len(found) // across)
        made = Figure(figsize=(8.4, 0.4 + 1.9 * rows), dpi=150, layout="constrained")
        axes = made.subplots(rows, across, squeeze=False, sharex=True, sharey=True)
        for axis, (task, runs) in zip(axes.flat, found.items(), strict=False):
            for steps, times in runs:
                axis.plot(np.array(steps) / 1e6, times, color=COLOURS["ours"], lw=1.2, alpha=0.7)
            axis.set_title(short(task).removesuffix("Velocity"), fontsize=11, weight="bold")
            axis.set_ylim(-0.4, 10.8)
        for axis in list(axes.flat)[len(found) :]:
            axis.set_axis_off()
        made.supxlabel("million steps", fontsize=9, color="#555555")
        made.supylabel("time of the noise, steps", fontsize=9, color="#555555")
        made.savefig(file, facecolor="white", metadata={"Software": None})
    return file


def bars(axis: Any, values: Sequence[float], theirs: dict[str, float]) -> None:
    """One small diagram with the numbers on its bars."""
    heights = {"ours": float(np.mean(values)), **theirs}
    axis.bar(
        range(len(heights)),
        list(heights.values()),
        color=[COLOURS[name] for name in heights],
        width=0.8,
    )
    axis.plot(np.zeros(len(values)), values, "o", ms=2.5, color="#052f3b", alpha=0.7)
    for place, (name, height) in enumerate(heights.items()):
        top = max(0.0, height, *(values if name == "ours" else ()))
        axis.annotate(
            number(height),
            (place, top),
            xytext=(0, 3),
            textcoords="offset points",
            ha="center",
            fontsize=9,
            weight="bold" if name == "ours" else None,
        )
    axis.set_xticks(range(len(heights)), [NAMES[name] for name in heights], fontsize=8, rotation=35)
    axis.axhline(0, color="#444444", lw=0.8)
    axis.margins(y=0.18)
    if not any(heights.values()):
        axis.set_ylim(0, 1)
