# SPDX-License-Identifier: Apache-2.0
"""The demo over seeds: what counts as a crossing, and that a second call goes on, not over."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "evidence"))

import demo_seeds
from holdfast.cli.demo import demo_run
from holdfast.run import make_run

ROW = demo_seeds.Row(0, "yes", 17.2, 24.1, 120, 1500.0, True, 2, 26.5, 1.9, 0.0)


def test_a_crossing_is_an_epoch_above_the_limit():
    assert demo_seeds.crossings([10.0, 25.0, 24.0], 25.0) == (False, 0, 25.0)
    assert demo_seeds.crossings([10.0, 26.0, 30.0], 25.0) == (True, 2, 30.0)


def test_every_seed_is_the_demos_run():
    assert demo_run() == replace(demo_run(7), seed=0)


def test_finished_seeds_are_not_trained_again(tmp_path, monkeypatch, capsys):
    asked = []
    monkeypatch.setattr(demo_seeds, "use_compilation_cache", lambda: None)
    monkeypatch.setattr(demo_seeds, "trained", lambda folder, run: asked.append(run.seed))
    monkeypatch.setattr(demo_seeds, "judged", lambda folder, run: replace(ROW, seed=run.seed))
    for seeds in (2, 3):
        monkeypatch.setattr(sys, "argv", ["x", "--seeds", str(seeds), "--out", str(tmp_path)])
        demo_seeds.main()
    assert asked == [0, 1, 2]
    assert sorted(demo_seeds.read(tmp_path / demo_seeds.TABLE)) == [0, 1, 2]
    assert "3 seeds: yes 3, undecided 0, no 0; above the limit at some epoch: 3" in (
        capsys.readouterr().out
    )


def test_a_seed_is_trained_judged_and_not_mixed_with_another_setting(tmp_path):
    run = make_run("c-trpo", env="probe/Speed-v0", steps=400, epoch_steps=200, num_envs=2)
    demo_seeds.trained(tmp_path / "a", run)
    demo_seeds.trained(tmp_path / "a", run)  # finished: nothing is done again
    row = demo_seeds.judged(tmp_path / "a", run)  # by the limit that the task declares
    assert row.seed == 0 and row.verdict in ("yes", "no", "undecided") and row.episodes >= 20
    with pytest.raises(ValueError, match="other settings"):
        demo_seeds.trained(tmp_path / "a", replace(run, seed=1))
