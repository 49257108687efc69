# SPDX-License-Identifier: Apache-2.0
"""The constrained quantity: its estimate, the estimate's error, and the regret made of it."""

import io
import json

import numpy as np
import pytest
from rich.console import Console

from holdfast import make_env
from holdfast.bars.training_bar import Bar
from holdfast.core.episodes import Episodes
from holdfast.runs.folder import create
from holdfast.runs.plot import plot_run
from holdfast.runs.training import train_in_folder
from holdfast.train import train
from holdfast.train.epoch import cost_estimate, excess
from small_runs import small


def test_smoothing_moves_a_regret_either_way():
    """Epoch costs 30, 20, 20, 20 at b = 25, 20 episodes each: 5.0 raw, 6.8 smoothed."""
    run, limits = small(cost_limit=25.0), np.array([25.0])
    done = np.ones((20, 1), np.bool_)
    for costs, raw, smoothed in (((30, 20, 20, 20), 5.0, 6.81), ((20, 20, 26, 20), 1.0, 0.0)):
        episodes, regret = Episodes.create(1, 1), np.zeros((2, 1))
        for cost in costs:
            each = np.full((20, 1, 1), float(cost))
            episodes = episodes.advance(each[..., 0], each, done, 0.99)
            regret = regret + excess(run, episodes, limits)
        assert regret[:, 0] == pytest.approx([smoothed, raw], abs=0.01)


def test_error_and_length_belong_to_the_estimate_in_use():
    rng, episodes = np.random.default_rng(0), Episodes.create(5, 1)
    for epoch in range(3):
        cost, done = rng.random((6, 5, 1)), np.zeros((6, 5), np.bool_)
        done[-1] = done[2, :epoch] = True
        episodes = episodes.advance(cost[..., 0], cost, done, 0.99)
    found = {
        name: cost_estimate(small(cost_estimate=name), episodes) for name in ("window", "epoch")
    }
    for name, mean, error in (
        ("window", episodes.smooth, episodes.smooth_error),
        ("epoch", episodes.raw, episodes.raw_error),
    ):
        assert found[name] == (mean[[2]], error[[2]], mean[1])
    assert all(a != b for a, b in zip(found["window"], found["epoch"], strict=True))


def test_the_raw_regret_is_the_headline(tmp_path):
    """Bar and done.json show it; a run in which the two differ tells them apart."""
    env = make_env("probe/Shortcut-v0", 4)
    run = small("probe/Shortcut-v0", epochs=3, cost_limit=0.4)
    folder = create(tmp_path / "run", run, env)
    last = list(train_in_folder(folder, env))[-1].metrics
    raw, smoothed = last["cost_regret_raw"], last["cost_regret"]
    assert f"{raw:.1f}" != f"{smoothed:.1f}"
    done = json.loads((tmp_path / "run" / "done.json").read_text())
    assert (done["cost_regret_raw"], done["cost_regret"]) == (raw, smoothed)
    out = io.StringIO()
    bar = Bar(run.steps, folder.spaces.limits, "run", console=Console(file=out))
    bar.write(run.steps, last)
    assert f"regret {raw:.1f} " in out.getvalue()
    assert plot_run(folder, tmp_path / "run.svg").stat().st_size > 0


def test_every_constraint_has_its_raw_columns():
    run = small("probe/Machines-v0", epochs=2, limits={"heat": 2.0, "noise": 3.0})
    *_, last = loop(run)
    for name in ("ep_cost_raw", "cost_regret_raw"):
        each = [last[f"{name}/{constraint}"] for constraint in ("heat", "noise")]
        assert last[name] == pytest.approx(sum(each)) and min(each) > 0


def loop(run):
    return [epoch.metrics for epoch in train(run, make_env(run.env, run.num_envs))]
