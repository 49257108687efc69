# SPDX-License-Identifier: Apache-2.0
"""Where cells are trained: in processes of this machine (`bench.ray_tasks`: on a cluster)."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from holdfast.bench import train_cell
from holdfast.bench.scheduler import BUSY
from holdfast.bench.suite import Cell
from holdfast.process import thread_limits
from holdfast.run import to_json


@dataclass(frozen=True, eq=False)
class Process:
    """A cell at work in a process; its complaints go to `log`."""

    folder: Path
    log: IO[bytes]
    process: subprocess.Popen[bytes]


@dataclass(frozen=True)
class Local:
    """So many processes of this machine at a time, each on its own threads."""

    out: Path
    jobs: int
    threads: int = 1

    def slots(self) -> int:
        return self.jobs

    def start(self, cell: Cell) -> Process:
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
            pass  # it died at once; its exit code tells
        return Process(folder, log, process)

    def ended(self, jobs: Sequence[Process]) -> list[Process]:
        time.sleep(0.2)
        return [job for job in jobs if job.process.poll() is not None]

    def outcome(self, job: Process) -> str:
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

    def stop(self, job: Process) -> None:
        job.process.terminate()
        try:
            job.process.wait(5)
        except subprocess.TimeoutExpired:
            job.process.kill()
            job.process.wait()
        _close(job)


def _close(job: Process) -> None:
    if job.process.stdin is not None:
        job.process.stdin.close()
    job.log.close()
