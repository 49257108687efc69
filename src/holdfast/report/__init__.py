# SPDX-License-Identifier: Apache-2.0
"""Reports: a comparison of methods as one page, figures and tables from run folders.

`report` reads runs (ours, other libraries', published tables), compares them at equal steps and
writes `report.html`, `figures/` and `tables/`. With `watch` it repeats this while jobs run.
"""

import sys
import time
from collections.abc import Iterable
from pathlib import Path

from holdfast.cluster.places import here
from holdfast.cluster.storage import local_copy, renew
from holdfast.records.find import load, not_started
from holdfast.records.log import PUBLISHED_LIMIT, RunLog, Scalar, dotted
from holdfast.report.curves import curves
from holdfast.report.figures import write_figures
from holdfast.report.finals import UnitsName
from holdfast.report.html import payload, write_page
from holdfast.report.summary import LayoutName, summarise
from holdfast.report.tables import write_tables

__all__ = ["load_runs", "report"]


def load_runs(
    paths: Iterable[str | Path], cost_limit: float = PUBLISHED_LIMIT
) -> tuple[tuple[RunLog, ...], tuple[str, ...]]:
    """`records.find.load`, with defaults for settings that runs of earlier versions do not
    record.
    """
    return load(paths, cost_limit, _defaults)


def _defaults(algorithm: str) -> dict[str, Scalar]:
    from holdfast.run import default_settings  # JAX, which reports of one version do without

    return dotted(default_settings(algorithm))


def report(
    dirs: Iterable[str | Path],
    out: str | Path,
    watch: bool = False,
    *,
    title: str = "Safe reinforcement learning: a comparison",
    steps: int | None = None,
    cost_limit: float = PUBLISHED_LIMIT,
    interval: float = 10.0,
    figures: bool = True,
    units: UnitsName = "paper",
    layout: LayoutName = "holdfast",
) -> Path:
    """Write the report of all runs under `dirs` into the folder `out`; returns the page.

    `steps` compares earlier than at the end; `cost_limit` is for tables without a limit. `watch`
    rewrites the page every `interval` seconds until all runs are finished (Ctrl-C ends it sooner);
    figures and tables are written once, at the end. `figures` switches the figures off, which take
    most of the time. `units` are those of the paper's benchmark or of its ablation figure. The
    `layout` of figures and tables may be the paper's. It has two groups by the sign of the final
    cost, sorted by return, curves of safe methods alone (`curves-safe`), and 95 % intervals as
    bands.
    """
    if steps is not None and steps < 1:
        raise ValueError(f"steps={steps} must be positive: leave it out to compare at the end.")
    paths, folder = [local_copy(path, small=True) for path in dirs], here(out)
    if not paths:
        raise ValueError("no folder to report on: pass at least one run folder or table.")
    folder.mkdir(parents=True, exist_ok=True)
    while True:
        try:
            runs, skipped = load_runs(paths, cost_limit)
            runs = runs if steps is None else tuple(run.until(steps) for run in runs)
            finished = bool(runs) and all(run.done for run in runs)
            waiting = [cell for path in paths for cell in not_started(path)]
            live = watch and not (finished and not waiting)
            if runs or not watch:
                size = 5_000 if live else 50_000
                unused = [line for line in skipped if line not in waiting]
                summary = summarise(
                    runs, unused, waiting, steps=steps, resamples=size, of=units, layout=layout
                )
                page = write_page(folder, payload(summary, title, interval if live else None))
                if not live:
                    for line in summary.missing_units:
                        print(f"holdfast: {line}", file=sys.stderr)
                    if figures:
                        drawn = curves(summary.runs, intervals=layout == "paper")
                        write_figures(folder / "figures", summary, drawn)
                    write_tables(folder / "tables", summary)
                    return page
            time.sleep(interval)
            for path in paths:
                renew(path)
        except KeyboardInterrupt:
            if not watch:
                raise
            watch = False  # once more, complete, then return
