# SPDX-License-Identifier: Apache-2.0
"""Cells as tasks of a Ray cluster whose machines share no disk.

A task trains on its machine's own disk. After every checkpoint it sends the changed files of the
run folder: to the driver through Ray, or to a shared storage. A task that dies, with its worker or
its whole machine, is repeated on another one, from the last files sent. A machine with other
versions gets no second task as long as there are others.
"""

from __future__ import annotations

import importlib
import tempfile
import time
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from holdfast.bench.scheduler import BUSY
from holdfast.bench.suite import Cell
from holdfast.bench.train_cell import training
from holdfast.cluster.places import Disk, Place, StorageError, place_of
from holdfast.cluster.ray import Unequal, connect, first_line, refuse_versions
from holdfast.cluster.storage import Files, Outbox, contents, deliver
from holdfast.files import locked
from holdfast.process import thread_limits, versions
from holdfast.run import to_json
from holdfast.runs.checkpoint import saved_epochs


@dataclass(eq=False)
class Task:
    """One attempt at a cell: the stream of its files, and the lock of its folder."""

    folder: Path
    stream: Any
    claim: ExitStack = field(default_factory=ExitStack)
    node: str | None = None
    """Its machine, by Ray's name, once known."""
    error: str | None = None
    """None: it is running; empty: it is done; else the reason of its failure."""


class Ray:
    """The Ray cluster at an address (see `holdfast.cluster.ray.connect`)."""

    def __init__(
        self,
        out: Path,
        jobs: int | None = None,
        threads: int = 1,
        address: str = "local",
        storage: str | None = None,
    ) -> None:
        self.out, self.jobs, self.threads = out.resolve(), jobs, threads
        self.storage = storage
        self.moved: list[tuple[int, float]] = []
        """Bytes of each transfer, and seconds until they were on the local disk."""
        self.refused: set[str] = set()
        """Machines with other versions, by Ray's names."""
        self.ray = connect(address)
        # A worker ends with its task: the next one starts with fresh threads and memory.
        options: dict[str, Any] = {"num_cpus": threads, "max_retries": 0, "max_calls": 1}
        options |= {"runtime_env": {"env_vars": thread_limits(threads)}}
        self.task = self.ray.remote(num_returns="streaming", **options)(work_on_a_node)

    def slots(self) -> int:
        """The requested number of tasks, or that of the cluster's free cores, which may change."""
        cores = sum(int(node["Resources"]["CPU"]) for node in self._nodes())
        return self.jobs or max(1, cores // self.threads)

    def _nodes(self) -> list[dict[str, Any]]:
        """Machines for tasks, without the refused ones unless there are no others."""
        alive = [n for n in self.ray.nodes() if n["Alive"] and n["Resources"].get("CPU")]
        return [n for n in alive if n["NodeID"] not in self.refused] or alive

    def _where(self) -> Any:
        """Start a task on any allowed machine."""
        nodes = self._nodes()
        names = {node["NodeID"] for node in nodes}
        if not self.refused or not nodes or names & self.refused:
            return "DEFAULT"
        label = next(k for k, v in nodes[0]["Labels"].items() if v == nodes[0]["NodeID"])
        found: Any = importlib.import_module("ray.util.scheduling_strategies")
        return found.NodeLabelSchedulingStrategy({label: found.NotIn(*self.refused)})

    def start(self, cell: Cell) -> Task:
        folder, claim = self.out / cell.name, ExitStack()
        if not claim.enter_context(locked(self.out / ".locks" / cell.name)):
            claim.close()
            return Task(folder, None, error=BUSY)
        kept = f"{self.storage.rstrip('/')}/{cell.name}" if self.storage else None
        given = contents(Disk(folder)) if saved_epochs(folder) or not kept else {}
        task = self.task.options(scheduling_strategy=self._where())
        return Task(folder, task.remote(to_json(cell.run), given, kept, versions()), claim)

    def ended(self, jobs: Sequence[Task]) -> Sequence[Task]:
        """Ended tasks; it also writes received files."""
        streams = {id(job.stream): job for job in jobs if job.error is None}
        if streams:
            waiting = [job.stream for job in streams.values()]
            look: Any = partial(self.ray.wait, waiting, fetch_local=False)
            if look(num_returns=1, timeout=0.5)[0]:
                for stream in look(num_returns=len(waiting), timeout=0)[0]:
                    self._take(streams[id(stream)])
        elif not jobs:
            time.sleep(0.5)
        self._give_up_lost(streams.values())
        return [job for job in jobs if job.error is not None]

    def _give_up_lost(self, jobs: Iterable[Task]) -> None:
        """End tasks of machines that Ray has declared dead."""
        gone = {node["NodeID"] for node in self.ray.nodes() if not node["Alive"]}
        for job in jobs:
            if job.error is None and job.node in gone:
                job.error = "its machine does not answer any more"
                self.ray.cancel(job.stream, force=True)

    def _take(self, job: Task) -> None:
        """Read the next transfer of a task, or its end."""
        begin = time.perf_counter()
        try:
            job.node, files = self.ray.get(next(job.stream))
        except StopIteration:
            done = (job.folder / "done.json").exists()
            job.error = "" if done else "it ended without a result"
        except self.ray.exceptions.RayTaskError as error:
            job.error = str(error.cause)
            if isinstance(error.cause, Unequal):
                self.refused.add(error.cause.node)
        except self.ray.exceptions.RayError as error:
            job.error = first_line(error)
        else:
            try:
                size = deliver(Disk(job.folder), files)
                if files:  # the first message is only the machine's name
                    self.moved.append((size, time.perf_counter() - begin))
            except OSError as error:
                job.error = f"'{job.folder}' cannot be written ({error.strerror or error})"
                self.ray.cancel(job.stream, force=True)

    def outcome(self, job: Task) -> str:
        job.claim.close()
        return job.error or ""

    def stop(self, job: Task) -> None:
        job.claim.close()
        if job.error is None:
            self.ray.cancel(job.stream, force=True)


def work_on_a_node(
    config: Mapping[str, Any], files: Files, storage: str | None, wanted: Mapping[str, str]
) -> Iterator[tuple[str, Files]]:
    """The task: the files from `work` with the machine's name; the first message is only the
    name.
    """
    ray: Any = importlib.import_module("ray")
    node = str(ray.get_runtime_context().get_node_id())
    try:
        refuse_versions(wanted)
    except Unequal as error:
        error.node = node  # so the driver learns which machine it is
        raise
    yield node, {}
    for new in work(config, files, storage):
        yield node, new


def work(config: Mapping[str, Any], files: Files, storage: str | None) -> Iterator[Files]:
    """Train in a temporary folder and yield its changed files.

    With a storage it starts from the files there and stores checkpoints there; the driver gets the
    small files with the progress. If the storage fails, the driver gets all files, and the next
    attempt starts from those.
    """
    with tempfile.TemporaryDirectory(prefix="holdfast-") as home:
        folder = Path(home) / "run"
        folder.mkdir()
        place = place_of(storage) if storage else None
        stored = contents(place) if place else files
        begun = max(stored, files, key=_newest)
        deliver(Disk(folder), begun)
        box = Outbox.up_to_date(folder) if begun is stored else Outbox(folder)
        try:
            if place:
                yield contents(Disk(folder), small=True)
            saved = saved_epochs(folder)
            for _ in training(folder, config):
                if saved_epochs(folder) != saved:
                    saved = saved_epochs(folder)
                    yield driver_files(box, place, files)
            yield driver_files(box, place, files)
        except StorageError:
            kept = contents(Disk(folder))
            yield kept | _dropped(files, kept)
            raise


def driver_files(box: Outbox, place: Place | None, given: Files) -> Files:
    """The driver's files: all, or with a storage all but checkpoints, whose old copies are
    removed.
    """
    if place is None:
        return box.take()
    new = box.send(place)
    small = {name: content for name, content in new.items() if not _of_checkpoint(name)}
    return small | _dropped(given)


def _dropped(given: Files, kept: Container[str] = ()) -> Files:
    """Remove the driver's old checkpoint."""
    return {n: None for n in reversed(given) if _of_checkpoint(n) and n not in kept}


def _of_checkpoint(name: str) -> bool:
    return name.startswith("checkpoint/")


def _newest(files: Files) -> str:
    """The name of the newest complete checkpoint."""
    return max((name for name in files if name.endswith("/state.json")), default="")
