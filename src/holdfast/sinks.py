# SPDX-License-Identifier: Apache-2.0
"""Sinks: where an epoch's metrics go. Metrics flow out, never in.

CSV          the record: progress.csv, a row for each epoch, floats to the last bit
TensorBoard  events with environment steps on the x-axis
WandB        Weights & Biases (extra `wandb`)
Progress     a live line on a terminal; plain lines, few of them, elsewhere
"""

from __future__ import annotations

import csv
import io
import os
import secrets
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from rich.console import Console
from rich.live import Live
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn
from rich.table import Table
from rich.text import Text

from holdfast.checkpoint import read_json, write_atomic, write_json

Row = Mapping[str, float | int]


class Sink(Protocol):
    """Takes the metrics of one epoch after the other."""

    def write(self, env_steps: int, metrics: Row) -> None: ...

    def close(self) -> None: ...


def render(value: float | int) -> str:
    """Shortest text that reads back to the same number."""
    return str(value) if isinstance(value, int) else repr(float(value))


class CSV:
    """progress.csv. When resumed, rows after `epoch` and a half-written last line are dropped."""

    def __init__(self, path: Path, epoch: int = 0) -> None:
        self.path = path
        self.columns: list[str] | None = None
        if path.exists():
            rows = read_rows(path)
            self.columns = list(rows[0]) if rows else None
            kept = [row for row in rows if int(float(row["epoch"])) <= epoch]
            write_rows(path, self.columns or (), kept)

    def write(self, env_steps: int, metrics: Row) -> None:
        lines = io.StringIO()
        writer = csv.writer(lines, lineterminator="\n")
        if self.columns is None:
            self.columns = list(metrics)
            writer.writerow(self.columns)
        writer.writerow([render(metrics[name]) for name in self.columns])
        with self.path.open("ab") as file:
            file.write(lines.getvalue().encode())
            file.flush()
            os.fsync(file.fileno())

    def close(self) -> None:
        """Nothing is kept open."""


def write_rows(path: Path, columns: Sequence[str], rows: Iterable[Mapping[str, object]]) -> None:
    """A whole progress.csv at once."""
    text = io.StringIO()
    if columns:
        writer = csv.DictWriter(text, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    write_atomic(path, text.getvalue().encode())


def read_rows(path: Path) -> list[dict[str, str]]:
    """Complete rows of a progress.csv; a line that was cut short by a kill is left out."""
    text = path.read_text() if path.exists() else ""
    whole = text[: text.rfind("\n") + 1]
    return [row for row in csv.DictReader(io.StringIO(whole)) if None not in row.values()]


def numbers(row: Mapping[str, str]) -> dict[str, float | int]:
    """The inverse of `render` on a row."""
    return {k: int(v) if v.lstrip("-").isdigit() else float(v) for k, v in row.items()}


class TensorBoard:
    """Event files under RUN/tensorboard."""

    def __init__(self, folder: Path, env_steps: int = 0) -> None:
        from tensorboardX import SummaryWriter

        # Steps after the resume point are void: they will be written again.
        self.writer = SummaryWriter(str(folder), purge_step=env_steps + 1 if env_steps else None)

    def write(self, env_steps: int, metrics: Row) -> None:
        for name, value in metrics.items():
            self.writer.add_scalar(name, value, env_steps)
        self.writer.flush()

    def close(self) -> None:
        self.writer.close()


class WandB:
    """A Weights & Biases run; resuming continues it under the same id."""

    def __init__(self, project: str, folder: Path, config: Mapping[str, Any]) -> None:
        try:
            import wandb
        except ImportError:
            raise ValueError(
                "W&B is not installed: `pip install 'holdfast[wandb]'`, or leave --wandb out."
            ) from None
        self.run = wandb.init(
            project=project,
            dir=str(folder),
            config=dict(config),
            id=wandb_id(folder),
            name=folder.resolve().name,
            resume="allow",
        )

    def write(self, env_steps: int, metrics: Row) -> None:
        self.run.log(dict(metrics), step=env_steps)

    def close(self) -> None:
        self.run.finish()


def wandb_id(folder: Path) -> str:
    """An id of the folder's own, made once: names of folders repeat, on this machine or another."""
    file = folder / "wandb.json"
    if not file.exists():
        write_json(file, {"id": secrets.token_hex(8)})
    return str(read_json(file)["id"])


class Bar:
    """Return, cost against limit, regret, mode, speed and time left.

    A live display on a terminal; elsewhere one plain line every `every` seconds.
    """

    def __init__(
        self,
        total: int,
        limits: Mapping[str, float],
        title: str,
        done: int = 0,
        every: float = 10.0,
        console: Console | None = None,
    ) -> None:
        self.console = console or Console(file=sys.stderr)
        self.limits = dict(limits)
        self.total, self.title, self.every = total, title, every
        self.started, self.first = time.monotonic(), done
        self.spoke = 0.0
        self.row: Row | None = None
        self.live = self.console.is_terminal
        if self.live:
            self.progress = Progress(
                TextColumn("[bold]{task.description}"),
                BarColumn(bar_width=None),
                TextColumn("{task.percentage:>3.0f}%"),
                Remaining(self),
                console=self.console,
                expand=True,
            )
            self.task = self.progress.add_task(title, total=total, completed=done)
            self.display = Live(
                self.table(), console=self.console, refresh_per_second=4, transient=False
            )
            self.display.start()
        else:
            self.console.print(f"{title}: {total:,} steps", highlight=False)

    def advance(self, env_steps: int) -> None:
        """Inside an epoch: move the bar only."""
        if self.live:
            self.progress.update(self.task, completed=min(env_steps, self.total))

    def write(self, env_steps: int, metrics: Row) -> None:
        self.row = metrics
        if self.live:
            self.progress.update(self.task, completed=min(env_steps, self.total))
            self.display.update(self.table())
        elif time.monotonic() - self.spoke >= self.every or env_steps >= self.total:
            self.spoke = time.monotonic()
            self.console.print(self.line(env_steps), highlight=False, markup=False, soft_wrap=True)

    def line(self, env_steps: int) -> str:
        assert self.row is not None
        costs = " ".join(f"{n} {v:.1f}/{b:g}" for n, v, b in self.costs())
        return (
            f"{env_steps:>11,} steps  return {self.row['ep_return']:.1f}  {costs}  "
            f"regret {self.row['cost_regret_raw']:.0f}  {self.mode()}  "
            f"{self.row['steps_per_second']:,.0f} steps/s  {clock(self.left(env_steps))} left"
        )

    def costs(self) -> list[tuple[str, float, float]]:
        """(name, cost, limit) of each constraint."""
        row = self.row or {}
        single = len(self.limits) == 1
        return [
            (name, float(row["ep_cost" if single else f"ep_cost/{name}"]), limit)
            for name, limit in self.limits.items()
        ]

    def mode(self) -> str:
        return "recovering" if (self.row or {}).get("recovering", 0) else "improving"

    def left(self, env_steps: int) -> float | None:
        """Seconds, from the pace since the start of this process."""
        made = env_steps - self.first
        if made <= 0:
            return None
        return (time.monotonic() - self.started) * (self.total - env_steps) / made

    def table(self) -> Table:
        table = Table.grid(expand=True)
        table.add_row(self.progress)
        if self.row is not None:
            text = Text.assemble("return ", (f"{self.row['ep_return']:.1f}", "bold cyan"))
            for name, cost, limit in self.costs():
                style = "bold red" if cost > limit else "bold green"
                text.append(f"   {name} ").append(f"{cost:.1f}", style).append(f" / {limit:g}")
            text.append(f"   regret {self.row['cost_regret_raw']:.0f}   ")
            mode = self.mode()
            text.append(mode, "yellow" if mode == "recovering" else "green")
            text.append(f"   {self.row['steps_per_second']:,.0f} steps/s", "dim")
            table.add_row(text)
        return table

    def close(self) -> None:
        if self.live:
            self.display.stop()


class Remaining(ProgressColumn):
    """Time left at the pace of this process."""

    def __init__(self, bar: Bar) -> None:
        super().__init__()
        self.bar = bar

    def render(self, task: Task) -> Text:
        return Text(f"{clock(self.bar.left(int(task.completed)))} left", "dim")


def clock(seconds: float | None) -> str:
    if seconds is None:
        return "--:--"
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
