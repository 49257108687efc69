# SPDX-License-Identifier: Apache-2.0
"""The page in a real browser: every control is used, nothing is logged, nothing is fetched."""

import functools
import html
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from sample_runs import TASKS, write_runs

from holdfast.records.find import load
from holdfast.report.html import payload, write_page
from holdfast.report.summary import summarise

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
BROWSER = next((found for name in BROWSERS if (found := shutil.which(name))), None)
pytestmark = pytest.mark.skipif(BROWSER is None, reason="Chromium is not installed")
FLAGS = (
    "--headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --hide-scrollbars --enable-logging=stderr "
    "--virtual-time-budget=20000"
).split()

VISITS = Path(__file__).with_name("visits.js")


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("page")
    runs, skipped = load([write_runs(folder / "runs")])
    return write_page(folder, payload(summarise(runs, skipped, resamples=2_000), "Test </script>"))


@functools.cache
def visit(page: Path, name: str, width: int = 1280) -> dict[str, Any]:
    """Open the page in a fresh profile and make the named visit of visits.js; what it found."""
    assert BROWSER is not None
    copy = page.with_name(f"{name}-{width}.html")
    added = f"<script>{VISITS.read_text()}\nmake('{name}');</script></body>"
    copy.write_text(page.read_text().replace("</body>", added))
    profile = page.parent / f"profile-{copy.stem}"
    size = [f"--window-size={width},900", f"--user-data-dir={profile}", "--dump-dom"]
    command = [BROWSER, *FLAGS, *size, copy.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    said = re.findall(r".*CONSOLE.*", done.stderr)
    match = re.search(r'data-found="([^"]*)"', done.stdout)
    assert match, done.stderr[-2000:]
    found: dict[str, Any] = json.loads(html.unescape(match.group(1)))
    assert found["errors"] == [] and said == [] and found["fetched"] == []
    return found


def test_every_section_is_drawn(page: Path):
    found = visit(page, "sections")
    assert found["title"] == "Test </script>"
    assert "3 algorithms · 2 tasks · 24 runs (23 finished)" in found["lead"]
    assert found["charts"] == {"bars": 3, "scatter": 1, "multiples": 6, "profile": 2, "versus": 2}
    assert found["groups"] == ["PROBABLY SAFE", "PROBABLY UNSAFE"]
    assert found["units"][1:] == ["Return, relative to PPO’s", "Cost regret, relative to CPO’s"]
    assert found["rows"] == 3 and found["limit"] == 2
    assert (found["best"], found["box"], found["over"]) == (2, 2, 4)
    assert (found["held"], found["heldOver"]) == (6, 4)  # CPO's and PPO's worst seeds, on both
    assert "seed 3: unfinished, 20,000 of 40,000 steps" in found["gaps"]
    assert "algorithm.beta" in found["settings"] and found["folded"] == []


def test_the_worst_seed_is_on_the_chart_or_marked(page: Path, tmp_path: Path):
    """Bands are within the frame; one seed that would flatten all others is marked instead."""
    from dataclasses import replace

    assert min(visit(page, "sections")["highest"]) >= 8
    runs, _ = load([page.parent / "runs"])
    twice = [replace(r, label=r.label + "2") for r in runs if r.label != "ppo"]
    wild = lambda r: (r.label, r.seed) == ("c-trpo", 1)
    cost = lambda r: {"ep_cost": r.columns["ep_cost"] * (200 if wild(r) else 1)}
    mixed = [replace(r, columns=r.columns | cost(r)) for r in [*runs, *twice]]
    found = visit(write_page(tmp_path, payload(summarise(mixed, resamples=100), "W")), "sections")
    assert sum(text.startswith("c-trpo: off the chart") for text in found["off"]) == 2


def test_cells_that_wait_have_a_heading_and_long_lists_are_folded(page: Path, tmp_path: Path):
    runs, _ = load([page.parent / "runs"])
    waiting = [f"cpo_{TASKS[0]}_seed{i}: not started" for i in range(12)]
    made = summarise(runs, ["x: no file"], waiting, resamples=100)
    found = visit(write_page(tmp_path, payload(made, "Gaps")), "sections")
    assert found["folded"] == ["Cells of suites that have not been started (12)"]
    assert "Files that were not used:x: no file" in found["gaps"]


@pytest.mark.parametrize("width", [500, 1280])
def test_the_legend_stays_and_tables_show_that_they_scroll(page: Path, width: int):
    """A table that goes on is faded at its edge until one is there; a narrow one never."""
    found = visit(page, "screen", width)
    assert found["legend"] == [True] * 3
    assert found["final"] == [False, False, -1, False]
    narrow = width < 600
    assert found["held"] == [narrow, narrow, 0 if narrow else -1, False]
    assert found["smooth"] is False, "three lines are no thicket"


def test_many_methods_some_undecided_and_one_without_history(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Smooth lines by default; one across its limit, one from a single seed: both undecided."""
    import sample_runs

    several = {f"m{i}": (9.0, -8.0 + i) for i in range(6)} | {"near": (9.0, 0.0)}
    monkeypatch.setattr(sample_runs, "ALGORITHMS", {**sample_runs.ALGORITHMS, **several})
    write_runs(tmp_path / "runs", seeds=3, unfinished=False)
    monkeypatch.setattr(sample_runs, "ALGORITHMS", {"alone": (9.0, -20.0)})
    write_runs(tmp_path / "runs", seeds=1, unfinished=False)
    (tmp_path / "runs" / f"alone_{TASKS[0]}_0" / "progress.csv").rename(tmp_path / "kept.csv")
    runs, skipped = load([tmp_path / "runs"])
    summary = summarise(runs, skipped, resamples=1_000)
    assert summary.without_history == [f"alone on {TASKS[0]}, seed 0"]
    (tmp_path / "kept.csv").rename(tmp_path / "runs" / f"alone_{TASKS[0]}_0" / "progress.csv")
    runs, skipped = load([tmp_path / "runs"])
    full = summarise(runs, skipped, resamples=1_000)
    assert "alone" in full.undecided and "near" in full.undecided and "c-trpo" in full.safe
    data = payload(full, "Many") | {"without_history": summary.without_history}
    found = visit(write_page(tmp_path, data), "screen")
    assert found["smooth"] is True and found["halved"] == 0
    assert found["groups"] == ["PROBABLY SAFE", "UNDECIDED", "PROBABLY UNSAFE"]
    assert "Saved without the history of its training" in found["lead"]


def test_the_heading_says_what_regrets_are_relative_to(page: Path, tmp_path: Path):
    """Where CPO has no regret another one serves, and a bar may go beyond 1."""
    from dataclasses import replace

    runs, _ = load([page.parent / "runs"])
    none = {"cost_regret": 0 * runs[0].columns["cost_regret"]}
    kept = lambda run: run.label == "cpo" and run.task == TASKS[0]
    mixed = [replace(run, columns=run.columns | none) if kept(run) else run for run in runs]
    found = visit(write_page(tmp_path, payload(summarise(mixed, resamples=500), "0")), "sections")
    said = "Cost regret, relative to CPO’s; where that is 0 or missing, the largest"
    assert found["units"][2] == said


def test_own_runs_beside_others_start_on_their_own_tasks(page: Path, tmp_path: Path):
    """One's own algorithm is in the comparison though published ones have further tasks."""
    from dataclasses import replace

    runs, _ = load([page.parent / "runs"])
    mixed = [replace(run, source="table") for run in runs if run.algorithm != "c-trpo"]
    mixed += [run for run in runs if run.algorithm == "c-trpo" and run.task == TASKS[0]]
    found = visit(write_page(tmp_path, payload(summarise(mixed, resamples=500), "Mixed")), "chosen")
    assert found["tasks"] == ["AntVelocity"] and "c-trpo" in found["bars"]
    assert len(visit(page, "chosen")["tasks"]) == 2  # all are one's own


def test_where_no_method_is_on_all_tasks_the_page_starts_on_those_of_one(
    page: Path, tmp_path: Path
):
    """It never opens with an empty comparison; the other tasks are a click away."""
    runs, _ = load([page.parent / "runs"])
    parted = [r for r in runs if (r.task == TASKS[1]) == (r.algorithm == "ppo")]
    found = visit(write_page(tmp_path, payload(summarise(parted, resamples=500), "P")), "chosen")
    assert found["tasks"] == ["AntVelocity"]
    assert "c-trpo" in found["bars"] and "cpo" in found["bars"] and "ppo" not in found["bars"]


def test_a_single_run_is_shown_and_compared_with_nothing(page: Path, tmp_path: Path):
    runs, _ = load([page.parent / "runs"])
    one = payload(summarise([runs[0]], resamples=500), "One")
    found = visit(write_page(tmp_path, one), "alone")
    assert found["lead"].startswith("1 algorithm · 1 task · 1 run (1 finished) · 40 epochs.")
    assert (found["charts"], found["rows"]) == (3, 1)
    comparing = {"pareto", "profiles", "improvement"}
    assert not comparing & {*found["sections"], *found["links"]}
    assert set(found["sections"]) == set(found["links"])
    assert comparing <= set(visit(page, "alone")["sections"])


def test_one_complete_method_is_shown_beside_its_limit(page: Path, tmp_path: Path):
    """Others lack a task: no chart of one point, no empty comparisons, but each task's cost."""
    runs, _ = load([page.parent / "runs"])
    some = [run for run in runs if run.label == "c-trpo" or run.task == TASKS[0]]
    found = visit(write_page(tmp_path, payload(summarise(some, resamples=500), "One")), "alone")
    tasks = ["AntVelocity", "PointGoal1"]
    assert found["bars"] == [
        ["Final cost relative to the limit", *tasks],
        ["… of the worst seed", *tasks],
        ["Share of epochs above the limit", *tasks],
    ]
    assert not {"pareto", "profiles", "improvement"} & {*found["sections"], *found["links"]}
    assert found["rows"] == 3


def test_algorithms_and_tasks_can_be_toggled(page: Path):
    found = visit(page, "toggles")
    assert found["start"] == found["again"] == found["all"] == [3, 2, 3]
    assert found["without"] == [2, 2, 2] and found["one"] == [3, 1, 3]
    assert "recomputed here" in found["note"]
    assert found["none"] == [0, 1, 0] and found["nothing"] == [0, 0, 0]


def test_the_pages_statistics_agree_with_ours(page: Path):
    found = visit(page, "statistics")
    runs, _ = load([page.parent / "runs"])
    ours = summarise([run for run in runs if run.task == TASKS[0]], resamples=2_000)
    for card, metric in zip(found["bars"], ("excess", "reward", "regret"), strict=True):
        for name, text in card:
            shown = float(re.sub("[^0-9.−]", "", text.replace("k", "")).replace("−", "-"))
            assert shown == pytest.approx(ours.aggregate[name][metric].value, rel=0.05, abs=5e-3)


def test_tables_sort_and_switch(page: Path):
    found = visit(page, "tables")
    assert found["down"] == ["ppo", "cpo", "c-trpo"] and found["up"] == ["c-trpo", "cpo", "ppo"]
    assert found["sorted"] == "descending" and found["named"] == ["c-trpo", "cpo", "ppo"]
    assert found["metrics"] == [3, 1, 1, 1] and found["regret"][0] == "ppo"
    assert found["same"] >= 4


def test_every_other_control(page: Path):
    found = visit(page, "controls")
    assert found["plain"] * 2 == found["bands"] and found["log"]
    assert found["smooth"] and found["rough"]
    assert found["orders"][0] == "c-trpo,cpo,ppo" and found["orders"][2] == "c-trpo,ppo,cpo"
    assert sorted(found["versus"]) == ["c-trpo", "cpo"]
    assert found["themes"][0] != found["themes"][1] and found["back"] == found["themes"][0]


def test_hovering_shows_values(page: Path):
    found = visit(page, "hovering")
    assert re.search(r"Return at \d+(\.\d+)?k", found["curve"]) and "c-trpo" in found["curve"]
    assert found["dots"] == 3 and found["gone"]
    assert "tasks within the limit2 of 2" in found["bar"]
    assert "[" in found["bar"] and "regret" in found["marker"] and "ppo" in found["profile"]


@pytest.mark.parametrize("width", [500, 1280])
def test_nothing_is_wider_than_the_screen(page: Path, width: int):
    found = visit(page, "sizes", width)
    assert found["width"] <= found["inner"]


def test_curves_that_fall_and_runs_of_one_epoch_are_on_the_chart(page: Path, tmp_path: Path):
    """The highest return comes first here; nothing is off the chart, and one epoch is a dot."""
    from dataclasses import replace

    runs, _ = load([page.parent / "runs"])
    falling = lambda run: {"ep_return": 100.0 - run.columns["env_steps"] / 500}
    some = [replace(run, columns=run.columns | falling(run)) for run in runs if run.label == "cpo"]
    found = visit(write_page(tmp_path, payload(summarise(some, resamples=100), "F")), "curves")
    assert found["off"] == [] and found["dots"] == 0 and min(found["highest"]) >= 8
    first = [run.until(1000) for run in some]
    found = visit(
        write_page(tmp_path, payload(summarise(first, resamples=100), "1")), "curves", 500
    )
    assert found["off"] == [] and found["dots"] == 6


def test_two_constraints_are_in_percent_of_their_limits(page: Path, tmp_path: Path):
    from dataclasses import replace

    runs, _ = load([page.parent / "runs"])
    parts = lambda run: {"ep_cost/a": run.columns["ep_cost"], "ep_cost/b": run.columns["ep_cost"]}
    two = lambda run: replace(run, limits={"a": 50.0, "b": 100.0}, columns=run.columns | parts(run))
    both = [two(run) for run in runs]
    found = visit(write_page(tmp_path, payload(summarise(both, resamples=100), "2")), "curves")
    assert found["titles"][1] == "Cost / limit, the worst of 2 constraints"
    assert found["titles"][2] == "Cost regret, the sum over 2 constraints"
    assert "%" in found["cell"] and "%" not in visit(page, "curves")["cell"]


def test_long_names_are_whole_on_a_phone(page: Path, tmp_path: Path):
    from dataclasses import replace

    runs, _ = load([page.parent / "runs"])
    long = [replace(run, label=f"{run.label} (published, reproduction, beta=2)") for run in runs]
    found = visit(write_page(tmp_path, payload(summarise(long, resamples=100), "L")), "curves", 500)
    assert len(found["names"]) == 3 and all(name.endswith("beta=2)") for name in found["names"])
    assert (
        found["cut"] == [] and found["folded"] and found["headings"][2] == "Epochs above the limit"
    )
