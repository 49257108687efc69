# SPDX-License-Identifier: Apache-2.0
"""`holdfast report`: compare runs in one page, with figures and tables."""

from pathlib import Path
from typing import Annotated

import tyro

from holdfast.cli.arguments import Out, Records, WholeOrNone
from holdfast.records.log import PUBLISHED_LIMIT
from holdfast.report import report
from holdfast.report.finals import UnitsName
from holdfast.report.summary import LayoutName

UNITS = (
    "Units of the paper's benchmark figure (regret in units of the IQM of CPO's, cost / limit − 1),"
    " or of its ablation figure (the mean of CPO's, cost / limit)."
)
LAYOUT = (
    "Layout of figures and tables; paper: two groups by the sign of the final cost, sorted by "
    "return, extra curves of safe methods, bands of 95 % intervals."
)


def command(
    dirs: tyro.conf.Positional[tuple[Records, ...]],
    out: Out = Path("report"),
    watch: bool = False,
    title: str = "Safe reinforcement learning: a comparison",
    steps: WholeOrNone = None,
    cost_limit: float = PUBLISHED_LIMIT,
    figures: bool = True,
    units: Annotated[UnitsName, tyro.conf.arg(help=UNITS)] = "paper",
    layout: Annotated[LayoutName, tyro.conf.arg(help=LAYOUT)] = "holdfast",
) -> None:
    """Compare runs: one page for the browser, figures and tables.

    Args:
        dirs: Run folders or their parents, of Holdfast, SafePO or OmniSafe; Parquet tables.
        out: Where to write report.html, figures/ and tables/.
        watch: Follow running jobs: rewrite the page until all runs are finished.
        title: The page's title.
        steps: Compare at this number of environment steps instead of at the end.
        cost_limit: The limit of runs that have none, such as published tables.
        figures: Write PNG, SVG and PDF figures too; they take most of the time.
    """
    page = report(
        dirs, out, watch, title=title, steps=steps, cost_limit=cost_limit, figures=figures,
        units=units, layout=layout,
    )  # fmt: skip
    print(page)
