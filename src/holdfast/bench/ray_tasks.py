# SPDX-License-Identifier: Apache-2.0
"""Cells as tasks of a Ray cluster whose machines share no disk.

A task trains on its machine's own disk. After every checkpoint it hands over what is new in the run
folder: to the driver through Ray, or to a storage that all can reach. A task that dies, with its
worker or its whole machine, is given to another one, which goes on from what was handed over.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from holdfast.bench.scheduler import BUSY
from holdfast.bench.suite import Cell
from holdfast.bench.train_cell import training
from holdfast.cluster import connect, first_line, refuse_versions
from holdfast.process import thread_limits, versions
from holdfast.run import to_json
from holdfast.runs.checkpoint import epochs, locked
from holdfast.runs.storage import (
    Disk,
    Files,
    Outbox,
    Remote,
    contents,
    deliver,
    place_of,
)


@dataclass(eq=False)
class Task:
    """One attempt at a cell: the stream of what it hands over, and our claim on its folder."""

    folder: Path
    stream: Any
    claim: ExitStack = field(default_factory=ExitStack)
    said: str | None = None
    """What became of it, once it has ended."""


class Ray:
    """The Ray cluster at an address (see `holdfast.cluster.connect`)."""

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
        self.moved: list[int] = []
        """Bytes of each hand-over."""
        self.ray = connect(address)
        # A worker ends with its task: the next one starts with fresh threads and memory.
        options = {"num_cpus": threads, "max_retries": 0, "max_calls": 1}
        task = self.ray.remote(num_returns="streaming", **options)(work)
        self.task = task.options(runtime_env={"env_vars": thread_limits(threads)})

    def slots(self) -> int:
        """As asked for, or as many as the cluster has room for; it may grow and shrink."""
        cores = int(self.ray.cluster_resources().get("CPU", 1.0))
        return self.jobs or max(1, cores // self.threads)

    def start(self, cell: Cell) -> Task:
        folder, claim = self.out / cell.name, ExitStack()
        if not claim.enter_context(locked(self.out / ".locks" / cell.name)):
            claim.close()
            return Task(folder, None, said=BUSY)
        kept = f"{self.storage.rstrip('/')}/{cell.name}" if self.storage else None
        given = {} if kept else contents(Disk(folder))
        stream = self.task.remote(to_json(cell.run), given, kept, versions())
        return Task(folder, stream, claim)

    def ended(self, jobs: Sequence[Task]) -> Sequence[Task]:
        """Takes in what the tasks have handed over, too."""
        streams = {id(job.stream): job for job in jobs if job.said is None}
        if streams:
            waiting = [job.stream for job in streams.values()]
            ready, _ = self.ray.wait(waiting, num_returns=1, timeout=0.5, fetch_local=False)
            for stream in ready:
                self._take(streams[id(stream)])
        elif not jobs:
            time.sleep(0.5)
        return [job for job in jobs if job.said is not None]

    def _take(self, job: Task) -> None:
        """The next hand-over, or the end."""
        try:
            files: Files = self.ray.get(next(job.stream))
        except StopIteration:
            done = (job.folder / "done.json").exists()
            job.said = "" if done else "it ended without a result"
        except self.ray.exceptions.RayTaskError as error:
            job.said = str(error.cause)
        except self.ray.exceptions.RayError as error:
            job.said = first_line(error)
        else:
            try:
                self.moved.append(deliver(Disk(job.folder), files))
            except OSError as error:
                job.said = f"'{job.folder}' cannot be written ({error.strerror or error})"
                self.ray.cancel(job.stream, force=True)

    def outcome(self, job: Task) -> str:
        job.claim.close()
        return job.said or ""

    def stop(self, job: Task) -> None:
        job.claim.close()
        if job.said is None:
            self.ray.cancel(job.stream, force=True)


def work(
    config: Mapping[str, Any], files: Files, storage: str | None, wanted: Mapping[str, str]
) -> Iterator[Files]:
    """The task: trains in a folder of its own and yields what is new in it.

    With a storage it begins from what lies there and keeps checkpoints there; the driver gets the
    small files, which show how far it is.
    """
    refuse_versions(wanted)
    with tempfile.TemporaryDirectory(prefix="holdfast-") as home:
        folder = Path(home) / "run"
        folder.mkdir()
        place = place_of(storage) if storage else None
        deliver(Disk(folder), contents(place) if place else files)
        box = Outbox.up_to_date(folder)
        if place:
            yield contents(Disk(folder), small=True)
        saved = epochs(folder)
        for _ in training(folder, config):
            if epochs(folder) != saved:
                saved = epochs(folder)
                yield handed(box.new(), place)
        yield handed(box.new(), place)


def handed(new: Files, place: Disk | Remote | None) -> Files:
    """What the driver gets: all, or with a storage what is not a checkpoint."""
    if place is None:
        return new
    deliver(place, new)
    return {name: content for name, content in new.items() if not name.startswith("checkpoint/")}
