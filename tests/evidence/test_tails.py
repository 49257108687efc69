# SPDX-License-Identifier: Apache-2.0
"""The table of kinds of limits: numbers by hand."""

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "evidence"))

import tails


def write_run(folder: Path, name: str, seed: int, limit: object, column: str, *values: float):
    """A run whose progress has one column, and whose policy returns 10 + seed."""
    cell = folder / f"{name}_Task-v0_seed{seed}"
    cell.mkdir(parents=True)
    limits = None if limit is None else {"cost": limit}
    (cell / "run.json").write_text(
        json.dumps({"run": {"env": "Task-v0", "seed": seed, "limits": limits}})
    )
    rows = [f"{value},{k}" for k, value in enumerate(values)]
    (cell / "progress.csv").write_text("\n".join([f"{column},cost_regret_raw", *rows]) + "\n")
    found = {
        "return": {"mean": 10.0 + seed - 2 * (limit is not None)},
        "cost": {"cost": {"mean": 5.0, "worst_5": 30.0}},
        "violation_rate": {"estimate": 0.1},
    }
    (cell / "evaluation_sampled.json").write_text(json.dumps(found))


def test_each_limit_is_a_row_beside_the_mean(tmp_path):
    for seed in (0, 1):
        write_run(tmp_path, "a", seed, None, "ep_cost_raw", 20, 26, 30, 10)
        write_run(tmp_path, "b", seed, "25 worst 5%", "tail", 24, 25, 25.1, 3)
        write_run(tmp_path, "c", seed, "25 in 90%", "chance", 0.1, 0.2, 0.3, 0.4)
    head, mean, chance, tail = tails.table(tmp_path)
    assert head[:3] == ["task", "limit", "seeds"]
    assert mean == ["Task", "`25`", "0, 1", "10.5", "5", "30", "3", "10.0 %", "50.0 %", ""]
    assert chance[1:4] == ["`25 in 90%`", "0, 1", "8.5"] and chance[8] == "75.0 %"
    assert tail[8] == "25.0 %" and tail[9] == "-2 (-2 .. -2)"


def test_the_limited_quantity_is_the_kinds_own():
    """The control: the mean's column does not serve a tail."""
    rows = [{"ep_cost_raw": 30.0, "tail": 20.0}]
    assert tails.share_above(rows, "25") == 1.0
    assert tails.share_above(rows, "25 worst 5%") == 0.0
    with pytest.raises(KeyError):
        tails.share_above(rows, "25 in 95%")
