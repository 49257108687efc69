# SPDX-License-Identifier: Apache-2.0
"""Estimate of a grid's time and disk space before it starts.

The best source is a run of the same algorithm and task under the same output folder, then one of
the same task. Without any, the environment itself is timed briefly, and learning is assumed to take
as long as C-TRPO with the default networks on one core, which is a rough estimate.
"""

import itertools
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import jax
import numpy as np

from holdfast.bench.suite import Cell
from holdfast.envs.foreign.spaces import sample_actions
from holdfast.records.rows import tail
from holdfast.run import Run
from holdfast.train.environment import Spaces, open_env
from holdfast.train.state import first_state

LEARNING = 80e-6
"""Seconds of each step without the environment's: acting, estimating, updating."""
ROW = 450.0
"""Bytes of an epoch in progress.csv."""
START_UP = 15.0
"""Seconds of each cell before its first epoch: imports and compilation."""


@dataclass(frozen=True)
class Effort:
    seconds: float
    """Seconds until all cells are done, with so many at a time."""
    cpu_hours: float
    measured: int
    """Number of cells with a known pace from earlier runs; the others are timed briefly."""
    cells: int
    size: float
    """Bytes of their folders."""

    def __str__(self) -> str:
        share = (
            "from the pace of earlier runs here"
            if self.measured == self.cells
            else "rough: environments timed briefly, learning assumed"
        )
        work = duration(3600 * self.cpu_hours)
        return (
            f"about {duration(self.seconds)} ({work} of a core; {share}), and about "
            f"{volume(self.size)} on disk"
        )


def effort(cells: Sequence[Cell], out: Path, jobs: int) -> Effort:
    """The time that the unfinished cells need."""
    paces = _paces(cells, out)
    timed: dict[str, tuple[float, float]] = {}
    needs: list[float] = []
    known, size = 0, 0.0
    for cell in cells:
        if (out / cell.name / "done.json").exists():
            continue
        run = cell.run
        left = run.epochs * run.epoch_steps - tail(out / cell.name / "progress.csv").get(
            "env_steps", 0.0
        )
        pace = paces.get((run.name, run.env)) or paces.get(("", run.env))
        known += pace is not None
        if pace is None or run.env not in timed:
            timed[run.env] = timed.get(run.env) or _timed(run, pace is None)
        if pace is None:
            pace = 1.0 / (1.0 / timed[run.env][0] + LEARNING)
        needs.append(START_UP + left / pace)
        size += run.keep * timed[run.env][1] + run.epochs * ROW
    return Effort(_schedule(needs, jobs), sum(needs) / 3600, known, len(needs), size)


def _paces(cells: Sequence[Cell], out: Path) -> dict[tuple[str, str], float]:
    """Median steps per second by (algorithm, task), and by task alone under ("", task)."""
    seen: dict[tuple[str, str], list[float]] = {}
    for cell in cells:
        pace = tail(out / cell.name / "progress.csv").get("steps_per_second", math.nan)
        if pace > 0:
            for key in ((cell.run.name, cell.run.env), ("", cell.run.env)):
                seen.setdefault(key, []).append(pace)
    return {key: float(np.median(values)) for key, values in seen.items()}


def _timed(run: Run, timed: bool, seconds: float = 0.3) -> tuple[float, float]:
    """(steps per second of the environments alone, under random actions; bytes of a checkpoint)."""
    env = open_env(run, trusted=True)
    try:
        arrays = jax.tree.leaves(first_state(run, Spaces.of(run, env), shapes_only=True).learner)
        size = float(sum(leaf.size * leaf.dtype.itemsize for leaf in arrays))
        if not timed:
            return 0.0, size
        env.reset(0)
        rng = np.random.default_rng(0)
        draw = lambda: sample_actions(env.action_space, env.num_envs, rng)
        env.step(draw())
        begun, steps = time.perf_counter(), 0
        while time.perf_counter() - begun < seconds:
            env.step(draw())
            steps += env.num_envs
        return steps / (time.perf_counter() - begun), size
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
    """A duration in the precision of an estimate: 45 s, 12 min, 2 h 10 min, 8 days 2 h."""
    for (unit, size), (part, less) in itertools.pairwise(UNITS):
        if seconds >= size:
            whole, rest = divmod(round(seconds / less), round(size / less))
            more = f" {rest} {part}" if rest and whole < 10 and less > 1 else ""
            return f"{whole} {unit}{'s' if unit == 'day' and whole > 1 else ''}{more}"
    return f"{seconds:.0f} s"


UNITS = (("day", 86_400.0), ("h", 3600.0), ("min", 60.0), ("s", 1.0))


def volume(size: float) -> str:
    """45 kB, 1.2 MB, 310 MB, 2.4 GB."""
    for unit, one in (("GB", 1e9), ("MB", 1e6)):
        if size >= one:
            return f"{size / one:.1f} {unit}" if size < 10 * one else f"{size / one:.0f} {unit}"
    return f"{max(1, round(size / 1e3))} kB"
