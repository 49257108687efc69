# SPDX-License-Identifier: Apache-2.0
"""How long a grid will take, before it starts, and on what the guess rests.

The best witness is a run of the same algorithm and task under the same output folder, then one of
the same task. Without any, the environment itself is timed for a moment; learning is then assumed
to take what it takes C-TRPO with the default networks on one core, which is rough.
"""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from holdfast.bench.suite import Cell
from holdfast.run import Run
from holdfast.runs.progress import tail
from holdfast.train.environment import open_env

LEARNING = 80e-6
"""Seconds for each step beside the environment's own: acting, estimating, updating."""
START_UP = 15.0
"""Seconds of each cell before its first epoch: imports and compilation."""


@dataclass(frozen=True)
class Forecast:
    seconds: float
    """Until all cells are done, with so many at a time."""
    cpu_hours: float
    measured: int
    """Cells whose pace is known from runs on disk; the others rest on a moment's timing."""
    cells: int

    def __str__(self) -> str:
        share = (
            "from the pace of earlier runs here"
            if self.measured == self.cells
            else "rough: environments timed for a moment, learning assumed"
        )
        return f"about {duration(self.seconds)} ({self.cpu_hours:.3g} core hours; {share})"


def forecast(cells: Sequence[Cell], out: Path, jobs: int) -> Forecast:
    """The time that the unfinished cells need."""
    paces = _paces(cells, out)
    timed: dict[str, float] = {}
    needs: list[float] = []
    known = 0
    for cell in cells:
        if (out / cell.name / "done.json").exists():
            continue
        run = cell.run
        left = run.epochs * run.epoch_steps - tail(out / cell.name / "progress.csv").get(
            "env_steps", 0.0
        )
        pace = paces.get((run.name, run.env)) or paces.get(("", run.env))
        known += pace is not None
        if pace is None:
            if run.env not in timed:
                timed[run.env] = _timed(run)
            pace = 1.0 / (1.0 / timed[run.env] + LEARNING)
        needs.append(START_UP + left / pace)
    return Forecast(_schedule(needs, jobs), sum(needs) / 3600, known, len(needs))


def _paces(cells: Sequence[Cell], out: Path) -> dict[tuple[str, str], float]:
    """Median steps per second by (algorithm, task), and by task alone under ("", task)."""
    seen: dict[tuple[str, str], list[float]] = {}
    for cell in cells:
        pace = tail(out / cell.name / "progress.csv").get("steps_per_second", math.nan)
        if pace > 0:
            for key in ((cell.run.name, cell.run.env), ("", cell.run.env)):
                seen.setdefault(key, []).append(pace)
    return {key: float(np.median(values)) for key, values in seen.items()}


def _timed(run: Run, seconds: float = 0.3) -> float:
    """Steps per second of the environments alone, under random actions."""
    env = open_env(run, trusted=True)
    try:
        env.reset(0)
        env.action_space.seed(0)
        draw = lambda: np.stack([env.action_space.sample() for _ in range(env.num_envs)])
        env.step(draw())
        begun, steps = time.perf_counter(), 0
        while time.perf_counter() - begun < seconds:
            env.step(draw())
            steps += env.num_envs
        return steps / (time.perf_counter() - begun)
    finally:
        env.close()


def _schedule(needs: Sequence[float], jobs: int) -> float:
    """When the last of `jobs` workers is free, each taking the next cell in turn."""
    workers = [0.0] * max(1, jobs)
    for need in needs:
        first = min(range(len(workers)), key=workers.__getitem__)
        workers[first] += need
    return max(workers)


def duration(seconds: float) -> str:
    """Two digits are honest: 45 s, 12 min, 3.5 h, 8.2 days."""
    for unit, size in (("days", 86_400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 1.5 * size:
            return (
                f"{seconds / size:.2g} {unit}"
                if seconds < 10 * size
                else f"{seconds / size:.0f} {unit}"
            )
    return f"{seconds:.0f} s"
