# SPDX-License-Identifier: Apache-2.0
"""Sizes of updates beside published ones: numbers by hand, and that another algorithm is seen."""

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "evidence"))

import update_sizes

TASK = "Task-v0"


def write_run(folder: Path, label: str, kls: list[float]) -> None:
    cell = folder / f"{label}_{TASK}_seed0"
    cell.mkdir(parents=True)
    (cell / "run.json").write_text(json.dumps({"run": {"env": TASK, "seed": 0}}))
    rows = [f"{k},{k * 400_000},{kl},{10 * kl}" for k, kl in enumerate(kls, 1)]
    (cell / "progress.csv").write_text("\n".join(["epoch,env_steps,kl,passes", *rows]) + "\n")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Published: trpo-lag moves 1 and 3, pcpo 20; rows that do not count move a thousand."""
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    rows = [
        ("trpo-lag", "benchmark", 0, 4e5, 1.0, None),
        ("trpo-lag", "ablation", 1, 4e5, 3.0, 6.0),
    ]
    rows += [("pcpo", "benchmark", 0, 4e5, 20.0, None), ("cup", "benchmark", 0, 4e5, 1.0, 5.0)]
    rows += [("trpo-lag", "noise", 0, 4e5, 1e3, None), ("trpo-lag", "benchmark", 0, 2e6, 1e3, None)]
    names = ("algorithm", "experiment", "seed", "env_steps", "kl", "stop_iter")
    columns = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
    file = tmp_path / "published.parquet"
    parquet.write_table(pyarrow.table({"task": [TASK] * len(rows), **columns}), file)
    return file


def test_medians_are_divided_by_the_mean_of_the_published_seeds(tmp_path: Path, source: Path):
    """Ours moves 4, 2, and 100 beyond a million steps: a median of 3 beside a mean of 2."""
    write_run(tmp_path / "runs", "trpo-lag", [4.0, 2.0, 100.0])
    write_run(tmp_path / "runs", "pcpo", [21.0, 19.0])
    write_run(tmp_path / "runs", "cup", [7.0])
    _, *rows = update_sizes.size_table(tmp_path / "runs", source)
    assert rows == [
        ["cup", "1", "", "", "", "14.00", "14.00 .. 14.00", "1.00 .. 1.00"],
        ["pcpo", "1", "1.00", "1.00 .. 1.00", "1.00 .. 1.00", "", "", ""],
        ["trpo-lag", "1", "1.50", "1.50 .. 1.50", "0.50 .. 1.50",
         "5.00", "5.00 .. 5.00", "1.00 .. 1.00"],
        ["pcpo, by published trpo-lag (control)", "1", "10.00", "10.00 .. 10.00", "0.50 .. 1.50",
         "33.33", "33.33 .. 33.33", "1.00 .. 1.00"],
    ]  # fmt: skip


def test_kept_runs_fit_and_the_control_does_not(published: Path):
    """Trust-region methods: the mean of each within 3 % of the published; PCPO, whose published
    seeds scatter more, among them. The control's runs lie outside the published ones."""
    results = Path(__file__).parents[2] / "results" / "reproduction"
    ours = update_sizes.kept_sizes(results, "kl")
    theirs = update_sizes.published_sizes(published / "paper_runs.parquet", "kl")
    mean = lambda values: sum(values) / len(values)
    for label in ("c-trpo", "c-trpo-no-hysteresis", "cpo", "trpo-lag"):
        assert mean(update_sizes.ratios(ours, theirs, label)[0]) == pytest.approx(1, abs=0.03)
    fitting, known = update_sizes.ratios(ours, theirs, "pcpo")
    assert min(known) < min(fitting) and max(fitting) < max(known)
    control, known = update_sizes.ratios(ours, theirs, *update_sizes.CONTROL)
    assert min(control) < min(known) / 2 and max(control) > 1.2 * max(known)
