# SPDX-License-Identifier: Apache-2.0
"""What a run tells of itself: its columns, predictions, worst case, signal and regret."""

import csv
import itertools
import json

import jax
import numpy as np
import pytest

from holdfast import make_env
from holdfast.runs.folder import create, state_arrays
from holdfast.runs.training import train_in_folder
from holdfast.train import train
from small_runs import same, small


def test_progress_has_the_promised_columns(tmp_path):
    promised = (
        "epoch env_steps ep_return ep_cost ep_length cost_regret kl divergence recovering "
        "steps_per_second time_rollout time_update cost_regret_raw"
    ).split()
    env = make_env("probe/Machines-v0", 4)
    run = small("probe/Machines-v0", epochs=2, limits={"heat": 9.0, "noise": 9.75})
    folder = create(tmp_path / "run", run, env)
    epochs = list(train_in_folder(folder, env))
    with (tmp_path / "run" / "progress.csv").open() as file:
        row = next(csv.DictReader(file))
    for name in [
        *promised,
        "ep_cost/heat",
        "cost_regret/heat",
        "ep_cost/noise",
        "cost_regret/noise",
    ]:
        assert name in row
    last = epochs[-1].metrics
    np.testing.assert_allclose(last["ep_cost"], last["ep_cost/heat"] + last["ep_cost/noise"])
    saved = json.loads((tmp_path / "run" / "run.json").read_text())
    assert saved["limits"] == {"heat": 9.0, "noise": 9.75}
    assert saved["versions"]["jax"] == jax.__version__ and saved["run"]["preset"] is None
    assert float(row["ep_return"]) == epochs[0].metrics["ep_return"]  # to the last bit


@pytest.mark.parametrize("estimate", ["window", "epoch"])
def test_predicted_changes_are_compared_with_the_next_epoch(estimate):
    """`realised` is the change of the estimate in use; `spent_ratio` its slope on `spent`."""
    env = make_env("probe/Machines-v0", 4)
    limits = {"heat": 9.0, "noise": 9.75}
    run = small("probe/Machines-v0", epochs=4, limits=limits, cost_estimate=estimate)
    rows = [epoch.metrics for epoch in train(run, env)]
    cost = "ep_cost" if estimate == "window" else "ep_cost_raw"
    for end in ("", "/heat", "/noise"):
        top = bottom = 0.0
        assert np.isnan(rows[0][f"realised{end}"]) and np.isnan(rows[0][f"spent_ratio{end}"])
        for before, now in itertools.pairwise(rows):
            predicted, realised = before[f"spent{end}"], now[f"realised{end}"]
            assert realised == pytest.approx(now[cost + end] - before[cost + end], abs=1e-12)
            top = 0.95 * top + predicted * realised
            bottom = 0.95 * bottom + predicted**2
            assert now[f"spent_ratio{end}"] == pytest.approx(top / bottom)
    assert rows[0]["spent"] == pytest.approx(rows[0]["spent/heat"] + rows[0]["spent/noise"])
    (plain,) = train(small("probe/Machines-v0", "trpo", epochs=1), make_env("probe/Machines-v0", 4))
    assert "spent" not in plain.metrics and "realised" not in plain.metrics


def test_the_worst_case_is_told_and_changes_nothing():
    """It is above the prediction by what the KL adds, and the learned bits are the same."""
    ends = {}
    for told in (True, False):
        run = small("probe/Speed-v0", epochs=2, worst_case=told, cost_scale="discount")
        rows = list(train(run, make_env("probe/Speed-v0", run.num_envs)))
        ends[told] = state_arrays(rows[-1].state)
        last = rows[-1].metrics
        assert ("worst_case" in last) == told
        if told:
            factor = 100 * 0.99 / 0.01 * last["epsilon_c"]  # κ γ/(1 − γ) ε_c; one action, so no d_a
            added = (2 * last["kl"]) ** 0.5 * factor
            assert last["worst_case"] == pytest.approx(last["spent"] + added, rel=1e-4)
            assert added > 0 and 0 <= last["delta_beta"] <= 0.01 * (1 + 1e-6)
    same(ends[True], ends[False])


def test_the_signal_share_is_told_and_changes_nothing():
    ends = {}
    for told in (True, False):
        run = small("probe/Speed-v0", epochs=2, signal_share=told)
        rows = list(train(run, make_env("probe/Speed-v0", run.num_envs)))
        ends[told] = state_arrays(rows[-1].state)
        names = {"share_reward", "share_cost"} & set(rows[-1].metrics)
        assert len(names) == 2 * told
        assert all(rows[-1].metrics[name] <= 1 for name in names)
    same(ends[True], ends[False])


@pytest.mark.parametrize("first", [True, False])
def test_the_worst_case_is_of_the_advantages_that_made_the_step(first):
    """Without a future (γ_c = 0) nothing is added to the prediction."""
    run = small("probe/Speed-v0", epochs=1, worst_case=True, cost_gamma=0.0, critic_first=first)
    (epoch,) = train(run, make_env("probe/Speed-v0", run.num_envs))
    assert epoch.metrics["spent"] != 0
    assert epoch.metrics["worst_case"] == pytest.approx(epoch.metrics["spent"], rel=1e-4)


@pytest.mark.parametrize("first", [True, False])
def test_the_signal_share_is_of_the_advantages_and_metric_of_the_step(first, monkeypatch):
    from holdfast.train import epoch as one_epoch

    asked = []
    monkeypatch.setattr(
        one_epoch, "_signal_share", lambda *given: asked.append(given) or {"share_cost": 0.5}
    )
    settings = {"signal_share": True, "critic_first": first, "damping": 0.3}
    run = small("probe/Speed-v0", epochs=1, **settings)
    (epoch,) = train(run, make_env("probe/Speed-v0", run.num_envs))
    ((old, batch, region),) = asked
    assert region == run.algorithm.region and region.damping == 0.3
    new = epoch.state.learner.policy
    logs = [policy.log_prob(policy.outputs(batch.obs), batch.action) for policy in (old, new)]
    spent = epoch.metrics["ep_length"] * (batch.weight * np.expm1(logs[1] - logs[0])) @ batch.adv_c
    assert float(spent[0]) == pytest.approx(epoch.metrics["spent"], rel=1e-3)


def test_regret_is_the_sum_of_positive_excesses():
    """C23 on a run: V_c = (30, 20, 27), b = 25 gives 7."""
    from holdfast.records.statistics import cost_regret

    np.testing.assert_allclose(cost_regret(np.array([30.0, 20.0, 27.0]), 25.0), [5.0, 5.0, 7.0])
    run = small("probe/Shortcut-v0", epochs=4, cost_limit=0.4)
    total = smooth = 0.0
    for epoch in train(run, make_env(run.env, run.num_envs)):
        m = epoch.metrics
        total += max(0.0, m["ep_cost_raw"] - 0.4)
        smooth += max(0.0, m["ep_cost"] - 0.4)
        assert m["cost_regret_raw"] == pytest.approx(total)
        assert m["cost_regret"] == pytest.approx(smooth)
    assert total > 0
