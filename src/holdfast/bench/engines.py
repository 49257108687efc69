# SPDX-License-Identifier: Apache-2.0
"""Where cells are trained: in processes of this machine, or as tasks of a Ray cluster.

A Ray task that dies, with its worker or with its whole machine, is given to another one, which
takes up the run from its last checkpoint: folders lie on storage that all machines share.
"""

import importlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from holdfast.bench import train_cell
from holdfast.bench.scheduler import BUSY
from holdfast.bench.suite import Cell
from holdfast.process import thread_limits
from holdfast.run import to_json
from holdfast.runs.checkpoint import Busy


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


class Ray:
    """A Ray cluster: the one at `address`, or one of this machine alone."""

    def __init__(
        self, out: Path, jobs: int | None = None, threads: int = 1, address: str | None = None
    ) -> None:
        self.out, self.jobs, self.threads = out.resolve(), jobs, threads
        self.ray = connect(address)
        # A worker ends with its task: the next one starts with fresh threads and memory.
        task = self.ray.remote(num_cpus=threads, max_retries=0, max_calls=1)(work)
        self.task = task.options(runtime_env={"env_vars": thread_limits(threads)})

    def slots(self) -> int:
        """As asked for, or as many as the cluster has room for; it may grow and shrink."""
        cores = int(self.ray.cluster_resources().get("CPU", 1.0))
        return self.jobs or max(1, cores // self.threads)

    def start(self, cell: Cell) -> Any:
        return self.task.remote(str(self.out / cell.name), to_json(cell.run))

    def ended(self, jobs: Sequence[Any]) -> Sequence[Any]:
        if not jobs:
            time.sleep(0.5)
            return []
        return self.ray.wait(jobs, num_returns=1, timeout=0.5)[0]

    def outcome(self, job: Any) -> str:
        """A task that died says how."""
        try:
            return str(self.ray.get(job))
        except self.ray.exceptions.RayError as error:
            said = str(error).strip().splitlines()
            return said[0] if said else type(error).__name__

    def stop(self, job: Any) -> None:
        self.ray.cancel(job, force=True)


def connect(address: str | None) -> Any:
    try:
        ray: Any = importlib.import_module("ray")
    except ImportError:
        raise ValueError(
            "the Ray engine needs ray, which is not installed: `pip install 'holdfast[ray]'`."
        ) from None
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    if not ray.is_initialized():
        alone = {"include_dashboard": False} if address is None else {}
        ray.init(address=address or "local", log_to_driver=False, **alone)
    return ray


def work(path: str, config: dict[str, Any]) -> str:
    """The task: what `outcome` tells."""
    folder = Path(path)
    try:
        train_cell.train_cell(folder, config)
    except Busy:
        return BUSY
    except (ValueError, RuntimeError, OSError) as error:
        return str(error)
    return "" if (folder / "done.json").exists() else "its folder is not visible to this machine"
