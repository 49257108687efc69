# SPDX-License-Identifier: Apache-2.0
"""Learning curves: the IQM over seeds with a band, the range of the seeds or an interval."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from holdfast.records import statistics as stats
from holdfast.records.log import RunLog
from holdfast.records.statistics import Array
from holdfast.report.finals import Pair, cost_curve, regret_column

POINTS = 126  # per curve: finer than a screen shows at card width
FEWER = 42  # where each point is resampled
CURVES = ("reward", "cost", "regret")


@dataclass(frozen=True)
class Curve:
    """All [P]."""

    steps: Array
    value: Array
    low: Array
    high: Array


def curves(runs: Sequence[RunLog], intervals: bool = False) -> dict[Pair, dict[str, Curve]]:
    """Per pair the curves of return, cost and cumulative regret.

    Bands reach from the lowest to the highest seed, or with `intervals` are 95 % bootstrap
    intervals of the IQM over seeds at each point.
    """
    pairs: dict[Pair, list[RunLog]] = {}
    for run in runs:
        if run.steps > 0:
            pairs.setdefault((run.label, run.task), []).append(run)
    regret = regret_column(runs)
    return {pair: _curves(members, regret, intervals) for pair, members in pairs.items()}


def _curves(runs: Sequence[RunLog], regret: str, intervals: bool) -> dict[str, Curve]:
    grid = _grid(runs, FEWER if intervals else POINTS)
    series = {
        "reward": [run.columns["ep_return"] for run in runs],
        "cost": [cost_curve(run)[0] for run in runs],
        "regret": [run.columns[regret] for run in runs],
    }
    return {
        name: _curve(
            grid, [_at(grid, run, v) for run, v in zip(runs, values, strict=True)], intervals
        )
        for name, values in series.items()
    }


def _grid(runs: Sequence[RunLog], points: int) -> Array:
    """Steps of the points: those of the longest run, thinned."""
    steps = max((run.columns["env_steps"] for run in runs), key=lambda steps: steps[-1])
    # Always from the end, so that the last point is the value in the table.
    stride = max(1, -(-steps.size // points))
    return steps[::-1][::stride][::-1]


def _at(grid: Array, run: RunLog, values: Array) -> Array:
    steps, known = run.columns["env_steps"], np.isfinite(values)
    if not known.any():
        return np.full(grid.size, np.nan)
    return np.interp(grid, steps[known], values[known], left=np.nan, right=np.nan)


def _curve(grid: Array, rows: Sequence[Array], intervals: bool) -> Curve:
    table = np.stack(rows)
    value, low, high = np.full((3, grid.size), np.nan)
    counts = np.isfinite(table).sum(axis=0)
    for count in np.unique(counts[counts > 0]):
        here = counts == count
        some = np.sort(table[:, here], axis=0)[:count]  # NaN sorts last
        value[here], low[here], high[here] = stats.iqm(some.T), some[0], some[-1]
        if intervals:
            each = [stats.bootstrap([column], resamples=5_000) for column in some.T]
            low[here], high[here] = [e.low for e in each], [e.high for e in each]
    return Curve(grid, value, low, high)
