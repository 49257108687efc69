# SPDX-License-Identifier: Apache-2.0
"""Training the cells of a grid: order, retries and failures.

The scheduler keeps no state of its own. Finished cells have a `done.json`, and started ones
continue from their checkpoint. So a kill at any instant loses at most an epoch of each cell, and
repeating the command continues. An engine trains the cells in processes of this machine (`Local`),
or on a cluster (`cluster.cells`).
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol, TypeVar

from holdfast.bench import train_cell
from holdfast.bench.board import Board
from holdfast.bench.suite import Cell
from holdfast.process import thread_limits
from holdfast.run import to_json

BUSY = "busy"
"""The outcome of a cell that another scheduler trains."""
WAIT = 2.0
"""Seconds before a busy cell is tried again."""
Job = TypeVar("Job")


class Engine(Protocol[Job]):
    """The interface of an engine, which trains cells; a job is one attempt at one of them."""

    def slots(self) -> int:
        """Largest number of simultaneous jobs; it may change during the run."""
        ...

    def start(self, cell: Cell) -> Job: ...

    def ended(self, jobs: Sequence[Job]) -> Sequence[Job]:
        """Jobs that have ended, after a short wait."""
        ...

    def outcome(self, job: Job) -> str:
        """The result of an ended job: "" if the cell is done, `BUSY`, or the reason of its
        failure.
        """
        ...

    def stop(self, job: Job) -> None:
        """End a job; its last checkpoint is kept."""
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


@dataclass(frozen=True, eq=False)
class CellProcess:
    """A cell in a process; its stderr goes to `log`."""

    folder: Path
    log: IO[bytes]
    process: subprocess.Popen[bytes]


@dataclass(frozen=True)
class Local:
    """A number of simultaneous processes of this machine, each on its own threads."""

    out: Path
    jobs: int
    threads: int = 1

    def slots(self) -> int:
        return self.jobs

    def start(self, cell: Cell) -> CellProcess:
        folder = self.out / cell.name
        log = open(self.out / "logs" / f"{cell.name}.log", "ab")
        process = subprocess.Popen(
            [sys.executable, "-m", train_cell.__name__, str(folder)],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=os.environ | thread_limits(self.threads),
        )
        assert process.stdin is not None
        try:
            process.stdin.write(json.dumps(to_json(cell.run)).encode() + b"\n")
            process.stdin.flush()
        except BrokenPipeError:
            pass  # it died at once; the exit code is read later
        return CellProcess(folder, log, process)

    def ended(self, jobs: Sequence[CellProcess]) -> list[CellProcess]:
        time.sleep(0.2)
        return [job for job in jobs if job.process.poll() is not None]

    def outcome(self, job: CellProcess) -> str:
        code = job.process.returncode
        _close(job)
        if (job.folder / "done.json").exists():
            return ""
        if code == train_cell.BUSY:
            return BUSY
        if code < 0:
            return f"killed by signal {-code}"
        lines = Path(job.log.name).read_text("utf-8", errors="replace").strip().splitlines()
        return lines[-1].removeprefix("holdfast: ") if lines else f"ended with code {code}"

    def stop(self, job: CellProcess) -> None:
        job.process.terminate()
        try:
            job.process.wait(5)
        except subprocess.TimeoutExpired:
            job.process.kill()
            job.process.wait()
        _close(job)


def _close(job: CellProcess) -> None:
    if job.process.stdin is not None:
        job.process.stdin.close()
    job.log.close()
