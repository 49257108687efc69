# SPDX-License-Identifier: Apache-2.0
"""Suites: what they expand to, and that every mistake in one is named with its remedy."""

import json
from pathlib import Path
from typing import Any

import pytest

from holdfast.algorithms import ALGORITHMS
from holdfast.bench.duration import duration, effort, volume
from holdfast.bench.suite import cells, load_suite, parse_suite, shipped, with_options
from holdfast.cli.bench import begun_cells, refuse_other_settings
from holdfast.cli.bench import command as bench
from holdfast.run import to_json

SMALL: dict[str, Any] = {
    "steps": 400,
    "seeds": 2,
    "tasks": ["probe/Speed-v0", "probe/Bandit-v0"],
    "algorithms": ["trpo", {"name": "c-trpo", "sweep": {"beta": [0.2, 1.0]}}],
    "settings": {"epoch_steps": 200, "num_envs": 2, "hidden": [4]},
}


def test_a_suite_expands_into_cells():
    found = cells(parse_suite("mine", SMALL))
    assert len(found) == 3 * 2 * 2
    assert found[0].name == "trpo_probe-Speed-v0_seed0"
    assert found[1].name == "c-trpo_beta=0.2_probe-Speed-v0_seed0"
    assert [cell.run.seed for cell in found] == [0] * 6 + [1] * 6, "the whole grid comes first"
    assert found[1].run.hidden == (4,) and to_json(found[1].run)["algorithm"]["beta"] == 0.2
    assert len({cell.name for cell in found}) == len(found)


def test_cells_can_be_chosen():
    suite = parse_suite("mine", SMALL)
    assert len(cells(suite, ["trpo/"])) == 4
    assert len(cells(suite, ["/speed"])) == 6
    assert len(cells(suite, ["trpo/Bandit", "c-trpo/Speed"])) == 2 + 4
    one = cells(suite, ["c-trpo_beta=0.2/speed"])  # the label that tables show
    assert {cell.label for cell in one} == {"c-trpo_beta=0.2"} and len(one) == 2
    for absent in ("cpo/", "c-trpo_beta=0.3/", "c-trpo_beta/"):
        with pytest.raises(ValueError, match=r"matches --only .*; it has c-trpo_beta=0\.2, .*trpo"):
            cells(suite, [absent])
    with pytest.raises(ValueError, match="write `trpo/` or `/trpo`"):
        cells(suite, ["trpo"])
    assert len(cells(with_options(suite, 1000, (5, 6, 7)))) == 18
    assert cells(with_options(suite, 1000, (5,)))[0].run.steps == 1000


def test_a_preset_of_one_algorithm_is_part_of_its_name():
    """So that the default and a preset of one algorithm stand side by side."""
    both = ["c-trpo", {"name": "c-trpo", "preset": "published"}]
    found = cells(parse_suite("mine", SMALL | {"algorithms": both}))
    names = {cell.name.split("_probe")[0]: cell.run.preset for cell in found}
    assert names == {"c-trpo": None, "c-trpo_preset=published": "published"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sedes": 3}, "unknown key 'sedes' in suite 'mine'; did you mean 'seeds'"),
        ({"name": "other"}, "unknown key 'name'"),
        ({"seeds": 0}, "seeds=0 must be"),
        ({"seeds": [1, 1]}, "distinct seeds"),
        ({"steps": 1.5}, "whole number"),
        ({"tasks": []}, "at least one"),
        ({"tasks": ["probe/Speed-v0"] * 2}, "distinct"),
        ({"tasks": "probe/Speed-v0"}, "must be a list, each a text"),
        ({"steps": 0}, "at least 1"),
        (
            {"algorithms": [{"name": "cpo", "seeds": [7]}]},
            "'cpo' has 7 under seeds, but the suite's seeds lack it; add it there",
        ),
        (
            {"algorithms": [{"name": "cpo", "tasks": ["SafetyAntVelocity-v1"]}]},
            "but the suite's tasks lack it; add it there",
        ),
        ({"seeds": [-1]}, "distinct seeds"),
        ({"settings": 3}, "must be a table"),
        ({"settings": {"gamma": "x"}}, "gamma='x' must be a number"),
        ({"preset": "publishd"}, "must be one of published"),
        ({"algorithms": ["c-trop"]}, "unknown algorithm 'c-trop'; did you mean"),
        ({"algorithms": [{"name": "trpo", "setings": {}}]}, "did you mean 'settings'"),
        ({"algorithms": [{"name": "c-trpo", "settings": {"betta": 1}}]}, "did you mean 'beta'"),
        ({"algorithms": [{"name": "c-trpo", "settings": {"hysteresis": "x"}}]}, "c-trpo"),
        ({"algorithms": [{"name": "c-trpo", "sweep": {"beta": 1.0}}]}, "must be a list"),
        ({"algorithms": [3]}, "must be a name or a table"),
        ({"settings": {"seed": 3}}, "has its own key"),
        ({"settings": {"gama": 0.9}}, "did you mean 'gamma'"),
    ],
)
def test_mistakes_are_named(change: dict[str, Any], message: str):
    with pytest.raises(ValueError, match=message):
        cells(parse_suite("mine", SMALL | change))


def test_files_and_names(tmp_path: Path):
    with pytest.raises(ValueError, match="unknown suite 'papr'; did you mean 'paper'"):
        load_suite("papr")
    with pytest.raises(ValueError, match="no suite file"):
        load_suite(tmp_path / "mine.toml")
    (tmp_path / "mine.toml").write_text("steps = = 3")
    with pytest.raises(ValueError, match="not valid TOML"):
        load_suite(tmp_path / "mine.toml")
    (tmp_path / "mine.toml").write_text('steps = 1e6\ntasks = ["T"]\nalgorithms = ["c-trpo"]')
    suite = load_suite(tmp_path / "mine.toml")
    assert (suite.name, suite.steps, suite.seeds) == ("mine", 1_000_000, (0, 1, 2, 3, 4))


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("paper", 11 * 8 * 5),
        ("ablation", 6 * 8 * 5),
        ("beta-sweep", 25),
        ("hysteresis-sweep", 25),
        ("limit-sweep", 15),
        ("barrier", 15),
        ("noise", 25),
        ("estimate-noise", 25),
        ("quick", 12),
        ("ours", 8 * 5),
        ("ours-long", 4),
        ("holding", 9 * 3 * 3),
        ("reproduction", (3 + 3) * 8 + 8 * 3),
    ],
)
def test_shipped_suites(name: str, count: int):
    assert set(shipped()) == {
        "paper", "ablation", "beta-sweep", "hysteresis-sweep", "limit-sweep", "barrier", "noise",
        "estimate-noise", "quick", "ours", "ours-long", "holding", "reproduction",
    }  # fmt: skip
    suite = load_suite(name)
    assert {entry.name for entry in suite.algorithms} <= set(ALGORITHMS)
    assert len(cells(suite)) == count


def test_sweeps_reach_the_run_and_include_the_undisturbed_one():
    swept = lambda name, setting: {setting(cell.run) for cell in cells(load_suite(name))}
    assert swept("limit-sweep", lambda run: run.cost_limit) == {15.0, 25.0, 50.0}
    assert swept("barrier", lambda run: run.algorithm.barrier) == {
        "entropy",
        "log",
        "reversed-entropy",
    }
    assert swept("noise", lambda run: run.cost_value_noise) == {0.0, 0.05, 0.1, 0.2, 0.5}
    assert swept("noise", lambda run: run.cost_estimate_noise) == {0.0}
    sizes = swept("estimate-noise", lambda run: run.cost_estimate_noise)
    assert sizes == {0.0, 1.0, 2.5, 5.0, 10.0}
    assert swept("estimate-noise", lambda run: run.cost_value_noise) == {0.0}


def test_other_tasks_take_the_place_of_the_suites():
    """Also of those that an algorithm was restricted to, and of their limits."""
    swept = cells(with_options(load_suite("beta-sweep"), 1000, (3,), ("probe/Speed-v0",)))
    assert [cell.run.env for cell in swept] == ["probe/Speed-v0"] * 5
    assert {cell.run.algorithm.beta for cell in swept} == {0.05, 0.2, 1.0, 2.0, 5.0}
    mine = {"steps": 100, "seeds": 2, "tasks": ["A", "B"], "limits": {"A": 3.0, "B": 4.0}}
    mine["algorithms"] = [
        {"name": "cpo", "tasks": ["A"]},
        {"name": "cpo", "tasks": ["B"]},
        {"name": "ppo", "tasks": ["B"], "seeds": [0]},
    ]
    suite = with_options(parse_suite("mine", mine), None, None, ("B", "C"))
    assert suite.limits == {"B": 4.0} and len(suite.algorithms) == 2
    names = [cell.name for cell in cells(suite)]
    assert len(names) == 6 and "ppo_C_seed0" in names and "cpo_C_seed1" in names
    again = cells(with_options(parse_suite("mine", mine), None, (5,)))
    assert [cell.name for cell in again] == ["cpo_A_seed5", "cpo_B_seed5", "ppo_B_seed5"]


def test_a_part_of_a_grid_takes_no_other_part_out_of_the_list(tmp_path: Path):
    grid = cells(parse_suite("mine", SMALL))
    assert begun_cells(tmp_path, grid[:2]) == [cell.name for cell in grid[:2]]
    (tmp_path / "suite.json").write_text(json.dumps({"cells": [grid[1].name, grid[5].name]}))
    assert begun_cells(tmp_path, grid[:2]) == [grid[k].name for k in (1, 5, 0)]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "mine.toml"
    file.write_text(
        'steps = 400\nseeds = 2\ntasks = ["probe/Speed-v0"]\nalgorithms = ["trpo"]\n'
        "[settings]\nepoch_steps = 200\nnum_envs = 2\n"
    )
    return file


def test_as_many_runs_at_a_time_as_there_are_cores_for_them(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    """Those that this process may keep busy, not those of the machine."""
    monkeypatch.setenv("HOLDFAST_CORES", "97")
    for threads, jobs in ((1, 97), (2, 48), (200, 1)):
        bench(str(file), out=file.parent / "out", threads=threads, dry_run=True)
        assert f"{jobs} at a time" in capsys.readouterr().err


def test_a_dry_run_prints_the_cells(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    bench(str(file), out=tmp_path / "out", jobs=2, dry_run=True)
    said = capsys.readouterr()
    assert said.out.split() == ["trpo_probe-Speed-v0_seed0", "trpo_probe-Speed-v0_seed1"]
    assert "2 runs of 400 steps, 0 done, 2 at a time" in said.err and "rough" in said.err
    assert "of a core" in said.err and "kB on disk" in said.err
    assert not (tmp_path / "out").exists()
    bench(str(file), seeds="20,", dry_run=True)  # one seed, not twenty
    assert capsys.readouterr().out.split() == ["trpo_probe-Speed-v0_seed20"]
    bench(str(file), seeds="2", dry_run=True)
    assert len(capsys.readouterr().out.split()) == 2
    for wrong in ({"steps": 0.5}, {"seeds": "a"}, {"seeds": ","}, {"seeds": "1,,2"}):
        with pytest.raises(ValueError, match="must be a"):
            bench(str(file), dry_run=True, **wrong)


@pytest.mark.parametrize(("name", "number"), [("mirror", 18), ("tails", 18)])
def test_suites_of_limits_and_mirror_descent_parse(
    name: str, number: int, capsys: pytest.CaptureFixture[str]
):
    path = Path(__file__).parents[2] / "evidence" / f"{name}.toml"
    bench(str(path), dry_run=True)
    said = capsys.readouterr().out.split()
    assert len(said) == len(set(said)) == number
    kinds = {str(cell.run.limits.get("cost")) for cell in cells(load_suite(str(path)))}
    beyond = {"25 worst 5%", "25 in 90%"}
    assert (beyond <= kinds) == (name == "tails")


def test_a_folder_with_other_settings_is_refused(tmp_path: Path):
    found = cells(parse_suite("mine", SMALL))
    for cell in found:
        (tmp_path / cell.name).mkdir()
        record = json.dumps({"run": to_json(cell.run)})
        (tmp_path / cell.name / "run.json").write_text(record)
    refuse_other_settings(found, tmp_path)
    early = tmp_path / found[0].name / "run.json"  # begun before a setting existed
    record = {"run": {k: v for k, v in to_json(found[0].run).items() if k != "worst_case"}}
    early.write_text(json.dumps(record))
    refuse_other_settings(found, tmp_path)
    longer = cells(with_options(parse_suite("mine", SMALL), 1000, None))
    with pytest.raises(ValueError, match="was begun with steps=400, and steps=1000 is requested"):
        refuse_other_settings(longer, tmp_path)


def test_the_forecast_learns_from_earlier_runs(tmp_path: Path):
    found = cells(parse_suite("mine", SMALL | {"steps": 100_000}))
    folder = tmp_path / found[0].name
    folder.mkdir()
    (folder / "progress.csv").write_text("epoch,env_steps,steps_per_second\n1,200,1000\n")
    mine = [cell for cell in found if cell.run.env == "probe/Speed-v0"]
    known = effort(mine, tmp_path, jobs=2)
    assert known.measured == known.cells == 6
    alone = effort(mine, tmp_path, jobs=1)
    assert alone.seconds == pytest.approx(6 * 15 + 6 * 100 - 0.2)
    assert alone.seconds / 2 <= known.seconds < alone.seconds
    assert "earlier runs" in str(known)


def test_durations_claim_no_more_than_they_know():
    told = {
        45: "45 s", 59.7: "60 s", 100: "1 min", 700: "11 min", 7800: "2 h 10 min",
        7130: "1 h 59 min", 7190: "2 h", 40_000: "11 h", 90_000: "1 day 1 h", 700_000: "8 days 2 h",
        2_000_000: "23 days",
    }  # fmt: skip
    assert {seconds: duration(seconds) for seconds in told} == told
    sizes = {10: "1 kB", 45_000: "45 kB", 1_240_000: "1.2 MB", 31e7: "310 MB", 2.4e9: "2.4 GB"}
    assert {size: volume(size) for size in sizes} == sizes
