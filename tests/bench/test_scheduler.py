# SPDX-License-Identifier: Apache-2.0
"""The scheduler's law, on an engine whose jobs end as they are told to."""

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from rich.console import Console

from holdfast.bench import scheduler
from holdfast.bench.board import Board
from holdfast.bench.scheduler import BUSY, train_cells
from holdfast.bench.suite import Cell
from holdfast.cli.bench import command as bench
from holdfast.run import make_run


@dataclass
class Told:
    """Each cell's attempts end with the outcomes given for it, one job after the other."""

    outcomes: dict[str, Iterator[str]]
    room: int
    started: list[str] = field(default_factory=list[str])
    stopped: list[str] = field(default_factory=list[str])
    most: int = 0

    def slots(self) -> int:
        return self.room

    def start(self, cell: Cell) -> str:
        self.started.append(cell.name)
        return cell.name

    def ended(self, jobs: Sequence[str]) -> list[str]:
        self.most = max(self.most, len(jobs))
        return list(jobs[:1])

    def outcome(self, job: str) -> str:
        outcome = next(self.outcomes[job])
        if outcome == "halt":
            raise KeyboardInterrupt
        return outcome

    def stop(self, job: str) -> None:
        self.stopped.append(job)


def grid(**outcomes: list[str]) -> tuple[list[Cell], dict[str, Iterator[str]]]:
    cells = [Cell(name, make_run("trpo", env="probe/Speed-v0")) for name in outcomes]
    return cells, {name: iter(each) for name, each in outcomes.items()}


def trained(out: Path, engine: Told, cells: list[Cell], retries: int = 2) -> dict[str, str]:
    return train_cells(cells, out, engine, Board(cells, out, Console(file=io.StringIO())), retries)


def test_cells_are_tried_again_and_fail_for_good_only_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(scheduler, "WAIT", 0.0)
    # Being busy is no attempt: `b` is asked four times and has its two retries yet.
    cells, outcomes = grid(a=[""], b=[BUSY, BUSY, "x", BUSY, "y", ""], c=["x", "y", "z"])
    engine = Told(outcomes, room=1)
    assert trained(tmp_path, engine, cells) == {"c": "z"}
    assert {name: engine.started.count(name) for name in "abc"} == {"a": 1, "b": 6, "c": 3}
    assert engine.most == 1 and engine.stopped == []
    assert all(next(left, None) is None for left in outcomes.values())


def test_no_more_than_the_slots_and_nothing_that_is_done(tmp_path: Path):
    cells, outcomes = grid(a=[""], b=[""], c=[""], d=[""])
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "done.json").write_text("{}")
    engine = Told(outcomes, room=2)
    assert trained(tmp_path, engine, cells) == {}
    assert engine.started == ["a", "c", "d"] and engine.most == 2


def test_a_stop_ends_the_jobs_at_work(tmp_path: Path):
    cells, outcomes = grid(a=["halt"], b=[""], c=[""])
    engine = Told(outcomes, room=2)
    with pytest.raises(KeyboardInterrupt):
        trained(tmp_path, engine, cells)
    assert engine.started == ["a", "b"] and engine.stopped == ["b"]


@pytest.mark.parametrize("option", [{"jobs": 0}, {"threads": 0}, {"retries": -1}])
@pytest.mark.parametrize("cluster", [None, "auto"])
def test_counts_are_checked_before_anything_starts(option, cluster, tmp_path: Path):
    with pytest.raises(ValueError, match="must be at least"):
        bench("quick", out=tmp_path / "out", cluster=cluster, **option)
    assert not (tmp_path / "out").exists()
