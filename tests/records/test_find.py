# SPDX-License-Identifier: Apache-2.0
"""Reading runs back: our folders, half-written ones, SafePO, OmniSafe, Parquet tables."""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from holdfast.records.find import load
from holdfast.records.rows import read_progress, read_rows
from holdfast.report import load_runs
from holdfast.run import make_run, to_json

HEADER = "epoch,env_steps,ep_return,ep_cost,ep_length,cost_regret,kl"


def write_run(folder: Path, algorithm: dict[str, Any], seed: int = 0, **run: Any) -> Path:
    folder.mkdir(parents=True)
    settings = dict(algorithm)
    config = {"env": "SafetyAntVelocity-v1", "name": settings.pop("name"), "algorithm": settings}
    config |= {"seed": seed, "cost_limit": 25.0, "steps": 3000, "preset": "corrected"} | run
    record = {"run": config, "versions": {"numpy": "2.0"}}
    limit = config["cost_limit"]
    record["limits"] = limit if isinstance(limit, dict) else {"cost": limit}
    (folder / "run.json").write_text(json.dumps(record))
    rows = [
        f"{k},{1000 * k},{k * 10.0 + seed},{20.0 + 5 * k},100,{5 * (k - 1)},0.01" for k in (1, 2, 3)
    ]
    (folder / "progress.csv").write_text("\n".join([HEADER, *rows, ""]))
    (folder / "done.json").write_text("{}")
    return folder


def test_a_run_folder(tmp_path: Path):
    write_run(tmp_path / "a", {"name": "ctrpo", "beta": 1.0}, seed=7)
    (run,), skipped = load([tmp_path])
    assert (run.algorithm, run.label, run.task, run.seed) == (
        "ctrpo",
        "ctrpo",
        "SafetyAntVelocity-v1",
        7,
    )
    assert run.done and run.steps == run.budget == 3000 and skipped == ()
    assert run.limits == {"cost": 25.0} and run.config["algorithm.beta"] == 1.0
    np.testing.assert_array_equal(run.columns["ep_return"], [17.0, 27.0, 37.0])
    assert run.costs().shape == (3, 1)


def test_a_half_written_line_is_not_a_row(tmp_path: Path):
    folder = write_run(tmp_path / "a", {"name": "ctrpo"})
    (folder / "done.json").unlink()
    whole = (folder / "progress.csv").read_text()
    for cut in range(len(HEADER) + 1, len(whole)):
        (folder / "progress.csv").write_text(whole[:cut])
        (run,), _ = load([folder])
        rows = whole[:cut].count("\n") - 1
        np.testing.assert_array_equal(run.columns["env_steps"], [1000, 2000, 3000][:rows])
        assert not run.done


def test_a_resumed_run_rewrites_epochs(tmp_path: Path):
    file = tmp_path / "progress.csv"
    file.write_text("epoch,ep_return\n1,10\n2,20\n3,30\n2,21\n3,31\n4,41\n")
    np.testing.assert_array_equal(read_progress(file)["ep_return"], [10, 21, 31, 41])
    assert [row["ep_return"] for row in read_rows(file)] == [10, 21, 31, 41]


def test_empty_fields_and_words(tmp_path: Path):
    file = tmp_path / "progress.csv"
    file.write_text("epoch,kl,recovering\n1,,True\n2,nan,False\n")
    columns = read_progress(file)
    assert np.isnan(columns["kl"]).all()
    np.testing.assert_array_equal(columns["recovering"], [1.0, 0.0])


def test_broken_files_are_named_not_fatal(tmp_path: Path):
    write_run(tmp_path / "good", {"name": "ctrpo"})
    bad = write_run(tmp_path / "words", {"name": "ctrpo"}, seed=1)
    (bad / "progress.csv").write_text(HEADER + "\n1,2,3,spam,5,6,7\n")
    ragged = write_run(tmp_path / "ragged", {"name": "ctrpo"}, seed=2)
    (ragged / "progress.csv").write_text(HEADER + "\n1,2,3\n")
    torn = write_run(tmp_path / "torn", {"name": "ctrpo"}, seed=3)
    (torn / "run.json").write_text('{"run": {"env"')
    runs, skipped = load([tmp_path])
    assert [run.seed for run in runs] == [0]
    assert len(skipped) == 3
    assert any("'spam' in progress.csv is not a number" in text for text in skipped)


def test_only_settings_that_differ_on_one_task_enter_the_label(tmp_path: Path):
    other = "SafetyPointPush1-v0"
    for seed in (0, 1):
        write_run(tmp_path / f"a{seed}", {"name": "ctrpo", "beta": 0.2, "batch": 128}, seed)
        write_run(tmp_path / f"b{seed}", {"name": "ctrpo", "beta": 1.0, "batch": 128}, seed)
        write_run(tmp_path / f"c{seed}", {"name": "cpo", "batch": 128}, seed)
        write_run(tmp_path / f"d{seed}", {"name": "cpo", "batch": 256}, seed, env=other)
    runs, _ = load([tmp_path])
    assert {run.label for run in runs} == {"ctrpo (beta=0.2)", "ctrpo (beta=1)", "cpo"}


def test_what_most_settings_have_goes_without_saying(tmp_path: Path):
    """An ablation changes one thing at a time; a sweep has no usual value."""
    base = {"name": "ctrpo", "barrier": "log", "margin": 1.0, "first": True}
    variants = [{}, {"barrier": "entropy"}, {"margin": 0.0}, {"first": False}]
    for i, changed in enumerate(variants):
        write_run(tmp_path / "ablation" / str(i), base | changed)
        write_run(tmp_path / "sweep" / str(i), {"name": "ctrpo", "beta": 0.5 * i, "first": i > 1})
    labels = {run.label for run in load([tmp_path / "ablation"])[0]}
    changed = {"ctrpo (barrier=entropy)", "ctrpo (margin=0)", "ctrpo (first=False)"}
    assert labels == {"ctrpo"} | changed
    swept = {run.label for run in load([tmp_path / "sweep"])[0]}
    assert len(swept) == 4 and "ctrpo (beta=0.5, first=False)" in swept


def test_a_preset_names_all_that_it_sets(tmp_path: Path):
    """Our default and the published behaviour differ in many settings, and in one word."""
    for name, preset in (("ours", None), ("theirs", "published")):
        run = make_run("c-trpo", preset, env="SafetyAntVelocity-v1", steps=3000)
        folder = write_run(tmp_path / name, {"name": "c-trpo"})
        record = {"run": to_json(run), "limits": {"cost": 25.0}}
        (folder / "run.json").write_text(json.dumps(record))
    runs, skipped = load([tmp_path])
    assert [run.label for run in runs] == ["c-trpo", "c-trpo (published)"] and not skipped
    (alone,), _ = load([tmp_path / "theirs"])
    assert alone.label == "c-trpo"


def test_settings_that_came_later_tell_no_runs_apart(tmp_path: Path):
    """A run.json of an earlier version lacks them: they were as by default."""
    data = json.loads(json.dumps(to_json(make_run("c-trpo", env="SafetyAntVelocity-v1"))))
    for seed, missing in ((0, ()), (1, ("encoder", "step_timeout"))):
        folder = write_run(tmp_path / f"seed{seed}", {"name": "c-trpo"})
        run = {k: v for k, v in data.items() if k not in missing} | {"seed": seed}
        (folder / "run.json").write_text(json.dumps({"run": run, "limits": {"cost": 25.0}}))
    assert {run.label for run in load_runs([tmp_path])[0]} == {"c-trpo"}
    run |= {"seed": 2, "encoder": "gru"}
    folder = write_run(tmp_path / "seed2", {"name": "c-trpo"})
    (folder / "run.json").write_text(json.dumps({"run": run, "limits": {"cost": 25.0}}))
    labels = {run.label for run in load_runs([tmp_path])[0]}
    assert labels == {"c-trpo (encoder=mlp)", "c-trpo (encoder=gru)"}


def test_runs_that_differ_in_length_are_one_algorithm(tmp_path: Path):
    """A first try and a longer run are not two methods; of one seed the longest counts."""
    write_run(tmp_path / "a", {"name": "ctrpo"}, steps=3000)
    write_run(tmp_path / "b", {"name": "ctrpo"}, seed=1, steps=30000)
    runs, skipped = load([tmp_path])
    assert {run.label for run in runs} == {"ctrpo"} and skipped == ()
    longer = write_run(tmp_path / "c", {"name": "ctrpo"}, steps=500_000) / "progress.csv"
    longer.write_text(longer.read_text() + "4,500000,40,25,100,20,0.01\n")
    runs, (line,) = load([tmp_path])
    assert {(run.label, run.seed, run.budget) for run in runs} == {
        ("ctrpo", 0, 500_000),
        ("ctrpo", 1, 30_000),
    }
    assert line.startswith(str(tmp_path / "a")) and "which got further" in line


def test_within_a_suite_a_longer_run_is_another_setting(tmp_path: Path):
    """What a run does at a million steps depends on whether it ends there."""
    for name, steps in (("a", 3000), ("b", 30_000), ("c", 500_000), ("d", 10_000_000)):
        write_run(tmp_path / name, {"name": "ctrpo"}, steps=steps)
    (tmp_path / "suite.json").write_text(json.dumps({"cells": []}))
    runs, skipped = load([tmp_path])
    assert {run.label for run in runs} == {
        "ctrpo (steps=3000)",
        "ctrpo (steps=30000)",
        "ctrpo (steps=0.5M)",
        "ctrpo (steps=10M)",
    }
    assert skipped == ()


def test_runs_of_several_suites_are_told_apart_by_their_folders(tmp_path: Path):
    """What was chosen on is not mixed with what was held out, whatever else differs."""
    for seed in (0, 1):
        write_run(tmp_path / "chosen" / f"a{seed}", {"name": "ctrpo"}, seed)
        write_run(tmp_path / "unseen" / f"a{seed}", {"name": "ctrpo"}, 20 + seed)
    write_run(tmp_path / "long" / "a", {"name": "ctrpo"}, 20, steps=30000)
    write_run(tmp_path / "long" / "b", {"name": "cpo"}, 20, steps=30000)
    for name in ("chosen", "unseen", "long"):
        (tmp_path / name / "suite.json").write_text(json.dumps({"cells": []}))
    labels = {(run.label, run.seed) for run in load([tmp_path])[0]}
    assert labels == {
        ("cpo", 20),
        ("ctrpo (chosen)", 0),
        ("ctrpo (chosen)", 1),
        ("ctrpo (long)", 20),
        ("ctrpo (unseen)", 20),
        ("ctrpo (unseen)", 21),
    }
    assert {run.label for run in load([tmp_path / "unseen"])[0]} == {"ctrpo"}
    write_run(tmp_path / "alone", {"name": "ctrpo"}, 7)
    found = {run.label for run in load([tmp_path / "unseen", tmp_path / "alone"])[0]}
    assert found == {"ctrpo", "ctrpo (unseen)"}


def test_cells_that_were_not_begun_are_named_wherever_their_suite_lies(tmp_path: Path):
    write_run(tmp_path / "ours" / "a", {"name": "ctrpo"})
    (tmp_path / "ours" / "suite.json").write_text(json.dumps({"cells": ["a", "b"]}))
    for path in (tmp_path, tmp_path / "ours"):
        assert load([path])[1] == ("b: not started",)
    assert load([tmp_path / "ours" / "a"])[1] == ()


def test_a_run_until_so_many_steps(tmp_path: Path):
    (run,), _ = load([write_run(tmp_path / "a", {"name": "ctrpo"})])
    assert run.until(2500).steps == 2000 and run.until(10**9).steps == 3000
    assert {column.size for column in run.until(2000).columns.values()} == {2}
    assert run.until(1).steps == 0


def test_of_equal_runs_the_furthest_counts(tmp_path: Path):
    short = write_run(tmp_path / "short", {"name": "ctrpo"})
    (short / "done.json").unlink()
    (short / "progress.csv").write_text(HEADER + "\n1,1000,0,0,0,0,0\n")
    write_run(tmp_path / "long", {"name": "ctrpo"})
    (run,), skipped = load([tmp_path / "short", tmp_path / "long"])
    assert run.path.endswith("long") and "which got further" in skipped[0]


def test_a_suite_that_repeats_another_is_shown_beside_it(tmp_path: Path):
    """Equal settings and seeds in two suites: two labels. A copy of a suite is still no second."""
    for name in ("ours", "again", "copy/ours"):
        write_run(tmp_path / name / "a", {"name": "ctrpo"})
        (tmp_path / name / "suite.json").write_text(json.dumps({"cells": ["a"]}))
    runs, skipped = load([tmp_path / "ours", tmp_path / "again"])
    assert {run.label for run in runs} == {"ctrpo (ours)", "ctrpo (again)"} and skipped == ()
    (run,), skipped = load([tmp_path / "ours", tmp_path / "copy" / "ours"])
    assert run.label == "ctrpo" and len(skipped) == 1


def test_several_constraints(tmp_path: Path):
    folder = write_run(tmp_path / "a", {"name": "ctrpo"}, cost_limit={"speed": 25.0, "fall": 1.0})
    (folder / "progress.csv").write_text(
        "epoch,env_steps,ep_return,ep_cost/speed,ep_cost/fall\n1,1000,5,30,0\n2,2000,6,20,3\n"
    )
    (run,), _ = load([tmp_path])
    np.testing.assert_array_equal(run.columns["cost_regret"], [5.0, 7.0])
    np.testing.assert_array_equal(run.costs(), [[30.0, 0.0], [20.0, 3.0]])
    np.testing.assert_array_equal(run.columns["ep_cost"], [30.0, 23.0])


def test_safepo_and_omnisafe_folders(tmp_path: Path):
    safepo = tmp_path / "runs" / "exp" / "SafetyAntVelocity-v1" / "cpo" / "seed-002-2024-01-01"
    safepo.mkdir(parents=True)
    config = {"seed": 2, "task": "SafetyAntVelocity-v1", "cost_limit": 20.0, "total_steps": 4000}
    (safepo / "config.json").write_text(json.dumps(config))
    (safepo / "progress.csv").write_text(
        "Metrics/EpRet,Metrics/EpCost,Metrics/EpLen,Train/Epoch,Train/TotalSteps\n"
        "1,30,1000,1,2000\n2,10,1000,2,4000\n"
    )
    omni = tmp_path / "PPOLag-{SafetyPointGoal1-v0}" / "seed-000-2024-02-02"
    omni.mkdir(parents=True)
    nested = {
        "seed": 0,
        "algo_cfgs": {"steps_per_epoch": 2000},
        "lagrange_cfgs": {"cost_limit": 30.0},
        "train_cfgs": {"total_steps": 6000},
    }
    (omni / "config.json").write_text(json.dumps(nested))
    (omni / "progress.csv").write_text(
        "Metrics/EpRet,Metrics/EpCost,Metrics/EpLen,Train/Epoch,TotalEnvSteps\n1,35,1000,0,2000\n"
    )
    runs, skipped = load([tmp_path])
    assert skipped == ()
    by_source = {run.source: run for run in runs}
    ours, theirs = by_source["safepo"], by_source["omnisafe"]
    assert (ours.algorithm, ours.task, ours.seed, ours.done) == (
        "cpo",
        "SafetyAntVelocity-v1",
        2,
        True,
    )
    np.testing.assert_array_equal(ours.columns["cost_regret"], [10.0, 10.0])
    assert (theirs.algorithm, theirs.task, theirs.done) == ("PPOLag", "SafetyPointGoal1-v0", False)
    assert theirs.limits == {"cost": 30.0} and theirs.budget == 6000
    np.testing.assert_array_equal(theirs.columns["cost_regret"], [5.0])


def test_sources_share_a_report(tmp_path: Path):
    write_run(tmp_path / "ours", {"name": "cpo"})
    folder = tmp_path / "SafetyAntVelocity-v1" / "cpo" / "seed-000-x"
    folder.mkdir(parents=True)
    (folder / "progress.csv").write_text(
        "Metrics/EpRet,Metrics/EpCost,Train/Epoch,Train/TotalSteps\n1,30,1,2000\n"
    )
    runs, _ = load([tmp_path])
    assert {run.label for run in runs} == {"cpo (Holdfast)", "cpo (safepo)"}


def test_missing_paths_and_missing_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(ValueError, match="does not exist"):
        load([tmp_path / "nowhere"])
    (tmp_path / "table.parquet").write_bytes(b"")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(RuntimeError, match=r"pip install 'holdfast-rl\[parquet\]'"):
        load([tmp_path])


def test_a_parquet_table_in_any_order(tmp_path: Path):
    import pyarrow as pa
    from pyarrow import parquet

    rows = [
        {
            "algorithm": a,
            "task": "T",
            "seed": s,
            "env_steps": k,
            "ep_return": k + s,
            "ep_cost": 30.0,
            "beta": b,
        }
        for a, b in (("x", 1.0), ("y", None))
        for s in (0, 1)
        for k in (20, 10, 30)
        if (a, s, k) != ("y", 1, 30)
    ]
    parquet.write_table(pa.Table.from_pylist(rows), tmp_path / "t.parquet")
    runs, _ = load([tmp_path / "t.parquet"], cost_limit=25.0)
    assert [(r.label, r.seed, r.done) for r in runs] == [
        ("x", 0, True),
        ("x", 1, True),
        ("y", 0, True),
        ("y", 1, False),
    ]
    np.testing.assert_array_equal(runs[0].columns["env_steps"], [10, 20, 30])
    np.testing.assert_array_equal(runs[0].columns["cost_regret"], [5, 10, 15])
    assert runs[0].config == {"beta": 1.0} and runs[2].config == {}


def test_the_published_runs_load_whole(published: Path):
    runs, skipped = load([published / "paper_runs.parquet"])
    assert len(runs) == 580 and skipped == () and all(run.done for run in runs)
    assert sum(run.columns["epoch"].size for run in runs) == 290_000
    labels = {run.label for run in runs}
    assert "c-trpo-noise (noise_sigma=0.05)" in labels and "c-trpo" in labels and len(labels) == 18
