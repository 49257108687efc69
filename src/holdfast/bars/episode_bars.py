# SPDX-License-Identifier: Apache-2.0
"""Bars of evaluation and filming, which disappear at the end and print nothing in a log."""

from __future__ import annotations

import math

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn
from rich.text import Text

from holdfast.console import plain_console
from holdfast.judge.verdict import Verdict


def _progress(*columns: ProgressColumn, quiet: bool, console: Console | None) -> Progress:
    """A bar that disappears at the end; it prints nothing in a log."""
    console = console or plain_console(stderr=True)
    hidden = quiet or not (console.is_terminal or console.is_jupyter)
    return Progress(*columns, console=console, transient=True, disable=hidden)


def _stop(progress: Progress) -> None:
    """Old versions of rich print an empty line after a hidden bar."""
    if progress.live.is_started:
        progress.stop()


class EvaluationBar:
    """Episodes so far; while safety is being proved, the interval and how many are still needed."""

    def __init__(self, episodes: int, quiet: bool = False, console: Console | None = None) -> None:
        columns = TextColumn("{task.completed:,} episodes"), BarColumn()
        text = TextColumn("{task.description}", markup=False)
        self.progress = _progress(*columns, text, quiet=quiet, console=console)
        self.task = self.progress.add_task("", total=episodes)

    def update(self, done: int, verdict: Verdict | None) -> None:
        """After `done` episodes, with the verdict if it was computed."""
        if verdict is None:
            self.progress.update(self.task, completed=done)
            return
        more = math.ceil(verdict.more) if math.isfinite(verdict.more) else None
        total = None if more is None else done + more
        self.progress.update(self.task, completed=done, total=total, description=closing(verdict))

    def __enter__(self) -> EvaluationBar:
        self.progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        _stop(self.progress)


class FilmBar:
    """Frames drawn so far, or a line on the content of a window."""

    def __init__(self, quiet: bool = False, console: Console | None = None) -> None:
        columns = TextColumn("{task.description}", markup=False), BarColumn()
        frames = TextColumn("{task.completed} of {task.total} frames")
        self.progress = _progress(*columns, frames, quiet=quiet, console=console)
        self.line = self.progress.console.status("")
        self.task = self.progress.add_task("playing", total=None)

    def update(self, done: int, total: int) -> None:
        self.progress.update(self.task, completed=done, total=total, description="drawing")

    def report(self, text: str) -> None:
        """A line in place of the bar, on a terminal only."""
        if not self.progress.console.is_terminal:
            return
        if self.progress.live.is_started:
            self.progress.stop()
            self.line.start()
        self.line.update(Text(text))

    def __enter__(self) -> FilmBar:
        self.progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        _stop(self.progress)
        self.line.stop()


def closing(verdict: Verdict) -> str:
    """cost 8.1 .. 27.3, limit 25, about 90 more"""
    each = zip(verdict.proved.lower, verdict.proved.upper, verdict.claims, strict=True)
    word = lambda claim: "cost" if claim.kind == "mean" else claim.kind
    show = lambda claim, x: f"{x:.1%}" if claim.kind == "chance" else f"{x:.1f}"
    shown = "; ".join(
        f"{word(b)} {show(b, low)} .. {show(b, high)}, limit {b}" for low, high, b in each
    )
    return shown + (f", about {verdict.more:,.0f} more" if math.isfinite(verdict.more) else "")
