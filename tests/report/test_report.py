# SPDX-License-Identifier: Apache-2.0
"""What a report says: equal steps, honest gaps, the paper's marks, files that are complete."""

import csv
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sample_runs import ALGORITHMS, TASKS, write_runs

from holdfast.records.find import labelled, load
from holdfast.report import report
from holdfast.report.curves import curves
from holdfast.report.finals import marks
from holdfast.report.html import differing, payload, short
from holdfast.report.summary import Summary, summarise
from holdfast.report.tables import latex, latex_final


@pytest.fixture(scope="module")
def summary(tmp_path_factory: pytest.TempPathFactory) -> Summary:
    runs, skipped = load([write_runs(tmp_path_factory.mktemp("runs"))])
    return summarise(runs, skipped, resamples=2_000)


def test_methods_are_grouped_by_safety(summary: Summary):
    assert summary.labels == ("c-trpo", "cpo", "ppo") and summary.tasks == TASKS
    assert summary.safe == ("c-trpo",) and summary.undecided == ()
    assert set(summary.unsafe) == {"cpo", "ppo"}
    assert summary.aggregate["ppo"]["reward"].value == pytest.approx(1.0, abs=0.05)
    assert {unit.regret_by for unit in summary.units.values()} == {"cpo"}


def test_an_unfinished_run_is_named_and_left_out(summary: Summary):
    assert summary.horizon[TASKS[1]] == 40_000
    assert len(summary.finals["cpo", TASKS[1]].seeds) == 3
    expected = f"cpo / {TASKS[1]} / seed 3: unfinished, 20,000 of 40,000 steps"
    assert summary.incomplete == (expected,)


def test_seeds_are_missed_among_loose_runs_only(tmp_path: Path):
    """A suite names its cells; the seeds of another suite are none that it lacks."""
    import shutil

    root = write_runs(tmp_path / "one", seeds=2, unfinished=False)
    write_runs(tmp_path / "two", seeds=3, unfinished=False)
    shutil.rmtree(tmp_path / "two" / f"ppo_{TASKS[0]}_2")
    gaps = lambda: summarise(load([tmp_path / "two"])[0], resamples=100).incomplete
    assert gaps() == (f"ppo / {TASKS[0]}: no run with seed 2",)
    for folder in (root, tmp_path / "two"):
        (folder / "suite.json").write_text(json.dumps({"cells": [f"ppo_{TASKS[0]}_2"]}))
    shutil.rmtree(root / f"cpo_{TASKS[0]}_0")
    assert gaps() == () and summarise(load([tmp_path])[0], resamples=100).incomplete == ()
    page = report([tmp_path / "two"], tmp_path / "out", figures=False).read_text()
    assert f'"skipped":[],"waiting":["ppo_{TASKS[0]}_2: not started"]' in page


def test_runs_are_compared_at_equal_steps(tmp_path: Path):
    runs, _ = load([write_runs(tmp_path, seeds=2, unfinished=False)])
    early = summarise(runs, steps=20_000, resamples=100)
    run = next(r for r in runs if (r.label, r.task, r.seed) == ("ppo", TASKS[0], 0))
    at = list(run.columns["env_steps"]).index(20_000)
    assert early.finals["ppo", TASKS[0]].reward[0] == run.columns["ep_return"][at]
    assert early.finals["ppo", TASKS[0]].regret[0] == run.columns["cost_regret"][at]


def test_longer_runs_have_a_row_at_their_own_end(tmp_path: Path):
    """Compared where all have been, and shown where they came to; marks stay within one length."""
    runs, _ = load([write_runs(tmp_path, seeds=2, unfinished=False)])
    early = [run.until(20_000) if run.label == "cpo" else run for run in runs]
    found = summarise(early, resamples=100)
    assert set(found.horizon.values()) == {20_000} and set(found.ends) == {40_000}
    end, whole = found.ends[40_000], summarise(runs, resamples=100)
    assert {label for label, _ in end.finals} == {"c-trpo", "ppo"}
    for pair, final in end.finals.items():
        np.testing.assert_array_equal(final.reward, whole.finals[pair].reward)
    assert end.bold == end.boxed == {("c-trpo", task) for task in TASKS}
    assert not whole.ends and "at 40k" not in latex_final(whole)
    assert latex_final(found).count(", at 40k") == 2
    (shown,) = payload(found, "report")["ends"]
    assert shown["steps"] == 40_000 and shown["seeds"]["0,0"] == 2
    assert not summarise([run.until(20_000) for run in runs], steps=20_000, resamples=100).ends


def test_the_raw_regret_is_compared_if_all_runs_have_it(tmp_path: Path):
    runs, _ = load([write_runs(tmp_path, seeds=2, unfinished=False)])
    assert payload(summarise(runs, resamples=100), "report")["smoothed"]
    double = lambda run: run.columns | {"cost_regret_raw": 2 * run.columns["cost_regret"]}
    both = [replace(run, columns=double(run)) for run in runs]
    smoothed, raw = (summarise(found, resamples=100) for found in (runs, both))
    mixed = summarise([*both[1:], runs[0]], resamples=100)
    for cell, final in smoothed.finals.items():
        np.testing.assert_array_equal(raw.finals[cell].regret, 2 * final.regret)
        np.testing.assert_array_equal(mixed.finals[cell].regret, final.regret)
        low, high = (curves(found.runs)[cell]["regret"].value for found in (smoothed, raw))
        np.testing.assert_array_equal(high, 2 * low)
    assert not payload(raw, "report")["smoothed"] and payload(mixed, "report")["smoothed"]


def test_nothing_finished_is_compared_where_all_have_been(tmp_path: Path):
    root = write_runs(tmp_path, seeds=2)
    for done in root.glob("*/done.json"):
        done.unlink()
    runs, _ = load([root])
    assert summarise(runs, resamples=100).horizon == {TASKS[0]: 40_000, TASKS[1]: 20_000}


def test_missing_cells_keep_an_algorithm_out_of_the_aggregate(tmp_path: Path):
    import shutil

    root = write_runs(tmp_path, seeds=2, unfinished=False)
    for folder in root.glob(f"cpo_{TASKS[0]}_*"):
        shutil.rmtree(folder)
    runs, _ = load([root])
    found = summarise(runs, resamples=100)
    assert found.partial == ("cpo",) and "cpo" not in found.aggregate
    assert found.units[TASKS[0]].regret_by == "ppo", "no CPO there: the largest regret serves"


def test_withdrawn_runs_are_listed_and_not_compared(tmp_path: Path):
    runs, _ = load([write_runs(tmp_path, seeds=2, unfinished=False)])
    back = lambda run: {"experiment": "withdrawn" if run.label == "ppo" else "benchmark"}
    told = [replace(run, source="table", config=run.config | back(run)) for run in runs]
    own = replace(runs[0], algorithm="c-npg")
    marked = labelled([*told, own])
    assert {run.label for run in marked} == {"c-trpo", "cpo", "ppo (withdrawn)", "c-npg (Holdfast)"}
    found = summarise([run for run in marked if run.source == "table"], resamples=100)
    assert found.withdrawn == found.partial == ("ppo (withdrawn)",)
    assert set(found.aggregate) == {"c-trpo", "cpo"}
    assert ("ppo (withdrawn)", TASKS[0]) in found.estimates
    assert all(unit.reward_by != "ppo (withdrawn)" for unit in found.units.values())
    assert payload(found, "report")["withdrawn"] == [found.labels.index("ppo (withdrawn)")]


def test_curves_end_at_the_tabled_value(summary: Summary):
    drawn = curves(summary.runs)
    for cell, estimates in summary.estimates.items():
        if cell != ("cpo", TASKS[1]):  # its unfinished run belongs to the curve only
            assert drawn[cell]["reward"].value[-1] == pytest.approx(estimates["reward"].value)
    half = drawn["cpo", TASKS[1]]["cost"]
    assert half.steps[-1] == 40_000 and np.all(half.low <= half.high)


def test_settings_that_differ(summary: Summary):
    differ, same = differing(summary)
    assert differ == {"algorithm.beta": {"c-trpo": "1"}}
    assert same["gamma"] == "0.99" and same["algorithm.radius"] == "0.01"


def test_several_constraints_show_the_worst(tmp_path: Path):
    folder = tmp_path / "a"
    folder.mkdir()
    run = {"env": "T", "name": "c-trpo", "seed": 0, "steps": 2000, "algorithm": {}}
    record = {"run": run, "limits": {"speed": 20.0, "fall": 2.0}}
    (folder / "run.json").write_text(json.dumps(record))
    (folder / "progress.csv").write_text(
        "epoch,env_steps,ep_return,ep_cost,ep_cost/speed,ep_cost/fall\n1,2000,5,13,10,3\n"
    )
    (folder / "done.json").write_text("{}")
    found = summarise(load([tmp_path])[0], resamples=100)
    assert found.finals["c-trpo", "T"].cost == 1.5 and found.finals["c-trpo", "T"].limit == 1.0
    assert found.finals["c-trpo", "T"].regret == 1.0
    assert found.undecided == ("c-trpo",), "one seed decides nothing"


def test_a_report_on_disk(tmp_path: Path):
    page = report([write_runs(tmp_path / "runs", seeds=2)], tmp_path / "out", title="A < B & C")
    text = page.read_text()
    assert "A &lt; B &amp; C" in text and "@DATA@" not in text and "@SCRIPT@" not in text
    addresses = set(re.findall(r"https?://[^\s\"'<>)]+", text))
    assert addresses == {"http://www.w3.org/2000/svg"}, "a name, not an address that is fetched"
    files = {path.name for path in (tmp_path / "out").rglob("*.*") if path.is_file()}
    for name in ("aggregate", "pareto", "profiles", "curves"):
        assert {f"{name}.png", f"{name}.svg", f"{name}.pdf"} <= files
    with open(tmp_path / "out" / "tables" / "final.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(ALGORITHMS) * len(TASKS) * 3
    best = {row["algorithm"] for row in rows if row["bold"] == "1"}
    assert best == {"c-trpo"}, "only safe methods are marked"


def test_equal_runs_give_equal_reports(tmp_path: Path):
    runs = write_runs(tmp_path / "runs", seeds=2)
    for out in ("a", "b"):
        report([runs], tmp_path / out, figures=False)
    for path in (tmp_path / "a").rglob("*.*"):
        if path.is_file() and path.suffix in (".html", ".csv", ".tex"):
            twin = tmp_path / "b" / path.relative_to(tmp_path / "a")
            assert path.read_bytes() == twin.read_bytes(), path.name


def test_watching_ends_when_the_last_run_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    root = write_runs(tmp_path / "runs", seeds=2)
    later = tmp_path / "later"
    names = [folder.name for folder in root.iterdir()]
    (root / names[0]).rename(later)  # a cell of the suite that has not started yet
    (root / "suite.json").write_text(json.dumps({"suite": "small", "cells": names}))
    seen: list[float] = []

    def sleep(seconds: float) -> None:  # the jobs go on while the report waits
        data = (tmp_path / "out" / "report.html").read_text()
        assert '"watch":3.0' in data and not (tmp_path / "out" / "tables").exists()
        assert (f"{names[0]}: not started" in data) == (len(seen) == 0)
        seen.append(seconds)
        if len(seen) == 1:
            later.rename(root / names[0])
        for folder in root.glob("*/run.json"):
            folder.with_name("done.json").write_text("{}")

    monkeypatch.setattr("holdfast.report.time.sleep", sleep)
    page = report([root], tmp_path / "out", watch=True, interval=3.0, figures=False)
    assert seen == [3.0] and '"watch":null' in page.read_text()
    assert (tmp_path / "out" / "tables" / "final.csv").exists()


def test_useless_input_is_refused(tmp_path: Path):
    with pytest.raises(ValueError, match="no runs found"):
        report([tmp_path], tmp_path / "out")
    with pytest.raises(ValueError, match="at least one"):
        report([], tmp_path / "out")
    with pytest.raises(ValueError, match="steps=0"):
        report([tmp_path], tmp_path / "out", steps=0)


def test_names_are_safe_in_latex_and_json(summary: Summary):
    assert latex("a_b & 50% \\") == r"a\_b \& 50\% \textbackslash{}"
    text = latex_final(summary)
    assert text.count(r"\mathbf") == 2 and text.count(r"\boxed") == 2
    data = payload(summary, "</script><script>alert(1)</script>")
    assert json.loads(json.dumps(data, allow_nan=False))["labels"] == list(summary.labels)
    assert (
        short("SafetyAntVelocity-v1") == "AntVelocity" and short("probe/Speed-v0") == "probe/Speed"
    )


def test_the_papers_marks(published: Path):
    runs, _ = load([published / "paper_runs.parquet"])
    with open(published / "paper_table.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    table = {row["source_algorithm"] for row in rows}
    found = summarise([run for run in runs if run.label in table], resamples=100)
    bold, boxed = marks(found.finals, found.tasks)
    printed = lambda mark: {(r["source_algorithm"], r["task"]) for r in rows if r[mark] == "True"}
    assert bold == printed("bold") and boxed == printed("boxed")


def test_safe_on_average_is_not_safe_on_every_task(tmp_path: Path):
    """A green "probably safe" needs every task; otherwise the tasks above the limit are named."""
    runs, _ = load([write_runs(tmp_path, unfinished=False)])
    above = lambda run: run.label == "c-trpo" and run.task == TASKS[1]
    cost = lambda run: {"ep_cost": run.columns["ep_cost"] * 0 + (25.5 if above(run) else 5.0)}
    mixed = [replace(run, columns=run.columns | cost(run)) for run in runs]
    found = summarise(mixed, resamples=200)
    assert found.aggregate["c-trpo"]["excess"].high <= 0, "the mean over the tasks is safe"
    assert found.partly == {"c-trpo": (TASKS[1],)} and "c-trpo" not in found.safe
    assert "cpo" in found.safe and found.groups["safe on some tasks"] == ("c-trpo",)


def test_a_run_that_stopped_early_is_not_called_a_saved_policy(tmp_path: Path):
    root = write_runs(tmp_path, seeds=2, unfinished=False)
    for name, gone in ((f"cpo_{TASKS[0]}_0", True), (f"cpo_{TASKS[0]}_1", False)):
        header = (root / name / "progress.csv").read_text().splitlines()[0]
        (root / name / "progress.csv").write_text(header + "\n")
        if gone:
            (root / name / "done.json").unlink()
    found = summarise(load([root])[0], resamples=100)
    assert found.without_epoch == [f"cpo on {TASKS[0]}, seed 0"]
    assert found.without_history == [f"cpo on {TASKS[0]}, seed 1"]
    lines = [line for line in found.incomplete if line.startswith("cpo")]
    assert "before its first epoch" in lines[0] and "without history" in lines[1]
