# SPDX-License-Identifier: Apache-2.0
"""The reproduction cell by cell: inside the published range, its cause, its picture and ranks."""

import numpy as np
import pytest

from full import repeats

from kept_runs import outcome, write_run  # isort: skip

import cells as reproduction


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
