# SPDX-License-Identifier: Apache-2.0
"""Kept runs: small files of finished ones, and the commands of those that have not run."""

import csv
import json

from holdfast.bench.suite import cells, load_suite
from holdfast.train.epoch import CLOCK_COLUMNS

from kept_runs import ROOT, write_run  # isort: skip

import kept


def test_only_small_files_of_finished_runs_are_kept(tmp_path):
    write_run(tmp_path / "runs", 0, 1.0)
    write_run(tmp_path / "runs", 1, 1.0, done=False)
    (tmp_path / "runs" / "c-trpo_Task-v0_seed0" / "evaluation_greedy.json").write_text("{}")
    found, left = kept.keep([tmp_path / "runs"], tmp_path / "results")
    assert found == ["c-trpo_Task-v0_seed0"] and left == ["c-trpo_Task-v0_seed1"]
    names = {path.name for path in (tmp_path / "results").rglob("*") if path.is_file()}
    small = {"run.json", "progress.csv", "done.json", "evaluation_greedy.json"}
    assert names == small | {"suite.json"}


def test_keeping_adds_to_what_is_kept(tmp_path):
    target = tmp_path / "results"
    for part, seed in (("a", 0), ("b", 1), ("c", 2)):
        write_run(tmp_path / part, seed, 1.0)
    kept.keep([tmp_path / "a"], target)
    kept.keep([tmp_path / "b", tmp_path / "c"], target)
    listed = json.loads((target / "suite.json").read_text())
    assert listed["cells"] == [f"c-trpo_Task-v0_seed{seed}" for seed in range(3)]
    assert listed["command"] == "holdfast bench mine" and len(listed["machines"]) == 1
    assert len(kept.outcomes(target)) == 3


def test_what_has_not_run_is_named_with_its_command(tmp_path):
    """Of a shipped suite every cell counts, whatever part of it was begun."""
    source, target = tmp_path / "runs", tmp_path / "results"
    first = cells(load_suite("ours"))[0].name
    (source / first).mkdir(parents=True)
    for name in kept.RECORDS:
        (source / first / name).write_text("{}")
    (source / "suite.json").write_text(json.dumps({"suite": "ours", "cells": [first]}))
    kept.keep([source], target)
    missing = kept.not_run(target)
    assert sum(map(len, missing.values())) == 39 and len(missing) == 8
    assert "holdfast bench ours --only /SafetyHalfCheetahVelocity-v1" in missing
    assert first not in {cell.name for own in missing.values() for cell in own}
    told = kept.not_run_text(target)
    assert "| HalfCheetahVelocity: c-trpo | 31, 32, 33, 34 | `holdfast bench ours --only" in told
    assert "| PointGoal1: c-trpo | 30, 31, 32, 33, 34 |" in told
    for cell in (cell for own in missing.values() for cell in own):
        (target / cell.name).mkdir()
        (target / cell.name / "done.json").write_text("{}")
    assert kept.not_run(target) == {} and "Nothing" in kept.not_run_text(target)


def test_a_suite_that_has_no_folder_yet_is_all_not_run(tmp_path):
    missing = kept.not_run(tmp_path / "reproduction")
    assert sum(map(len, missing.values())) == 72 and len(missing) == 8
    told = kept.not_run_text(tmp_path / "reproduction")
    assert "| AntVelocity: c-trpo-no-hysteresis, cpo, p3o | 0 |" in told
    assert kept.not_run(tmp_path / "no-suite") == {}


def test_a_suite_of_the_benchmarks_is_named_by_its_file(tmp_path):
    """And what has not run of it is known, as for a shipped one."""
    missing = kept.not_run(tmp_path / "unseen")
    assert sum(map(len, missing.values())) == 18
    command = "holdfast bench evidence/unseen.toml --trust-env --only /SafetyCarGoal2-v0"
    assert len(missing[command]) == 6
    assert kept.command("rivals") == "holdfast bench evidence/rivals.toml"
    assert kept.command("holding") == "holdfast bench holding"


def test_kept_runs_without_landing_are_the_defaults_until_it_lands():
    """Made by code that is many commits apart, to the last digit: kept runs repeat."""
    pairs = sorted((ROOT / "results" / "holding").glob("c-trpo_landing=0_*/progress.csv"))
    assert len(pairs) == 9
    landed = []
    for file in pairs:
        base = file.parent.with_name(file.parent.name.replace("_landing=0", "")) / file.name
        both = [csv.DictReader(path.read_text().splitlines()) for path in (file, base)]
        same = [
            all(a[name] == b[name] for name in a if name not in CLOCK_COLUMNS)
            for a, b in zip(*both, strict=True)
        ]
        assert len(same) == 50 and all(same[:47]), file
        landed.append(not all(same))
    assert sum(landed) >= 6  # the control; the others were in recovery anyway


def test_what_was_run_again_are_runs_of_ours():
    repeated = cells(load_suite(ROOT / "evidence" / "again.toml"))
    kept_runs = {path.name for path in (ROOT / "results" / "ours").iterdir()}
    assert len(repeated) == 15 and {cell.name for cell in repeated} <= kept_runs
