# SPDX-License-Identifier: Apache-2.0
"""The display of a running grid: an overall line and one line for each running cell.

The board reads the cells' progress files, so it is the same for cells in a local process, on
another machine with shared storage, or started by an earlier command.
"""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from holdfast.bars.training_bar import against, clock
from holdfast.bench.suite import Cell
from holdfast.console import plain_console, styled
from holdfast.files import read_json
from holdfast.records.log import read_limits
from holdfast.records.rows import costs_of, own, tail

REFRESH, LINE = 0.5, 10.0
"""Seconds between updates of a terminal, and between lines of a log."""


class Board:
    """Live progress of a grid."""

    def __init__(self, cells: Sequence[Cell], out: Path, console: Console | None = None) -> None:
        self.console = console or plain_console(stderr=True)
        self.total = {cell.name: cell.run.epochs * cell.run.epoch_steps for cell in cells}
        self.known: dict[str, Mapping[str, float]] = {}
        self.out = out
        self.rows: dict[str, dict[str, float]] = {}
        self.begun, self.shown = time.monotonic(), 0.0
        self.failed = 0
        self.first = sum(self.steps(name) for name in self.total)
        self.live: Live | None = None
        if self.console.is_terminal:
            self.live = Live(console=self.console, refresh_per_second=2, transient=True)
            self.live.start()

    def steps(self, name: str) -> float:
        """Steps of a cell so far, from its files."""
        if name not in self.rows or name in self.watched:
            self.rows[name] = tail(self.out / name / "progress.csv")
        return self.rows[name].get("env_steps", 0.0)

    watched: frozenset[str] = frozenset()

    def started(self, name: str) -> None:
        self.watched |= {name}

    def ended(self, name: str, failure: str) -> None:
        """Record the end of a cell's process, with the reason if it failed for good."""
        self.steps(name)
        self.watched -= {name}
        if failure:
            self.failed += 1
            self.note(styled(("failed", "red"), f" {name}: {failure}"))
        elif (self.out / name / "done.json").exists() and self.live is None:
            self.note(styled(f"done {name}: ", self.describe(name)))

    def note(self, text: str | Text) -> None:
        self.console.print(Text(text) if isinstance(text, str) else text, soft_wrap=True)

    def show(self, running: Sequence[str]) -> None:
        now = time.monotonic()
        if now - self.shown < (REFRESH if self.live else LINE):
            return
        self.shown = now
        made = sum(self.steps(name) for name in self.total)
        whole = sum(self.total.values())
        pace = (made - self.first) / max(now - self.begun, 1e-9)
        left = clock((whole - made) / pace if pace > 0 else None)
        done = sum((self.out / name / "done.json").exists() for name in self.total)
        failed = f", {self.failed} failed" if self.failed else ""
        head = f"{done} of {len(self.total)} runs{failed}, {made / whole:.0%}, {left} left"
        if self.live is None:
            each = "; ".join(
                f"{name} {self.steps(name) / self.total[name]:.0%}" for name in running
            )
            self.note(Text(f"{head}: {each}"))
            return
        table = Table.grid(padding=(0, 2))
        table.add_row(ProgressBar(whole, made, width=24), Text(head, "bold"), "")
        for name in running:
            bar = ProgressBar(self.total[name], self.steps(name), width=24)
            table.add_row(bar, Text(name), self.describe(name))
        self.live.update(table)

    def describe(self, name: str) -> Text:
        row = self.rows.get(name, {})
        if "ep_return" not in row:
            return Text("starting")
        line = Text(f"return {own(row, 'ep_return'):.1f}  ")
        for label, cost, limit in costs_of(row, self.limits(name)):
            colour = "green" if cost <= limit else "red"
            line.append(f"{label} ").append(f"{against(cost, limit)}/{limit:g}", colour).append(
                "  "
            )
        if "cost_regret_raw" in row:
            line.append(f"regret {row['cost_regret_raw']:.0f}  ")
        return line.append(f"{row.get('steps_per_second', 0.0):,.0f} steps/s")

    def limits(self, name: str) -> Mapping[str, float]:
        """The limits of a started cell, from its folder."""
        if name not in self.known:
            self.known[name] = read_limits(read_json(self.out / name / "run.json").get("limits"))
        return self.known[name]

    def close(self) -> None:
        if self.live is not None:
            self.live.stop()
