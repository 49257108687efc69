# SPDX-License-Identifier: Apache-2.0
"""Run cells on a Ray cluster: one task for each, folders on storage that all machines share.

A task that dies, with its worker or with its whole machine, is given to another one, which takes up
the run from its last checkpoint. As with the local runner, the truth is on disk: the driver may die
and be started again at any time.
"""

import importlib
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from holdfast.bench.board import Board
from holdfast.bench.cell import train_cell
from holdfast.bench.local import WAIT
from holdfast.bench.suite import Cell
from holdfast.process import thread_limits
from holdfast.run import to_json
from holdfast.runs.checkpoint import Busy

POLL = 0.5


def run_ray(
    cells: Sequence[Cell],
    out: Path,
    board: Board,
    *,
    address: str | None = None,
    jobs: int | None = None,
    retries: int = 2,
    threads: int = 1,
) -> dict[str, str]:
    """Train all cells under `out`; returns the reason for each that failed for good."""
    ray = connect(address)
    # A worker ends with its task: the next one starts with fresh threads and memory.
    task = ray.remote(num_cpus=threads, max_retries=0, max_calls=1)(work)
    task = task.options(runtime_env={"env_vars": thread_limits(threads)})
    folder = out.resolve()
    waiting = [(cell, 1, 0.0) for cell in cells if not (out / cell.name / "done.json").exists()]
    running: dict[Any, tuple[Cell, int]] = {}
    failed: dict[str, str] = {}
    try:
        while waiting or running:
            now = time.monotonic()
            free = (jobs or slots(ray, threads)) - len(running)
            for entry in [w for w in waiting if w[2] <= now][: max(0, free)]:
                waiting.remove(entry)
                reference = task.remote(str(folder / entry[0].name), to_json(entry[0].run))
                running[reference] = entry[:2]
                board.started(entry[0].name)
            ready: list[Any] = []
            if running:
                ready, _ = ray.wait(list(running), num_returns=1, timeout=POLL)
            else:
                time.sleep(POLL)
            for reference in ready:
                cell, attempt = running.pop(reference)
                outcome = settle(ray, reference)
                if outcome == "busy":
                    waiting.append((cell, attempt, now + WAIT))
                elif outcome and attempt <= retries:
                    board.note(f"{cell}: {outcome}; trying again ({attempt}/{retries})")
                    waiting.insert(0, (cell, attempt + 1, now))
                elif outcome:
                    failed[cell.name] = outcome
                board.ended(cell.name, failed.get(cell.name, ""))
            board.show([cell.name for cell, _ in running.values()])
    finally:
        for reference in running:
            ray.cancel(reference, force=True)
    return failed


def connect(address: str | None) -> Any:
    """The cluster at `address`, or one of this machine alone."""
    try:
        ray: Any = importlib.import_module("ray")
    except ImportError:
        raise ValueError(
            "the Ray engine needs ray, which is not installed: `pip install 'holdfast[ray]'`."
        ) from None
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    if not ray.is_initialized():
        alone = {"include_dashboard": False} if address is None else {}
        ray.init(address=address, log_to_driver=False, **alone)
    return ray


def slots(ray: Any, threads: int) -> int:
    """Cells that the cluster can train at once; grows and shrinks with its machines."""
    return max(1, int(ray.cluster_resources().get("CPU", 1.0)) // threads)


def work(path: str, config: dict[str, Any]) -> str:
    """The task: "" when the cell is done, "busy", or the reason why it cannot be."""
    folder = Path(path)
    try:
        train_cell(folder, config)
    except Busy:
        return "busy"
    except (ValueError, RuntimeError, OSError) as error:
        return str(error)
    return "" if (folder / "done.json").exists() else "its folder is not visible to this machine"


def settle(ray: Any, reference: Any) -> str:
    """What became of a task; one that died says how."""
    try:
        return str(ray.get(reference))
    except ray.exceptions.RayError as error:
        return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
