# SPDX-License-Identifier: Apache-2.0
"""The table of what the default holds: its numbers by hand, and what it leaves out."""

import importlib.util
import json
import sys
from pathlib import Path

import numpy as np
import pytest

SOURCE = Path(__file__).parents[1] / "benchmarks" / "proof.py"


@pytest.fixture(scope="module")
def proof():
    spec = importlib.util.spec_from_file_location("proof", SOURCE)
    module = importlib.util.module_from_spec(spec)
    sys.modules["proof"] = module
    spec.loader.exec_module(module)
    return module


def write_run(folder: Path, seed: int, regret: float, done: bool = True) -> None:
    cell = folder / f"c-trpo_Task-v0_seed{seed}"
    cell.mkdir(parents=True)
    (cell / "run.json").write_text(json.dumps({"run": {"env": "Task-v0", "seed": seed}}))
    rows = [f"{k},{k * 10 + seed},{regret * k},{2 * regret * k},{20 + seed}" for k in (1, 2)]
    head = "epoch,ep_return,cost_regret,cost_regret_raw,ep_cost_raw"
    (cell / "progress.csv").write_text("\n".join([head, *rows]) + "\n")
    (cell / "checkpoint").write_bytes(b"large")
    if done:
        (cell / "done.json").write_text("{}")
    (folder / "suite.json").write_text("{}")


def test_only_small_files_of_finished_runs_are_kept(proof, tmp_path):
    write_run(tmp_path / "runs", 0, 1.0)
    write_run(tmp_path / "runs", 1, 1.0, done=False)
    kept, left = proof.keep(tmp_path / "runs", tmp_path / "results")
    assert kept == ["c-trpo_Task-v0_seed0"] and left == ["c-trpo_Task-v0_seed1"]
    names = {path.name for path in (tmp_path / "results").rglob("*") if path.is_file()}
    assert names == {"run.json", "progress.csv", "done.json", "suite.json"}


def test_the_table_is_means_over_seeds_at_the_end(proof, tmp_path):
    for seed in range(3):
        write_run(tmp_path, seed, regret=float(seed))
    head, row = proof.table(proof.outcomes(tmp_path), [])
    told = dict(zip(head, row, strict=True))
    assert (told["task"], told["setting"], told["seeds"]) == ("Task-v0", "c-trpo", "3")
    assert told["return"].startswith("21 (") and told["smoothed regret"].startswith("2 (")
    assert told["raw regret"].startswith("4 (") and told["last J"] == "21.0"


def outcome(proof, label, seed, smooth):
    return proof.Outcome("T", label, seed, 0.0, smooth, smooth, 0.0)


@pytest.mark.parametrize(("shift", "apart"), [(100.0, True), (0.0, False)])
def test_the_difference_excludes_zero_only_where_there_is_one(proof, shift, apart):
    noise = np.random.default_rng(0).normal(0, 5, 10)
    ours = [outcome(proof, "c-trpo", k, 100 + noise[k]) for k in range(5)]
    theirs = [outcome(proof, "c-trpo", k, 100 + shift + noise[5 + k]) for k in range(5)]
    rivals = [outcome(proof, name, 0, 1.0) for name in proof.RIVALS[1:]]
    _, row = proof.table(ours, theirs + rivals)
    low, high = map(float, row[-1].split(" (")[1].rstrip(")").split(" .. "))
    assert low < high and (high < 0) == apart
