# SPDX-License-Identifier: Apache-2.0
"""What an evaluation looks like while it runs: the interval closing on the mean cost."""

from __future__ import annotations

import math
import sys

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from holdfast.core.verdict import Verdict


class EvaluationBar:
    """Episodes so far; while safety is being proved, the interval and how many are still needed."""

    def __init__(self, episodes: int, quiet: bool = False, console: Console | None = None) -> None:
        self.progress = Progress(
            TextColumn("{task.completed:,} episodes"),
            BarColumn(),
            TextColumn("{task.description}"),
            console=console or Console(file=sys.stderr),
            transient=True,
            disable=quiet,
        )
        self.task = self.progress.add_task("", total=episodes)

    def update(self, done: int, said: Verdict | None) -> None:
        """After `done` episodes, with what they say where that has been worked out."""
        if said is None:
            self.progress.update(self.task, completed=done)
            return
        more = math.ceil(said.more) if math.isfinite(said.more) else None
        total = None if more is None else done + more
        self.progress.update(self.task, completed=done, total=total, description=closing(said))

    def __enter__(self) -> EvaluationBar:
        self.progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.progress.stop()


def closing(said: Verdict) -> str:
    """cost 8.1 .. 27.3, limit 25, about 90 more"""
    each = zip(said.proved.lower, said.proved.upper, said.limits, strict=True)
    shown = "; ".join(f"cost {low:.1f} .. {high:.1f}, limit {b:g}" for low, high, b in each)
    return shown + (f", about {said.more:,.0f} more" if math.isfinite(said.more) else "")
