# SPDX-License-Identifier: Apache-2.0
"""Run cells in processes of this machine: so many at a time, each on its own threads.

The runner keeps no state of its own. What is finished stands on disk (`done.json`), what was begun
continues from its checkpoint; killing the runner at any instant therefore loses at most an epoch of
each cell, and repeating the command goes on.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from holdfast.bench.board import Board
from holdfast.bench.cell import BUSY
from holdfast.bench.suite import Cell
from holdfast.process import thread_limits
from holdfast.run import to_json

POLL = 0.2
WAIT = 2.0
"""Seconds between looks at processes; before a cell that another runner trains is asked again."""


@dataclass
class Job:
    """A cell at work."""

    cell: Cell
    process: subprocess.Popen[bytes]
    log: IO[bytes]
    attempt: int


def run_local(
    cells: Sequence[Cell],
    out: Path,
    board: Board,
    *,
    jobs: int,
    retries: int = 2,
    threads: int = 1,
) -> dict[str, str]:
    """Train all cells under `out`; returns the reason for each that failed for good."""
    if jobs < 1 or retries < 0 or threads < 1:
        raise ValueError(f"jobs={jobs}, threads={threads} must be at least 1, retries={retries} 0.")
    (out / "logs").mkdir(parents=True, exist_ok=True)
    waiting = [(cell, 1, 0.0) for cell in cells if not (out / cell.name / "done.json").exists()]
    running: list[Job] = []
    failed: dict[str, str] = {}
    try:
        while waiting or running:
            now = time.monotonic()
            for entry in [w for w in waiting if w[2] <= now][: jobs - len(running)]:
                waiting.remove(entry)
                running.append(start(entry[0], out, threads, entry[1]))
                board.started(entry[0].name)
            for job in [job for job in running if job.process.poll() is not None]:
                running.remove(job)
                outcome = settle(job, out)
                if outcome == "busy":
                    waiting.append((job.cell, job.attempt, now + WAIT))
                elif outcome and job.attempt <= retries:
                    board.note(f"{job.cell}: {outcome}; trying again ({job.attempt}/{retries})")
                    waiting.insert(0, (job.cell, job.attempt + 1, now))
                elif outcome:
                    failed[job.cell.name] = outcome
                board.ended(job.cell.name, outcome if job.cell.name in failed else "")
            board.show([job.cell.name for job in running])
            time.sleep(POLL)
    finally:
        for job in running:
            stop(job)
    return failed


def start(cell: Cell, out: Path, threads: int, attempt: int) -> Job:
    """The process of a cell; its complaints go to logs/."""
    log = open(out / "logs" / f"{cell.name}.log", "ab")
    process = subprocess.Popen(
        [sys.executable, "-m", "holdfast.bench.cell", str(out / cell.name)],
        stdin=subprocess.PIPE,
        stdout=log,
        stderr=subprocess.STDOUT,
        env=os.environ | thread_limits(threads),
    )
    assert process.stdin is not None
    try:
        process.stdin.write(json.dumps(to_json(cell.run)).encode() + b"\n")
        process.stdin.flush()
    except BrokenPipeError:
        pass  # it died at once; its exit code tells
    return Job(cell, process, log, attempt)


def settle(job: Job, out: Path) -> str:
    """What became of an ended process: "" done, "busy", or why it failed."""
    code = job.process.returncode
    if job.process.stdin is not None:
        job.process.stdin.close()
    job.log.close()
    if (out / job.cell.name / "done.json").exists():
        return ""
    if code == BUSY:
        return "busy"
    if code < 0:
        return f"killed by signal {-code}"
    return last_line(out / "logs" / f"{job.cell.name}.log") or f"ended with code {code}"


def stop(job: Job) -> None:
    """End a process; nothing that its last checkpoint holds is lost."""
    job.process.terminate()
    try:
        job.process.wait(5)
    except subprocess.TimeoutExpired:
        job.process.kill()
        job.process.wait()
    job.log.close()


def last_line(path: Path) -> str:
    lines = path.read_text("utf-8", errors="replace").strip().splitlines()
    return lines[-1].removeprefix("holdfast: ") if lines else ""
