# SPDX-License-Identifier: Apache-2.0
"""Differences between runs of the same seeds, final policies and the demo's seeds."""

import json

from kept_runs import ROOT, outcome, write_run  # isort: skip

import paired


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
