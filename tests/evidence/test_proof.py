# SPDX-License-Identifier: Apache-2.0
"""What kept runs show: numbers by hand, what is left out, and pages that say what results/ do."""

import csv
import json
import re
import sys
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

from full import repeats
from holdfast.bench.suite import cells, load_suite
from holdfast.train.epoch import CLOCK_COLUMNS

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "evidence"))

import cells as reproduction  # noqa: E402
import kept  # noqa: E402
import paired  # noqa: E402
import picture  # noqa: E402
import proof  # noqa: E402
import update_sizes  # noqa: E402


def write_run(
    folder: Path, seed: int, regret: float, done=True, label="c-trpo", task="Task-v0"
) -> None:
    """Two epochs, each with a raw cost of 20 + seed."""
    cell = folder / f"{label}_{task}_seed{seed}"
    cell.mkdir(parents=True)
    (cell / "run.json").write_text(json.dumps({"run": {"env": task, "seed": seed}}))
    rows = [
        f"{k},{k * 500_000},{k * 10 + seed},{20 * k},{regret * k},{2 * regret * k},{20 + seed}"
        for k in (1, 2)
    ]
    head = "epoch,env_steps,ep_return,ep_cost,cost_regret,cost_regret_raw,ep_cost_raw"
    (cell / "progress.csv").write_text("\n".join([head, *rows]) + "\n")
    (cell / "checkpoint").write_bytes(b"large")
    if done:
        (cell / "done.json").write_text("{}")
    (folder / "suite.json").write_text(json.dumps({"suite": "mine", "cells": [cell.name]}))


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


def test_rivals_stand_beside_the_default_on_their_own_tasks_and_seeds(tmp_path):
    for seed in (0, 1):
        write_run(tmp_path / "again", seed, 1.0)
    assert proof.rivals(tmp_path) == []
    write_run(tmp_path / "rivals", 1, 2.0, label="cspo")
    found = {(run.label, run.seed) for run in proof.rivals(tmp_path)}
    assert found == {("cspo", 1), ("c-trpo", 1)}


def test_the_table_is_means_over_seeds(tmp_path):
    for seed in range(3):
        write_run(tmp_path, seed, regret=float(seed))
    head, row = proof.table(kept.outcomes(tmp_path), [])
    told = dict(zip(head, row, strict=True))
    assert (told["task"], told["seeds"]) == ("Task", "3") and told[""] == "**c-trpo**, ours"
    assert told["return"].startswith("21 (") and told["regret"].startswith("2 (")
    assert told["raw regret"].startswith("4 (") and told["cost, last 15 epochs"] == "21.0"
    assert told["cost"].startswith("40 (")
    (_, half) = proof.table(kept.outcomes(tmp_path, 500_000), [])
    assert half[3].startswith("11 (") and half[5].startswith("1 (")
    assert len(proof.table(kept.outcomes(tmp_path, 2_000_000), [])) == 1  # nobody got there


def outcome(label, seed, smooth, task="T", reward=0.0, cost=0.0):
    return kept.Outcome(task, label, seed, reward, cost, smooth, smooth, 0.0)


def test_a_single_run_has_no_interval(tmp_path):
    for seed in range(2):
        write_run(tmp_path / "theirs", seed, 100.0)
    write_run(tmp_path / "ours", 0, 5.0)
    ours, theirs = (kept.outcomes(tmp_path / name) for name in ("ours", "theirs"))
    _, first, rival = proof.table(ours, theirs)  # and no difference either
    assert first[3:7] == ["20", "40", "10", "20"] and ".." in rival[3]


@pytest.mark.parametrize(("shift", "apart"), [(100.0, True), (0.0, False)])
def test_the_difference_excludes_zero_only_where_there_is_one(shift, apart):
    noise = np.random.default_rng(0).normal(0, 5, 10)
    ours = [outcome("c-trpo", k, 100 + noise[k]) for k in range(5)]
    theirs = [outcome("c-trpo", k, 100 + shift + noise[5 + k]) for k in range(5)]
    rivals = [outcome(name, 0, 1.0) for name in proof.RIVALS[1:]]
    *_, row = proof.table(ours, theirs + rivals)
    low, high = map(float, row[5].split(" (")[1].rstrip(")").split(" .. "))
    assert low < high and (high < 0) == apart


def test_aggregates_are_stratified_and_in_the_units_of_the_ends():
    """Tasks of very different size count alike: PPO's return and CPO's regret are units."""
    sizes = {"A": 1000.0, "B": 1.0}
    make = lambda label, share: [
        outcome(label, seed, share * size, task, share * size, 25 * share)
        for task, size in sizes.items()
        for seed in range(3)
    ]
    theirs = [run for name in proof.RIVALS for run in make(name, 0.5)]
    _, ours, *rest = proof.aggregate(make("c-trpo", 0.25), theirs, make("ppo", 1) + make("cpo", 2))
    assert [value.split()[0] for value in ours[1:]] == ["-0.750", "0.250", "0.125"]
    assert rest[0][1:3] == ["-0.500 (-0.500 .. -0.500)", "0.500 (0.500 .. 0.500)"]
    assert rest[0][3] == "0.250 (0.250 .. 0.250)"


def cell_rows(tmp_path, high, causes=None, seeds=(0, 1)):
    """Ours: 10 and 20 plus the seed; published ones reach from 0 to `high`, costs to 100."""
    for seed in seeds:
        write_run(tmp_path, seed, 0.0)
    theirs = [outcome("c-trpo", k, 0.0, "Task-v0", k * high / 4, 25.0 * k) for k in range(5)]
    at = {500_000: theirs, 1_000_000: theirs}
    found = reproduction.compared(tmp_path, at)
    return reproduction.cell_table(found, causes or {}), reproduction.inside_table(found)


def test_a_cell_is_inside_where_all_its_numbers_are(tmp_path):
    (head, *rows), (_, *counts) = cell_rows(tmp_path, high=20.5)
    told = [dict(zip(head, row, strict=True)) for row in rows]
    assert [row["seed"] for row in told] == ["0", "1"]
    assert [row["inside"] for row in told] == ["yes", "3 of 4"]
    assert [row["cause"] for row in told] == ["", "scatter"]  # the other seed is inside
    assert told[0]["return at 1M"] == "20 (0 .. 20.5)"
    assert told[1]["return at 1M"] == "**21 (0 .. 20.5)**"
    assert (
        told[1]["return at 0.5M"] == "11 (0 .. 20.5)" and told[1]["cost at 1M"] == "40 (0 .. 100)"
    )
    assert counts == [[name, "1", "2", "1", "8", "7", "88%"] for name in ("c-trpo", "**all**")]


def test_an_outside_cell_has_its_cause_or_the_honest_reason(tmp_path):
    ((head, one), _) = cell_rows(tmp_path / "alone", 15.0, seeds=(0,))
    assert dict(zip(head, one, strict=True))["cause"] == "one seed"
    file = tmp_path / "causes.txt"
    file.write_text("# looked into\nc-trpo_Task-v0_seed0: it fell: twice\n\n")
    ((head, one), _) = cell_rows(
        tmp_path / "known", 15.0, reproduction.read_causes(file), seeds=(0,)
    )
    assert dict(zip(head, one, strict=True))["cause"] == "it fell: twice"
    assert reproduction.read_causes(tmp_path / "none.txt") == {}
    ((head, *both), _) = cell_rows(tmp_path / "apart", 9.0)  # all of ours are above
    assert [dict(zip(head, row, strict=True))["cause"] for row in both] == ["not known"] * 2


def test_the_picture_of_the_cells_places_runs_in_the_published_range(tmp_path):
    known = [10.0, 12.0, 20.0]
    assert [reproduction.place(x, known) for x in (10, 15, 20, 5, 40)] == [0, 0.5, 1, -0.5, 3]
    assert reproduction.place(0.0, [0.0, 0.0]) == 0.5  # PPO's cost while nothing costs anything
    assert reproduction.place(0.1, [0.0, 0.0]) == np.inf
    assert reproduction.place(-0.1, [0.0, 0.0]) == -np.inf
    cells = [
        reproduction.Compared(task, label, (0, 1), {"return": ([5.0, 90.0], known)})
        for task, label in (("A-v0", "cpo"), ("A-v0", "ppo"), ("B-v0", "cpo"))
    ]
    file = reproduction.draw_cells(cells, tmp_path / "cells.png")
    assert file.read_bytes()[:4] == b"\x89PNG"


@pytest.mark.repeats
def test_ranks_tell_further_seeds_from_another_algorithm():
    """By hand for one cell; then 40 cells of equal and of shifted seeds, on every scale."""
    assert reproduction.shift([([9.0], [1.0, 2, 3, 4, 5])]).rank == 1
    assert reproduction.shift([([0.0, 0.5], [1.0, 2, 3, 4, 5])]).rank == 0
    middle = reproduction.shift([([3.0], [1.0, 2, 3, 4, 5])])
    assert middle.rank == pytest.approx(0.5) and middle.p == 1
    alone = reproduction.shift([([9.0], [1.0, 2, 3, 4, 5])])
    assert alone.p == pytest.approx(1 / 3, abs=0.02)  # the highest or the lowest of six
    rng = np.random.default_rng(1)
    draw = lambda off: [
        (scale * rng.normal(off, 1, 2), scale * rng.normal(0, 1, 5))
        for scale in 10.0 ** np.arange(-2, 2, 0.1)
    ]
    same, higher, lower = (reproduction.shift(draw(off)) for off in (0.0, 0.8, -0.8))
    assert 0.4 < same.rank < 0.6 and same.p > 0.05
    assert higher.rank > 0.6 and higher.p < 0.01 and lower.rank < 0.4 and lower.p < 0.01
    ps = [reproduction.shift(draw(0.0)).p for _ in range(repeats(20, 60))]
    assert 0.3 < np.mean(ps) < 0.7 and np.mean(np.array(ps) < 0.1) < 0.25  # no more than it says


def test_final_policies_are_shown_seed_by_seed(tmp_path):
    for seed, cost, verdict in ((1, 30.0, "no"), (0, 8.0, "yes")):
        write_run(tmp_path, seed, 1.0)
        said = {"cost": {"cost": {"mean": cost}}, "safe_at_95": "undecided"}
        file = tmp_path / f"c-trpo_Task-v0_seed{seed}" / "evaluation_sampled.json"
        file.write_text(json.dumps(said | {"safe_if_tail_as_seen": verdict}))
    write_run(tmp_path, 2, 1.0)  # not judged
    (_, row) = paired.finals(tmp_path)
    told = ["Task", "0, 1", "8.0, 30.0", "yes, no", "undecided, undecided"]
    assert row == [*told, "–"]
    file.with_name("evaluation_greedy.json").write_text(json.dumps({"cost": {"c": {"mean": 5.0}}}))
    (_, row) = paired.finals(tmp_path)
    assert row == [*told, "5.0, –"]


def test_only_what_stands_between_the_marks_is_replaced(tmp_path):
    file = tmp_path / "page.md"
    other = "<!-- begin z -->\nleft alone\n<!-- end z -->\n"
    file.write_text("a\n<!-- begin x -->\nold\n<!-- end x -->\nb\n" + other)
    proof.put(file, {"x": "new\n"})
    assert file.read_text() == "a\n<!-- begin x -->\nnew\n<!-- end x -->\nb\n" + other
    with pytest.raises(ValueError, match="no marks for y"):
        proof.put(file, {"y": ""})


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


def part(page, name):
    return next(m[0] for m in proof.MARKS.finditer((ROOT / page).read_text()) if m[2] == name)


def test_the_pages_say_what_results_hold():
    """`python evidence/proof.py write` mends this."""
    pages = proof.evidence_texts(ROOT / "results")
    assert len(pages) == 5
    for page, parts in pages.items():
        for mark, told in parts.items():
            assert told in part(page, mark), (page, mark)
    ours = kept.outcomes(ROOT / "results" / "ours", proof.STEPS)
    assert proof.short_table(ours[1:]) != proof.short_table(ours)  # it would be seen


def test_the_pages_say_where_the_limit_is_not_held():
    """Shares of epochs above it, by their own episodes."""
    above = defaultdict(list)
    for run in kept.outcomes(ROOT / "results" / "ours", proof.STEPS):
        file = ROOT / "results" / "ours" / f"c-trpo_{run.task}_seed{run.seed}" / "progress.csv"
        rows = csv.DictReader(file.read_text().splitlines())
        above[proof.short(run.task)] += [float(row["ep_cost_raw"]) > proof.LIMIT for row in rows]
    share = {task: round(100 * np.mean(epochs)) for task, epochs in above.items()}
    ends = lambda own: f"{min(own)} to {max(own)} %"
    walking = [value for task, value in share.items() if "Velocity" in task]
    driving = [value for task, value in share.items() if "Velocity" not in task]
    said = "on locomotion {} of the epochs are above the limit, on navigation {}"
    page = lambda name: " ".join((ROOT / name).read_text().split())
    for name in ("README.md", "docs/choosing.md"):
        assert said.format(ends(walking), ends(driving)) in page(name)
    assert len(share) == 8
    for task, value in share.items():
        assert re.search(
            rf"\b{value} %( are above it)? on {task.removesuffix('Velocity')}\b",
            page("docs/holding.md"),
        )


def test_aggregates_that_pages_name_are_those_of_the_table():
    rows = part("docs/holding.md", "aggregate").splitlines()
    told = {row.split("|")[1].strip(): row.split("|")[2:5] for row in rows if " .. " in row}
    cost, reward, regret = (cell.strip() for cell in told["**ours**"])
    first = lambda cell: cell.split()[0]
    page = lambda name: (ROOT / name).read_text()
    choosing, own = page("docs/choosing.md"), page("docs/algorithms/c-trpo.md")
    assert f"{regret} over the eight tasks at a return of {first(reward)};" in choosing
    _, theirs, least = (cell.strip() for cell in told["p3o, published"])
    assert f"published P3O's is {least} at {first(theirs)} " in choosing
    assert f"{-100 * float(first(cost)):.0f} % below it over the eight tasks" in choosing
    assert (
        f"{first(reward)}, published CPO's {first(told['cpo, published'][1].strip())}" in choosing
    )
    _, theirs, more = map(first, told["c-trpo, published"])
    assert f"it is {more} there, and {first(regret)} with the default" in own
    assert f"at a return of {theirs} and {first(reward)} " in own


def test_tables_beside_published_runs_are_those_of_results(published):
    """`python evidence/proof.py write --published paper_runs.parquet` mends this."""
    source = published / "paper_runs.parquet"
    ours = kept.outcomes(ROOT / "results" / "ours", proof.STEPS)
    theirs = kept.published(source, proof.STEPS)
    again = kept.outcomes(ROOT / "results" / "reproduction", proof.STEPS)
    assert proof.markdown(proof.table(ours, theirs, again)) in part("docs/holding.md", "ours")
    cells_made = reproduction.cells_table(ROOT / "results", reproduction.half_and_whole(source))
    assert cells_made in part("docs/reproduction.md", "cells")
    sizes = update_sizes.size_table(ROOT / "results" / "reproduction", source)
    assert proof.markdown(sizes) in part("docs/reproduction.md", "updates")
    groups = proof.grouped(theirs)
    for task, known in picture.PUBLISHED.items():
        for name, (reward, regret) in known.items():
            runs = groups[task, name]
            assert np.mean(proof.column(runs, "reward")) == pytest.approx(reward, rel=5e-4)
            assert np.mean(proof.column(runs, "smooth")) == pytest.approx(regret, rel=5e-4)


def test_differences_are_of_the_same_seeds():
    """The base varies by 100 between seeds, the other is 5 lower on each: that is seen."""
    base = [outcome("c-trpo", seed, 100.0 * seed) for seed in range(3)]
    other = [outcome("c-trpo_x=1", seed, 100.0 * seed - 5) for seed in range(3)]
    head, first, row = paired.beside([*other, *base], "c-trpo")
    assert first[1:3] == ["**c-trpo**", "0, 1, 2"] and first[6:] == ["", ""]
    assert dict(zip(head, row, strict=True))["raw − base"] == "-5 (-5 .. -5)"
    *_, row = paired.beside([*base[:2], *other[1:]], "c-trpo")  # one seed in common
    assert row[2] == "1, 2" and row[-1] == "-5"
    *_, row = paired.beside([base[0], other[1]], "c-trpo")
    assert row[-2:] == ["", ""]


def test_what_was_run_again_are_runs_of_ours():
    repeated = cells(load_suite(ROOT / "evidence" / "again.toml"))
    kept_runs = {path.name for path in (ROOT / "results" / "ours").iterdir()}
    assert len(repeated) == 15 and {cell.name for cell in repeated} <= kept_runs


def test_the_time_of_the_noise_is_drawn_for_each_task(tmp_path):
    """From runs that log it; a folder without any leaves no picture."""
    assert picture.draw_noise(tmp_path, tmp_path / "noise.png") is None
    for seed, time in ((0, 10.0), (1, 0.0)):
        write_run(tmp_path, seed, 1.0, task="SafetyPointGoal1-v0")
        file = tmp_path / f"c-trpo_SafetyPointGoal1-v0_seed{seed}" / "progress.csv"
        lines = file.read_text().splitlines()
        lines = [lines[0] + ",noise_time", *(f"{line},{time}" for line in lines[1:])]
        file.write_text("\n".join(lines) + "\n")
    times = picture.noise_times(tmp_path)
    assert {task: [list(own) for _, own in runs] for task, runs in times.items()} == {
        "SafetyPointGoal1-v0": [[10.0, 10.0], [0.0, 0.0]]
    }
    assert picture.draw_noise(tmp_path, tmp_path / "noise.png").stat().st_size > 5_000


def test_the_default_is_shown_beside_the_earlier_one(tmp_path):
    """A task that has not run is left out; shares above the limit are counted by epochs."""
    task = "SafetyPointGoal1-v0"
    for name, seed in (("slow", 6), ("ours", 4)):
        write_run(tmp_path / name, seed, 1.0, task=task)
    _, new, old, theirs = proof.unseen_seeds(tmp_path)
    assert new[:3] == ["PointGoal1", "**default**", "1"] and new[6] == "100 %"
    assert old[:3] == ["", "white noise", "1"] and old[6] == "0 %"
    assert theirs[3:5] == ["6.37", "483"]
    write_run(tmp_path / "ours", 0, 1.0, task="SafetyCarButton1-v0")
    assert len(proof.unseen_seeds(tmp_path)) == 4


def test_a_command_given_again_is_compared_on_what_it_ran_again():
    """A task and a seed that were not run again are left out; a shift of all seeds is seen."""
    first = [outcome("c-trpo", seed, 100.0 * seed, task) for task in "ab" for seed in range(4)]
    second = [outcome("c-trpo", seed, 100.0 * seed + 7, "a") for seed in range(3)]
    _, once, again = paired.again(first, second)
    assert once[:3] == ["a", "**first**", "0, 1, 2"] and again[1:3] == ["again", "0, 1, 2"]
    assert again[-1] == "+7 (+7 .. +7)"


def test_a_demo_that_fails_is_told(tmp_path):
    names = "seed,verdict,cost,proved_high,episodes,earned,crossed,epochs_above,worst_epoch"
    rows = ["0,yes,7,24.5,212,959.7,False,0,20.1", "1,no,40,60,20,900,True,3,55.5"]
    file = tmp_path / "demo.csv"
    file.write_text("\n".join([names, *rows]) + "\n")
    said, (_, *told) = paired.demo(file)
    assert said.startswith('"Yes" in 1 of 2. In 1 no epoch') and "55.5 (seed 1)" in said
    assert told[1] == ["1", "no", "900", "40", "60", "20", "55.5"]


def test_the_demo_keeps_its_word():
    """Twenty seeds, at least nineteen of them proved safe."""
    _, (_, *rows) = paired.demo(ROOT / "results" / "demo_seeds.csv")
    assert [row[0] for row in rows] == [str(seed) for seed in range(20)]
    assert sum(row[1] == "yes" for row in rows) >= 19


def test_the_picture_has_a_column_for_each_task_that_has_runs(tmp_path):
    tasks = list(picture.PUBLISHED)[:2]
    runs = [outcome("c-trpo", seed, 1.0 + seed, task, 10.0) for task in tasks for seed in (0, 1)]
    file = picture.draw(runs, tmp_path / "one.png")
    assert file.read_bytes()[:4] == b"\x89PNG"
    axis = Axis()
    picture.bars(axis, [1.0, 3.0], {"cpo": 7.0})
    assert (
        axis.heights == [2.0, 7.0]
        and axis.dots == [1.0, 3.0]
        and axis.words == {"2": (0, 3.0), "7": (1, 7.0)}
    )


class Axis:
    """Notes what is drawn."""

    def __init__(self):
        self.words = {}

    def bar(self, _, heights, **__):
        self.heights = heights

    def annotate(self, word, place, **__):
        self.words[word] = place

    def plot(self, _, values, *__, **___):
        self.dots = values

    def __getattr__(self, _):
        return lambda *_, **__: None
