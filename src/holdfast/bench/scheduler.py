# SPDX-License-Identifier: Apache-2.0
"""Training the cells of a grid: which starts when, what is tried again, what has failed.

The scheduler keeps no state of its own. What is finished stands on disk (`done.json`), what was
begun continues from its checkpoint; killing it at any instant therefore loses at most an epoch of
each cell, and repeating the command goes on. An engine says where cells are trained.
"""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, TypeVar

from holdfast.bench.board import Board
from holdfast.bench.suite import Cell

BUSY = "busy"
"""The outcome of a cell that another scheduler trains."""
WAIT = 2.0
"""Seconds before a busy cell is asked again."""
Job = TypeVar("Job")


class Engine(Protocol[Job]):
    """Where cells are trained; a job is one attempt at one of them."""

    def slots(self) -> int:
        """Jobs that may be at work at once; may change meanwhile."""
        ...

    def start(self, cell: Cell) -> Job: ...

    def ended(self, jobs: Sequence[Job]) -> Sequence[Job]:
        """Those that have ended, after a moment of waiting."""
        ...

    def outcome(self, job: Job) -> str:
        """What became of an ended job: "" if the cell is done, `BUSY`, or why it failed."""
        ...

    def stop(self, job: Job) -> None:
        """End a job; nothing that its last checkpoint holds is lost."""
        ...


def train_cells(
    cells: Sequence[Cell], out: Path, engine: Engine[Job], board: Board, retries: int = 2
) -> dict[str, str]:
    """Train all cells under `out`; returns the reason for each that failed for good."""
    (out / "logs").mkdir(parents=True, exist_ok=True)
    waiting = [(cell, 1, 0.0) for cell in cells if not (out / cell.name / "done.json").exists()]
    running: dict[Job, tuple[Cell, int]] = {}
    failed: dict[str, str] = {}
    try:
        while waiting or running:
            now = time.monotonic()
            free = max(0, engine.slots() - len(running))
            for entry in [w for w in waiting if w[2] <= now][:free]:
                waiting.remove(entry)
                running[engine.start(entry[0])] = entry[:2]
                board.started(entry[0].name)
            for job in engine.ended(list(running)):
                cell, attempt = running.pop(job)
                outcome = engine.outcome(job)
                if outcome == BUSY:
                    waiting.append((cell, attempt, now + WAIT))
                elif outcome and attempt <= retries:
                    board.note(f"{cell}: {outcome}; trying again ({attempt}/{retries})")
                    waiting.insert(0, (cell, attempt + 1, now))
                elif outcome:
                    failed[cell.name] = outcome
                board.ended(cell.name, failed.get(cell.name, ""))
            board.show([cell.name for cell, _ in running.values()])
    finally:
        for job in running:
            engine.stop(job)
    return failed
