# SPDX-License-Identifier: Apache-2.0
"""Grids that are killed, in part or whole, end with the results of undisturbed ones, bit by bit."""

import random
import sys
import time
from pathlib import Path

import pytest

from grid import EPOCHS, cell_processes, finish, kill, launch, results, rows, wait_for, write_suite
from holdfast.bench.suite import cells, load_suite
from holdfast.bench.train_cell import train_cell
from holdfast.cli.bench import command as bench
from holdfast.files import Busy, locked
from holdfast.records.find import load
from holdfast.run import make_run, to_json

pytestmark = [
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc"),
    pytest.mark.xdist_group("runner"),
]
CELLS = ("trpo_probe-Speed-v0_seed0", "trpo_probe-Speed-v0_seed1")


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_suite(tmp_path_factory.mktemp("grid"))


@pytest.fixture(scope="module")
def undisturbed(suite: Path) -> dict[str, object]:
    """The cells one after another in this process."""
    for cell in cells(load_suite(str(suite))):
        train_cell(suite.parent / "calm" / cell.name, to_json(cell.run))
    found = results(suite.parent / "calm")
    assert tuple(found) == CELLS
    return found


def test_kills_of_cells_and_of_the_runner_change_nothing(
    suite: Path, undisturbed: dict[str, object]
):
    out = suite.parent / "wild"
    runner = launch(suite, out)
    wait_for(lambda: runner.poll() is not None or rows(out, CELLS[0]) >= 5)
    kill(cell_processes(out)[0])  # a cell dies: it is taken up again
    wait_for(lambda: runner.poll() is not None or rows(out, CELLS[0]) >= 20)
    assert runner.poll() is None, "the kills come while it is at work"
    runner.kill()  # the runner dies: its cells must die with it
    runner.communicate()
    wait_for(lambda: not cell_processes(out), 20)
    bench(str(suite), out=out, jobs=2)
    assert results(out) == undisturbed
    runs, skipped = load([out])
    assert len(runs) == 2 and skipped == () and all(run.done for run in runs)


def test_a_finished_cell_is_never_run_again(
    suite: Path, undisturbed: dict[str, object], capsys: pytest.CaptureFixture[str]
):
    out = suite.parent / "calm"
    stamps = {path: path.stat().st_mtime_ns for path in out.glob("trpo*/**/*") if path.is_file()}
    bench(str(suite), out=out, jobs=2)
    said = capsys.readouterr().err
    assert "2 done" in said and "2 of 2 runs are done" in said
    assert stamps == {path: path.stat().st_mtime_ns for path in stamps}


def test_a_cell_that_cannot_run_is_reported_with_its_reason(suite: Path, tmp_path: Path):
    file = tmp_path / "broken.toml"
    file.write_text(suite.read_text().replace("probe/Speed-v0", "probe/Spede-v0"))
    with pytest.raises(ValueError, match="probe/Spede-v0"):
        bench(str(file), out=tmp_path / "out", jobs=2, retries=0)


def test_a_cell_is_trained_by_one_process_at_a_time(tmp_path: Path):
    run = to_json(make_run("trpo", env="probe/Speed-v0", steps=200, epoch_steps=200, hidden=(4,)))
    with locked(tmp_path / ".locks" / "cell"), pytest.raises(Busy, match="another process"):
        train_cell(tmp_path / "cell", run)
    assert not (tmp_path / "cell").exists()
    train_cell(tmp_path / "cell", run)
    assert (tmp_path / "cell" / "done.json").exists()


@pytest.mark.learning
@pytest.mark.parametrize("seed", range(3))
def test_random_kills(suite: Path, undisturbed: dict[str, object], seed: int):
    rng = random.Random(seed)
    out = suite.parent / f"random{seed}"
    for _ in range(6):
        runner = launch(suite, out, retries=20)
        goal = rng.randrange(EPOCHS)
        wait_for(lambda r=runner, n=goal: r.poll() is not None or rows(out, CELLS[0]) >= n)
        time.sleep(rng.random())
        for pid in cell_processes(out):
            if rng.random() < 0.5:
                kill(pid)
        if rng.random() < 0.7:
            runner.kill()
        runner.communicate()
        wait_for(lambda: not cell_processes(out), 20)
    finish(launch(suite, out))
    assert results(out) == undisturbed
