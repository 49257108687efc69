# SPDX-License-Identifier: Apache-2.0
"""The two normalisations of the paper: that of its benchmark figure and that of its ablation."""

import csv
import shutil
from pathlib import Path

import numpy as np
import pytest
from matplotlib import rc_context
from sample_runs import TASKS, write_runs

from holdfast.records import statistics as stats
from holdfast.records.find import load
from holdfast.report import report
from holdfast.report.curves import curves
from holdfast.report.figures import STYLE, aggregate, learning
from holdfast.report.summary import printed, summarise
from holdfast.report.tables import write_tables


def test_ablation_units_by_hand(tmp_path: Path):
    runs, _ = load([write_runs(tmp_path / "runs", seeds=4, unfinished=False)])
    paper, ablation = (summarise(runs, resamples=100, of=of) for of in ("paper", "ablation"))
    for task in TASKS:
        regret = paper.finals["cpo", task].regret
        assert ablation.units[task].regret == pytest.approx(regret.mean())
        assert paper.units[task].regret == pytest.approx(np.sort(regret)[1:-1].mean())
        assert paper.units[task].regret != ablation.units[task].regret
        assert ablation.units[task].reward == paper.units[task].reward
    for label in paper.aggregate:
        centred, plain = (printed(found, label, "excess") for found in (paper, ablation))
        assert plain.value == pytest.approx(1 + centred.value) and plain.high > plain.low
        assert printed(ablation, label, "reward") == ablation.aggregate[label]["reward"]
    assert paper.safe == ablation.safe
    write_tables(tmp_path / "out", ablation)
    with open(tmp_path / "out" / "aggregate.csv", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["metric"] == "excess"]
    assert {row["algorithm"]: row["group"] for row in rows}["c-trpo"] == "probably safe"
    assert all(float(row["iqm"]) > 0.5 for row in rows)


def test_a_missing_normaliser_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """Without PPO the largest return is the unit: never silently (here C-TRPO's is 1, not 0.4)."""
    runs, _ = load([write_runs(tmp_path / "runs", seeds=4, unfinished=False)])
    whole = summarise(runs, resamples=100)
    assert whole.missing_units == ()
    without = summarise([run for run in runs if run.label != "ppo"], resamples=100)
    (line,) = without.missing_units
    assert line.startswith("PPO, the paper's unit of returns") and all(t in line for t in TASKS)
    ours = [found.aggregate["c-trpo"]["reward"].value for found in (whole, without)]
    assert ours[0] < 0.5 < 0.8 < ours[1]  # what the sentence is about
    only = [run for run in runs if run.label == "c-trpo"]
    assert [text.split(",")[0] for text in summarise(only, resamples=100).missing_units] == [
        "PPO",
        "CPO",
    ]
    for folder in sorted((tmp_path / "runs").glob("cpo_*")):
        shutil.rmtree(folder)
    report([tmp_path / "runs"], tmp_path / "out", figures=False)
    said = capsys.readouterr().err
    assert "CPO, the paper's unit of regrets" in said and "PPO, the" not in said.replace("CPO,", "")
    gaps = (tmp_path / "out" / "tables" / "incomplete.csv").read_text()
    assert "CPO, the paper's unit of regrets" in gaps
    assert "CPO, the paper's unit of regrets" in (tmp_path / "out" / "report.html").read_text()


def test_the_papers_ablation_figure(published: Path):
    runs, _ = load([published / "paper_runs.parquet"])
    with open(published / "paper_iqm.csv", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["figure"] == "ablation"]
    names = {row["algorithm"] for row in rows} | {"ppo"}
    found = summarise([run for run in runs if run.label in names], resamples=100, of="ablation")
    metric = {"final_cost": "excess", "reward": "reward", "cost_regret": "regret"}
    assert len(rows) == 12
    for row in rows:
        shown = printed(found, row["algorithm"], metric[row["metric"]])
        assert shown.value == pytest.approx(float(row["iqm"]), abs=2e-6), row


def test_the_papers_layout(tmp_path: Path):
    """Two groups by the sign of the final cost, sorted by return; curves of safe methods; bands."""
    runs, _ = load([write_runs(tmp_path / "runs", seeds=4, unfinished=False)])
    paper = summarise(runs, resamples=100, layout="paper")
    assert paper.groups == {"safe": ("c-trpo",), "unsafe": ("ppo", "cpo")}
    ours = summarise(runs, resamples=100)
    assert set(ours.groups) == {
        "probably safe",
        "safe on some tasks",
        "undecided",
        "probably unsafe",
    }
    wide, narrow = (curves(runs, intervals)["cpo", TASKS[0]]["cost"] for intervals in (False, True))
    at = int(np.argmin(np.abs(wide.steps - narrow.steps[-1])))
    seeds = [
        run.columns["ep_cost"][-1] for run in runs if (run.label, run.task) == ("cpo", TASKS[0])
    ]
    assert (wide.low[at], wide.high[at]) == (min(seeds), max(seeds))
    interval = stats.bootstrap([np.array(seeds)], resamples=5_000)
    assert (narrow.low[-1], narrow.high[-1]) == (interval.low, interval.high)
    assert narrow.value[-1] == pytest.approx(interval.value)
    write_tables(tmp_path / "out", paper)
    with open(tmp_path / "out" / "aggregate.csv", newline="") as file:
        groups = {row["algorithm"]: row["group"] for row in csv.DictReader(file)}
    assert groups == {"c-trpo": "safe", "cpo": "unsafe", "ppo": "unsafe"}
    with rc_context(STYLE):
        bars = aggregate(paper)
        only = learning(paper, curves(runs, intervals=True), paper.groups["safe"])
        whole = learning(paper, curves(runs))
    named = [label.get_text() for label in bars.axes[0].get_yticklabels()]
    assert named == ["cpo", "ppo", "c-trpo"]  # from below
    assert [len(figure.axes[0].lines) for figure in (only, whole)] == [1, 3]
