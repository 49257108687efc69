# SPDX-License-Identifier: Apache-2.0
"""Statistics against hand-computed arrays, exact enumeration, and the paper's printed tables."""

import csv
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import trim_mean

from holdfast.records import statistics as stats


def test_iqm_cuts_a_quarter_at_each_end():
    assert stats.iqm([9.0, 1.0, 2.0, 3.0, -50.0]) == pytest.approx(2.0)
    assert stats.iqm(np.arange(40.0)) == pytest.approx(19.5)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=50))
def test_iqm_is_the_trimmed_mean(values: list[float]):
    assert stats.iqm(values) == pytest.approx(trim_mean(values, 0.25), rel=1e-9, abs=1e-6)


def test_cost_regret_of_one_and_of_several_constraints():
    np.testing.assert_array_equal(stats.cost_regret([30.0, 20.0, 27.0], 25.0), [5.0, 5.0, 7.0])
    costs = np.array([[30.0, 1.0], [20.0, 4.0], [27.0, 2.0]])
    np.testing.assert_array_equal(stats.cost_regret(costs, [25.0, 2.0]), [5.0, 7.0, 9.0])
    batch = np.stack([costs, costs])
    assert stats.cost_regret(batch, [25.0, 2.0]).shape == (2, 3)
    with pytest.raises(ValueError, match="do not fit"):
        stats.cost_regret(costs, [25.0, 2.0, 1.0])


def test_excess_cost_lets_the_worst_constraint_speak():
    assert stats.excess_cost(20.0, 25.0) == pytest.approx(-0.2)
    np.testing.assert_allclose(stats.excess_cost([[20.0, 3.0], [0.0, 0.0]], [25.0, 2.0]), [0.5, -1])
    assert stats.excess_cost(3.0, 0.0) == 3.0
    with pytest.raises(ValueError, match="negative"):
        stats.excess_cost(1.0, -1.0)


def test_optimality_gap_ignores_what_exceeds_the_target():
    assert stats.optimality_gap([0.0, 0.5, 3.0]) == pytest.approx(0.5)
    assert stats.optimality_gap([1.0, 3.0], target=2.0) == pytest.approx(0.5)


def test_metrics_reduce_the_last_axis_only():
    scores = np.random.default_rng(0).normal(size=(7, 12))
    for metric in (stats.iqm, stats.mean, stats.median, stats.optimality_gap):
        each = [metric(row) for row in scores]
        np.testing.assert_allclose(metric(scores), each, err_msg=metric.__name__)


def test_normalise_refuses_a_useless_baseline():
    np.testing.assert_allclose(stats.normalise([2.0, 4.0], 4.0), [0.5, 1.0])
    for baseline in (0.0, float("nan")):
        with pytest.raises(ValueError, match="baseline"):
            stats.normalise([1.0], baseline)


def test_small_bootstrap_is_the_exact_enumeration():
    values = np.array([3.0, 1.0, 4.0, 1.5, 9.0])
    every = [trim_mean(np.array(draw), 0.25) for draw in product(values, repeat=5)]
    low, high = np.percentile(every, [2.5, 97.5])
    for seed in (0, 1):
        estimate = stats.bootstrap([values], seed=seed)
        assert (estimate.value, estimate.low, estimate.high) == pytest.approx(
            (trim_mean(values, 0.25), low, high)
        )


def test_bootstrap_keeps_the_strata_apart():
    # Constant tasks: resampling within a task cannot change anything, pooling them would.
    estimate = stats.bootstrap([np.zeros(8), np.ones(8)], stats.mean, resamples=500)
    assert (estimate.value, estimate.low, estimate.high) == (0.5, 0.5, 0.5)


def test_bootstrap_is_seeded_and_blocks_do_not_change_the_law(monkeypatch: pytest.MonkeyPatch):
    scores = np.random.default_rng(3).normal(size=(8, 5))
    first = stats.bootstrap(scores, resamples=5_000, seed=7)
    assert first == stats.bootstrap(scores, resamples=5_000, seed=7)
    assert first != stats.bootstrap(scores, resamples=5_000, seed=8)
    monkeypatch.setattr(stats, "CHUNK", 4_000)  # 100 resamples per block
    assert stats.bootstrap(scores, resamples=5_000, seed=7) == first


def test_bootstrap_allows_different_numbers_of_seeds():
    estimate = stats.bootstrap([[1.0, 2.0, 3.0], [5.0]], stats.mean, resamples=50)
    assert estimate.value == pytest.approx(11 / 4)
    assert estimate.low < estimate.value < estimate.high


@pytest.mark.parametrize("bad", [[], [[]], [[1.0, float("nan")]], [[1.0], [float("inf")]]])
def test_bootstrap_refuses_missing_and_diverged_runs(bad: list[list[float]]):
    with pytest.raises(ValueError, match="leave out"):
        stats.bootstrap(bad)


def test_bootstrap_interval_covers_the_truth():
    rng = np.random.default_rng(11)
    inside = 0
    for _ in range(200):
        estimate = stats.bootstrap(rng.normal(size=(4, 25)), stats.mean, resamples=400)
        inside += estimate.low <= 0.0 <= estimate.high
    assert 180 <= inside <= 199  # 95 % nominal; 3 standard deviations are 9


def test_probability_of_improvement_by_hand():
    won = stats.probability_of_improvement([[2.0, 2.0]], [[1.0, 2.0]])
    assert won.value == pytest.approx(0.75)  # a win and a tie, twice
    assert won.low <= won.value <= won.high
    swapped = stats.probability_of_improvement([[1.0, 2.0]], [[2.0, 2.0]])
    assert swapped.value == pytest.approx(0.25)
    sure = stats.probability_of_improvement([[2.0, 3.0], [9.0]], [[1.0], [0.0, 8.0]])
    assert (sure.value, sure.low, sure.high) == pytest.approx((1.0, 1.0, 1.0))
    with pytest.raises(ValueError, match="common tasks"):
        stats.probability_of_improvement([[1.0]], [[1.0], [2.0]])


def test_performance_profile_by_hand():
    profile = stats.performance_profile([[0.0, 1.0], [2.0, 3.0]], [-1.0, 0.0, 1.5, 3.0])
    np.testing.assert_allclose(profile.share, [1.0, 0.75, 0.5, 0.0])
    assert np.all(profile.low <= profile.share) and np.all(profile.share <= profile.high)
    np.testing.assert_allclose([profile.low[2], profile.high[2]], 0.5)  # split between the tasks


def test_group_by_safety_asks_both_ends_and_two_seeds():
    """Never unsafe below the limit, never anything from one seed."""
    excess = {
        "bold": stats.Estimate(-0.01, -0.1, 0.05),
        "calm": stats.Estimate(-0.3, -0.4, -0.2),
        "edge": stats.Estimate(-0.1, -0.2, 0.0),
        "wild": stats.Estimate(2.0, 1.0, 3.0),
    }
    many, one = dict.fromkeys(excess, 3), dict.fromkeys(excess, 1)
    assert stats.group_by_safety(excess, many) == (["calm", "edge"], ["bold"], ["wild"])
    assert stats.group_by_safety(excess, one) == ([], ["calm", "edge", "bold", "wild"], [])
    excess["near"] = stats.Estimate(0.1, -0.05, 0.2)
    grouped = stats.group_by_safety(excess, {**many, "near": 3, "wild": 1})
    assert grouped == (["calm", "edge"], ["bold", "near", "wild"], [])


# --- the published tables ---------------------------------------------------------------------

Finals = dict[tuple[str, str, str], np.ndarray]


@pytest.fixture(scope="module")
def finals(published: Path) -> Finals:
    """Final (return, cost, regret) of each seed: (experiment, algorithm, task) -> [seeds, 3]."""
    from pyarrow import parquet

    keys = ["experiment", "algorithm", "task", "env_steps", "ep_return", "ep_cost"]
    table = parquet.read_table(published / "paper_runs.parquet", columns=keys)
    column = {name: table[name].to_numpy() for name in keys}
    assert np.all(column["env_steps"].reshape(-1, 500)[:, -1] == 10_000_000)
    costs = column["ep_cost"].reshape(-1, 500)
    regret = stats.cost_regret(costs, 25.0)[:, -1]
    last = np.stack([column["ep_return"].reshape(-1, 500)[:, -1], costs[:, -1], regret], axis=1)
    names = [tuple(column[k].reshape(-1, 500)[:, 0]) for k in keys[:3]]
    found: dict[tuple[str, str, str], list[np.ndarray]] = {}
    for run, row in zip(zip(*names, strict=True), last, strict=True):
        found.setdefault(run, []).append(row)
    return {run: np.array(rows) for run, rows in found.items()}


def read(path: Path) -> list[dict[str, str]]:
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def test_the_papers_240_cells_and_intervals(published: Path, finals: Finals):
    rows = read(published / "paper_table.csv")
    assert len(rows) == 240
    column = {"reward": 0, "cost": 1, "cost_regret": 2, "regret": 2}
    for row in rows:
        source = row["source_algorithm"]
        experiment = "ablation" if source.startswith("c-trpo") else "benchmark"
        scores = finals[experiment, source, row["task"]][:, column[row["metric"]]]
        estimate = stats.bootstrap([scores])
        printed = round(estimate.value, 1)
        offsets = round(estimate.low - printed, 1), round(estimate.high - printed, 1)
        cell = (source, row["task"], row["metric"])
        assert printed == float(row["value"]), cell
        assert offsets == (float(row["ci_low_offset"]), float(row["ci_high_offset"])), cell


def test_the_papers_aggregates(published: Path, finals: Finals):
    tasks = [row["task"] for row in read(published / "paper_normalisers.csv")]
    rows = read(published / "paper_iqm.csv")
    assert len(rows) > 30
    for row in rows:
        centred = row["normalisation"] == "ep_cost/25 - 1"
        strata = []
        for task in tasks:
            own = finals[row["source_experiment"], row["algorithm"], task]
            cpo = finals["benchmark", "cpo", task][:, 2]
            if row["metric"] == "final_cost":
                strata.append(stats.excess_cost(own[:, 1], 25.0) + (0.0 if centred else 1.0))
            elif row["metric"] == "reward":
                ppo = finals["benchmark", "ppo", task][:, 0]
                strata.append(stats.normalise(own[:, 0], float(ppo.mean())))
            else:
                average = stats.iqm if row["figure"] == "benchmark" else stats.mean
                strata.append(stats.normalise(own[:, 2], float(average(cpo))))
        estimate = stats.bootstrap(strata)
        name = (row["figure"], row["algorithm"], row["metric"])
        assert estimate.value == pytest.approx(float(row["iqm"]), abs=2e-6, rel=2e-6), name
        width = float(row["ci_high"]) - float(row["ci_low"])
        # Two independent sets of 50 000 resamples differ by about 1 % of the interval's width.
        assert estimate.low == pytest.approx(float(row["ci_low"]), abs=0.03 * width), name
        assert estimate.high == pytest.approx(float(row["ci_high"]), abs=0.03 * width), name
