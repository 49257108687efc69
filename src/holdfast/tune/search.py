# SPDX-License-Identifier: Apache-2.0
"""Training the trials of a study in waves, by the scheduler of `bench`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeVar

from holdfast.bench.board import Board
from holdfast.bench.scheduler import Engine, train_cells
from holdfast.bench.suite import Cell
from holdfast.records.rows import read_progress
from holdfast.tune.study import Study, Trial, cell_of, propose, read_trials, stopped_at, write

Job = TypeVar("Job")


@dataclass
class Stopping(Generic[Job]):
    """An engine that ends a job once the curve of its trial has fallen below the median."""

    engine: Engine[Job]
    behind: Callable[[str], bool]
    """Whether the trial of that name must be stopped."""
    names: dict[Job, str] = field(default_factory=dict[Job, str])
    stopped: set[Job] = field(default_factory=set[Job])

    def slots(self) -> int:
        return self.engine.slots()

    def start(self, cell: Cell) -> Job:
        job = self.engine.start(cell)
        self.names[job] = cell.name
        return job

    def ended(self, jobs: Sequence[Job]) -> Sequence[Job]:
        found = list(self.engine.ended(jobs))
        for job in jobs:
            if job not in found and self.behind(self.names[job]):
                self.engine.stop(job)
                self.stopped.add(job)
                found.append(job)
        return found

    def outcome(self, job: Job) -> str:
        return "" if job in self.stopped else self.engine.outcome(job)

    def stop(self, job: Job) -> None:
        self.engine.stop(job)


def search(
    study: Study,
    asked: list[dict[str, float | int | str | bool]],
    out: Path,
    count: int,
    board: Callable[[Sequence[Cell]], Board],
    on_trial: Callable[[Trial], None],
    retries: int,
    engine: Engine[Job],
) -> tuple[list[Trial], dict[str, str]]:
    """Train until `count` trials have ended; returns all trials, and the reasons of failures.

    `asked` are the parameters of trials that were started before. `on_trial` is called with each at
    its end.
    """
    failed: dict[str, str] = {}
    while True:
        trials = read_trials(out, study, asked)
        waiting = [t for t in trials if t.state == "waiting" and t.name not in failed]
        if not waiting and len(asked) >= count:
            return trials, failed
        if not waiting:
            known = [trial for trial in trials if trial.state != "waiting"]
            missing = min(study.wave - len(asked) % study.wave, count - len(asked))
            asked += propose(study, known, missing)
            write(out, study, asked)
            continue
        first = waiting[0].number // study.wave * study.wave
        wave = [t for t in waiting if t.number < first + study.wave]
        before, cells = trials[:first], [cell_of(study, trial) for trial in wave]

        def behind(name: str, before: Sequence[Trial] = before) -> bool:
            columns = read_progress(out / name / "progress.csv")
            curve = columns.get("ep_return_raw", columns["ep_return"])
            return stopped_at(study, curve, before) is not None

        shown = board(cells)
        try:
            failed |= train_cells(cells, out, Stopping(engine, behind), shown, retries)
        finally:
            shown.close()
        after = read_trials(out, study, asked)
        for trial in wave:
            on_trial(after[trial.number])
