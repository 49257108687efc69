# SPDX-License-Identifier: Apache-2.0
"""What kept runs show: tables by hand, and pages that contain what results/ do."""

import csv
import re
from collections import defaultdict

import numpy as np
import pytest

from kept_runs import ROOT, outcome, write_run  # isort: skip

import cells as reproduction
import kept
import picture
import proof
import update_sizes


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


def test_only_what_stands_between_the_marks_is_replaced(tmp_path):
    file = tmp_path / "page.md"
    other = "<!-- begin z -->\nleft alone\n<!-- end z -->\n"
    file.write_text("a\n<!-- begin x -->\nold\n<!-- end x -->\nb\n" + other)
    proof.put(file, {"x": "new\n"})
    assert file.read_text() == "a\n<!-- begin x -->\nnew\n<!-- end x -->\nb\n" + other
    with pytest.raises(ValueError, match="no marks for y"):
        proof.put(file, {"y": ""})


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
