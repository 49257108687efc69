# SPDX-License-Identifier: Apache-2.0
"""The page of the paper's studies with no, some and all cells, and numbers by hand."""

import json
import re
import shutil
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "evidence"))

import kept  # noqa: E402
import studies  # noqa: E402
from holdfast.bench import suite  # noqa: E402
from holdfast.run import from_json  # noqa: E402
from holdfast.settings import leaves  # noqa: E402


def write_run(folder: Path, cell, value: float) -> None:
    place = folder / cell.name
    place.mkdir(parents=True)
    run = {"env": cell.run.env, "seed": cell.run.seed}
    (place / "run.json").write_text(json.dumps({"run": run}))
    head = "epoch,env_steps,ep_return,ep_cost,cost_regret,cost_regret_raw,ep_cost_raw"
    last = cell.run.steps
    rows = [f"1,{last // 2},1,2,3,4,5", f"2,{last},{value},{value / 10},{value / 5},7,8"]
    (place / "progress.csv").write_text("\n".join([head, *rows]) + "\n")
    (place / "done.json").write_text("{}")


@pytest.fixture
def page(tmp_path: Path) -> Path:
    (tmp_path / "images").mkdir()
    return Path(shutil.copy(ROOT / "docs" / "studies.md", tmp_path / "studies.md"))


def test_without_runs_everything_is_named(tmp_path: Path, page: Path) -> None:
    studies.write(tmp_path / "results", page)
    text = page.read_text()
    assert text.count("No run of it is kept yet") == 6 and "](images/" not in text
    ant = "`holdfast bench evidence/studies.toml --only /SafetyAntVelocity-v1`"
    assert "c-trpo_beta=0.05, c-trpo_beta=0.2, c-trpo_beta=2, c-trpo_beta=5" in text
    assert text.count(ant) == 1  # all of its cells have one seed
    assert "evidence/headline.toml" in text and not list((tmp_path / "images").iterdir())


def test_some_and_all_runs(tmp_path: Path, page: Path) -> None:
    grid = kept.all_cells("studies")
    results = tmp_path / "results"
    some = [c for c in grid if c.label == "c-trpo_beta=0.2" and "HalfCheetah" in c.run.env]
    for k, cell in enumerate(some):
        write_run(results / "studies", cell, 100.0 * (k + 1))
    studies.write(results, page)
    text = page.read_text()
    assert "| HalfCheetahVelocity | 0.2 | 3 | 200 (100 .. 300) | – | 20 (10 .. 30) |" in text
    assert (tmp_path / "images" / "study-beta.png").stat().st_size > 1000
    assert text.count("No run of it is kept yet") == 5
    left = [line for line in text.splitlines() if "--only" in line and "c-trpo_beta=0.2," in line]
    assert len(left) == 1 and "AntVelocity" in left[0]  # on HalfCheetah it has run
    for cell in grid:
        if cell not in some:
            write_run(results / "studies", cell, 50.0)
    for cell in kept.all_cells("headline"):
        write_run(results / "headline", cell, 2800.0)
    studies.write(results, page)
    text = page.read_text()
    assert "No run" not in text and "Nothing of `results/studies` is missing." in text
    assert "| PointGoal1 | 1 | 2800 | – |" in text
    for image in re.findall(r"\]\((images/[^)]+)\)", text):
        assert (tmp_path / image).exists()
    once = page.read_text()
    studies.write(results, page)
    assert page.read_text() == once


def test_published_runs_stand_beside_ours(tmp_path: Path, page: Path, published: Path) -> None:
    for folder in ("studies", "reproduction"):
        for cell in kept.all_cells(folder):
            if cell.run.env == "SafetyAntVelocity-v1":
                write_run(tmp_path / "results" / folder, cell, 50.0)
    studies.write(tmp_path / "results", page, published / "paper_runs.parquet")
    text = page.read_text()
    row = next(line for line in text.splitlines() if line.startswith("| AntVelocity | C-TRPO |"))
    assert "1747 (1562 .. 1875)" in row  # the five seeds at a million steps
    assert re.search(r"\| AntVelocity \| 0.5 \| 1 \| 50 \| \d+ \(", text)  # noise
    assert re.search(r"\| AntVelocity \| 0.1 \| 0 \| – \| \d+ \(", text)  # the withdrawn β
    assert "| AntVelocity | C-TRPO, h = 1 | 3101 (3045 .. 3163) |" in text  # at 10M


def shared_cells() -> list[suite.Cell]:
    """Cells of the reproduction that are points of a study."""
    labels = {label for study in studies.STUDIES for _, label, _ in study.points}
    tasks = {cell.run.env for cell in kept.all_cells("studies")}
    grid = kept.all_cells("reproduction")
    return [cell for cell in grid if cell.label in labels and cell.run.env in tasks]


def test_agreement_by_hand() -> None:
    """Return 5 lies in 4 .. 6; cost 9 and regret 1 do not lie in 2 .. 3; CPO has none beside it."""
    run = lambda name, *numbers: kept.Outcome("Task-v0", name, 0, *numbers, 0.0, 0.0)
    ours = [run("c-trpo", 3.0, 8.0, 1.0), run("c-trpo", 7.0, 10.0, 1.0), run("cpo", 5.0, 2.0, 2.0)]
    theirs = [run("c-trpo", 4.0, 2.0, 2.0), run("c-trpo", 6.0, 3.0, 3.0)]
    told = studies.agreement(studies.STUDIES[0], ours, theirs)
    assert told.startswith("1 of our 3 means")
    assert studies.agreement(studies.STUDIES[0], ours, []) == ""


def test_every_point_of_a_study_is_in_one_suite() -> None:
    points = {label for study in studies.STUDIES for _, label, _ in study.points} - {""}
    grid = kept.all_cells("studies")
    assert points == {cell.label for cell in [*grid, *shared_cells()]}
    assert not {cell.name for cell in grid} & {cell.name for cell in shared_cells()}


def test_runs_of_both_folders_stand_in_one_table(tmp_path: Path, page: Path) -> None:
    """One seed of CPO on HalfCheetah is the reproduction's, two are the studies'."""
    for folder in ("studies", "reproduction"):
        for cell in kept.all_cells(folder):
            if cell.label in ("cpo", "p3o"):
                write_run(tmp_path / "results" / folder, cell, 1.0 + cell.run.seed)
    studies.write(tmp_path / "results", page)
    text = page.read_text()
    assert "| HalfCheetahVelocity | CPO | 3 | 1001 (1 .. 2001) |" in text
    assert "| PointGoal1 | CPO | 1 | 1 |" in text
    assert "| Hopper" not in text  # no task of the studies


def differing(recorded: object, cell: suite.Cell) -> set[str]:
    """Settings in which a kept run differs from what its cell would run today."""
    pairs = zip(leaves(from_json(recorded)), leaves(cell.run), strict=True)
    return {new.path for old, new in pairs if old != new}


def test_shared_runs_have_todays_settings() -> None:
    """C-TRPO's were made before `schedule_steps`: none of its rates follows a schedule."""
    found = ROOT / "results" / "reproduction"
    for cell in shared_cells():
        recorded = kept.read(found / cell.name / "run.json")["run"]
        late = {"schedule_steps"} if cell.run.name == "c-trpo" else set[str]()
        assert differing(recorded, cell) <= late, cell.name
        assert cell.run.algorithm.landing == 0 if late else True
        assert differing({**recorded, "lam": 0.9}, cell) - late == {"lam"}  # the control


def test_the_page_tells_what_results_hold() -> None:
    """Written by the generator from what is kept now; what stands beside ours is not kept."""
    text = (ROOT / "docs" / "studies.md").read_text()
    for folder in ("studies", "headline"):
        assert kept.not_run_text(ROOT / "results" / folder) in text
    ours = studies.own_runs(ROOT / "results")
    for study in studies.STUDIES:
        assert (f"images/study-{study.name}.png" in text) == bool(studies.tasks_of(study, ours))
        for row in studies.rows_of(study, ours, ())[1:]:
            shown = [[*row[:4], row[5], row[7]]]  # ours, without what is published
            lines = [line.strip("| ").split(" | ") for line in text.splitlines()]
            assert shown[0] in [[*line[:4], *line[5:6], *line[7:8]] for line in lines], row
