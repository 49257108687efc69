# SPDX-License-Identifier: Apache-2.0
"""`holdfast plot`: a run's return, cost and regret."""

from __future__ import annotations

import tyro

from holdfast.cli.arguments import OutOrNone, RunFolder


def command(run: tyro.conf.Positional[RunFolder], out: OutOrNone = None) -> None:
    """Draw return, cost against limit and regret of a run.

    Args:
        run: The run folder.
        out: The picture's file, by default RUN/progress.png; its suffix chooses PNG, SVG or PDF.
    """
    from holdfast.cluster.storage import refuse_zoo, sync_back
    from holdfast.runs.folder import open_folder
    from holdfast.runs.plot import plot_run

    if out is None:
        refuse_zoo(run, "name a file for the picture with --out")
    print(plot_run(open_folder(run), out or run / "progress.png"))
    sync_back(run)
