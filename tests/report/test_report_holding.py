# SPDX-License-Identifier: Apache-2.0
"""How limits were held, in the report: known series, the worst seed, runs that log less."""

import csv
import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sample_runs import TASKS, write_runs

from holdfast.judge.evaluate import Evaluation
from holdfast.records.evaluations import read_evaluation
from holdfast.records.find import load
from holdfast.records.log import RunLog, complete
from holdfast.report import report
from holdfast.report.html import payload
from holdfast.report.summary import summarise
from holdfast.runs import checkpoint
from holdfast.runs.folder import save_evaluation

STEPS = np.arange(1, 9) * 1000.0


def run(seed: int, costs: list[float], label: str = "a", **columns: object) -> RunLog:
    arrays = {name: np.asarray(column, float) for name, column in columns.items()}
    made = RunLog(
        algorithm=label,
        task="T",
        seed=seed,
        limits={"cost": 20.0},
        columns={"env_steps": STEPS, "ep_return": np.arange(8.0) + seed}
        | {"ep_cost": np.array(costs)}
        | arrays,
        config={},
        done=True,
        budget=8000,
        source="holdfast",
        path="",
        label=label,
    )
    return complete(made)


FIRST = run(0, [30, 30, 10, 10, 25, 10, 10, 10])
SECOND = run(1, [10, 10, 10, 10, 10, 10, 10, 40])


def test_the_numbers_are_those_of_the_series():
    found = summarise([FIRST, SECOND], resamples=100).limit_measures["a", "T"]
    assert found.excursions == 1.5  # two and one
    assert found.length == pytest.approx(4 / 3) and found.area == pytest.approx(45 / 3)
    assert found.rate == pytest.approx(4 / 16)
    assert found.distance == pytest.approx((np.mean([135, 110]) / 8 - 20) / 20)
    assert found.distance_violating == pytest.approx(np.mean([30, 30, 25, 40]) / 20 - 1)
    assert found.first_safe == 3000 and math.isnan(found.safe_for_good)
    assert (found.worst_return, found.worst_cost, found.worst_regret) == (7.0, 40.0, 25.0)
    assert math.isnan(found.realised)  # neither has logged a prediction


def test_a_seed_without_violation_says_nothing_of_how_far_others_went():
    kept = run(2, [10] * 8)
    found = summarise([SECOND, kept], resamples=100).limit_measures["a", "T"]
    assert found.distance_violating == pytest.approx(1.0)
    assert math.isnan(summarise([kept], resamples=100).limit_measures["a", "T"].distance_violating)


def test_one_seed_that_ends_safe_has_a_time_to_safety():
    found = summarise([FIRST], resamples=100).limit_measures["a", "T"]
    assert found.safe_for_good == 6000 and found.growth == pytest.approx(math.log2(25 / 20))


def test_predictions_are_compared_with_what_came_of_them():
    spent = np.array([1.0, -2.0, 1.0, 2.0, -1.0, 1.0, 0.5, 9.0])
    realised = np.concatenate([[np.nan], 0.25 * spent[:-1]])
    found = summarise([run(0, [10.0] * 8, spent=spent, realised=realised)], resamples=100)
    assert found.limit_measures["a", "T"].realised == pytest.approx(0.25)
    points = found.predicted_vs_realised["a", "T"]
    assert points == [(p, 0.25 * p) for p in spent[:-1]]
    shown = payload(found, "report")["predicted_vs_realised"]
    assert shown == {"0,0": [list(point) for point in points]}
    early = summarise([found.runs[0]], steps=3000, resamples=100)
    assert len(early.predicted_vs_realised["a", "T"]) == 2
    assert not summarise([FIRST], resamples=100).predicted_vs_realised


def test_raw_costs_are_used_only_if_all_runs_have_them():
    raw = {"ep_cost_raw": [30.0] * 8, "cost_regret_raw": 10.0 * np.arange(1, 9)}
    own = run(0, [10.0] * 8, **raw)
    assert summarise([own], resamples=100).limit_measures["a", "T"].rate == 1.0
    beside = summarise([own, run(0, [10.0] * 8, "published")], resamples=100)
    assert (
        beside.limit_measures["a", "T"].rate == 0.0
        and beside.limit_measures["published", "T"].rate == 0.0
    )


def test_only_what_lies_before_the_horizon_counts():
    found = summarise([SECOND], steps=7000, resamples=100).limit_measures["a", "T"]
    assert found.rate == 0.0 and found.worst_cost == 10.0


def test_it_is_on_the_page_and_in_a_table(tmp_path: Path):
    root = write_runs(tmp_path / "runs", seeds=2)
    page = report([root], tmp_path / "out", figures=False).read_text()
    assert "Holding the limit while learning" in page and "function holding()" in page
    with open(tmp_path / "out" / "tables" / "holding.csv", newline="") as file:
        rows = {(row["algorithm"], row["task"]): row for row in csv.DictReader(file)}
    worst, safe = rows["ppo", TASKS[0]], rows["c-trpo", TASKS[0]]
    assert float(worst["rate"]) > float(safe["rate"])
    assert float(worst["worst_cost"]) > 75 and float(safe["worst_cost"]) < 25
    runs, _ = load([root])
    held = payload(summarise(runs, resamples=100), "report")["held"]
    assert len(held) == len(rows) and held["0,0"]["realised"] is None


def test_tail_and_chance_stand_beside_the_mean_where_a_limit_is_on_them(tmp_path: Path):
    rising = np.linspace(1.0, 8.0, 8)
    tails = [
        replace(
            run(s, [10.0] * 8, tail=rising + s, epoch=STEPS / 1000), path=str(tmp_path / str(s))
        )
        for s in (0, 2)
    ]
    kept(tmp_path / "0", "sampled", 8, 0.25, worst_5=62.0, limit=20.0)
    found = summarise(tails, resamples=100).limit_measures["a", "T"]
    assert (found.mean, found.tail) == (10.0, 9.0) and math.isnan(found.chance)
    assert found.sampled_tail == 62.0 and found.sampled_rate == 0.25
    assert summarise(tails, steps=3000, resamples=100).limit_measures["a", "T"].tail == 4.0
    chances = summarise([run(0, [10.0] * 8, chance=rising / 100)], resamples=100)
    assert chances.limit_measures["a", "T"].chance == 0.08 and math.isnan(
        chances.limit_measures["a", "T"].tail
    )
    two = {f"{n}/{c}": rising * k for n in ("tail", "ep_cost") for c, k in (("x", 1), ("y", 2))}
    both = replace(run(0, [10.0] * 8, **two), limits={"x": 10.0, "y": 40.0})
    assert summarise([both], resamples=100).limit_measures["a", "T"].tail == pytest.approx(0.8)
    plain = replace(FIRST, path=str(tmp_path / "0"))  # the control: its limit is on the mean
    said = payload(summarise([plain], resamples=100), "report")["held"]["0,0"]
    assert [said[k] for k in ("mean", "tail", "chance", "sampled_tail")] == [None] * 4


def kept(folder: Path, name: str, epoch: int, rate: float, **also: float) -> None:
    cost = {"a": {"distance": -0.2, "distance_violating": 0.0}}
    cost["b"] = {"distance": rate - 0.5, "distance_violating": 2 * rate} | also
    folder.mkdir(exist_ok=True)
    record = {"epoch": epoch, "violation_rate": {"estimate": rate}, "cost": cost}
    (folder / f"evaluation_{name}.json").write_text(json.dumps(record))


def test_final_policies_are_those_of_the_compared_epoch(tmp_path: Path):
    epochs = np.arange(1, 9)
    runs = [
        replace(run(seed, [10.0] * 8, epoch=epochs), path=str(tmp_path / str(seed)))
        for seed in (0, 1, 2)
    ]
    kept(tmp_path / "0", "sampled", 8, 0.25)
    kept(tmp_path / "1", "sampled", 8, 0.75)
    kept(tmp_path / "2", "sampled", 5, 1.0)  # of an earlier policy: not this one's
    found = summarise(runs, resamples=100).limit_measures["a", "T"]
    assert found.sampled_rate == 0.5 and found.sampled_violating == pytest.approx(1.25)
    assert found.sampled_distance == pytest.approx((-0.2 + 0.25) / 2)  # the worst constraint's
    assert math.isnan(found.greedy_rate)


def test_an_evaluation_is_kept_and_found(tmp_path: Path):
    rng = np.random.default_rng(0)
    result = Evaluation(
        returns=rng.normal(size=30),
        costs=rng.uniform(10, 40, (30, 1)),
        lengths=np.full(30, 100),
        limits={"cost": 20.0},
        deterministic=True,
    )
    checkpoint.save(tmp_path, 3, {"x": np.zeros(1)}, 1)
    save_evaluation(tmp_path, result)
    assert read_evaluation(tmp_path, "greedy", 2) is None
    assert read_evaluation(tmp_path, "sampled", 3) is None
    found = read_evaluation(tmp_path, "greedy", 3)
    assert found is not None
    above = result.costs[result.costs > 20]
    assert found["cost"]["cost"]["distance_violating"] == pytest.approx(above.mean() / 20 - 1)
    assert found["cost"]["cost"]["distance"] == pytest.approx(result.costs.mean() / 20 - 1)


def limited(by: str | float, means: list[float], **columns: object) -> list[RunLog]:
    """Three seeds whose limit is of this kind."""
    runs = [run(s, means, **columns) for s in range(3)]
    return [replace(each, config={"limits.cost": by}) for each in runs]


@pytest.mark.parametrize(
    ("by", "column", "within", "beyond"),
    [("20 worst 5%", "tail", 18.0, 24.0), ("20 in 90%", "chance", 0.06, 0.2)],
)
def test_safe_is_by_the_kind_of_the_limit(by: str, column: str, within: float, beyond: float):
    """A mean below the limit is no safety where the limit is on a tail, nor the other way."""
    low, high = [10.0] * 8, [21.0] * 8
    above = summarise(limited(by, low, **{column: [beyond] * 8}), resamples=100)
    assert above.unsafe == ("a",) and not above.safe and not above.bold
    assert above.limit_measures["a", "T"].rate == 1.0 and above.finals["a", "T"].cost[0] == 10.0
    below = summarise(limited(by, low, **{column: [within] * 8}), resamples=100)
    assert (
        below.safe == ("a",)
        and below.bold == {("a", "T")}
        and below.limit_measures["a", "T"].rate == 0
    )
    # The controls: a limit on the mean, whatever else was logged, and a run without the column.
    for alone in (limited(20.0, low, **{column: [beyond] * 8}), limited(by, low)):
        assert summarise(alone, resamples=100).safe == ("a",)
    assert summarise(limited(20.0, high), resamples=100).unsafe == ("a",)


def test_of_several_limits_the_worst_speaks_by_its_own_kind():
    costs = {f"ep_cost/{name}": [5.0] * 8 for name in ("x", "y")}
    kinds = {"limits.x": 10.0, "limits.y": "10 in 90%"}
    for chance, safe in ((0.05, ("a",)), (0.2, ())):
        runs = [run(s, [10.0] * 8, **costs, **{"chance/y": [chance] * 8}) for s in range(3)]
        both = [replace(r, limits={"x": 10.0, "y": 10.0}, config=kinds) for r in runs]
        found = summarise(both, resamples=100)
        assert found.safe == safe
        assert found.finals["a", "T"].excess == pytest.approx(max(chance / 0.1, 0.5) - 1)
