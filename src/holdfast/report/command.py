# SPDX-License-Identifier: Apache-2.0
"""`holdfast report`: the arguments of the command line for `report`."""

from pathlib import Path
from typing import Annotated

import tyro

from holdfast.report import report
from holdfast.runs.log import PUBLISHED_LIMIT


def report_command(
    dirs: tyro.conf.Positional[tuple[Path, ...]],
    out: Annotated[Path, tyro.conf.arg(aliases=["-o"])] = Path("report"),
    watch: bool = False,
    title: str = "Safe reinforcement learning: a comparison",
    steps: float | None = None,
    cost_limit: float = PUBLISHED_LIMIT,
    figures: bool = True,
) -> None:
    """Compare runs: one page for the browser, figures and tables.

    Args:
        dirs: Run folders or their parents, of Holdfast, SafePO or OmniSafe; Parquet tables.
        out: Where to write report.html, figures/ and tables/.
        watch: Follow running jobs: rewrite the page until all runs are finished.
        title: The page's title.
        steps: Compare at so many environment steps instead of at the end.
        cost_limit: The limit of runs that state none, such as published tables.
        figures: Write PNG, SVG and PDF figures too; they take longer than all else.
    """
    if steps is not None and steps != int(steps):
        raise ValueError(f"--steps {steps} must be a whole number, such as 1e6.")
    at = None if steps is None else int(steps)
    page = report(dirs, out, watch, title=title, steps=at, cost_limit=cost_limit, figures=figures)
    print(page)
