# SPDX-License-Identifier: Apache-2.0
"""progress.csv: what is written is what is read, row by row, as columns and from its end."""

import math

import numpy as np
import pytest

from holdfast.records.rows import read_progress, read_rows, tail
from holdfast.runs.progress import ProgressFile, write_rows

ROWS = [
    {"epoch": 1, "env_steps": 200, "ep_cost/left, then right": 0.1, "kl": 1e-300},
    {"epoch": 2, "env_steps": 400, "ep_cost/left, then right": -1 / 3, "kl": math.inf},
    {"epoch": 3, "env_steps": 600, "ep_cost/left, then right": 5.0, "kl": 2.0**60 + 512},
]


def test_all_readers_agree_with_both_writers_to_the_last_bit(tmp_path):
    file, other = tmp_path / "progress.csv", tmp_path / "other.csv"
    sink = ProgressFile(file)
    for row in ROWS:
        sink.write(0, row)
    write_rows(other, ROWS)
    assert file.read_bytes() == other.read_bytes()
    assert read_rows(file) == ROWS
    assert [type(v) for v in read_rows(file)[0].values()] == [int, int, float, float]
    assert tail(file) == ROWS[-1]
    columns = read_progress(file)
    for name in ROWS[0]:
        np.testing.assert_array_equal(columns[name], [row[name] for row in ROWS])


@pytest.mark.parametrize("cut", [1, 3, 9])
def test_a_line_cut_short_is_not_a_row(tmp_path, cut):
    file = tmp_path / "progress.csv"
    write_rows(file, ROWS)
    file.write_bytes(file.read_bytes()[:-cut])
    assert read_rows(file) == ROWS[:2] and tail(file) == ROWS[1]
    assert read_progress(file)["epoch"].tolist() == [1, 2]
    ProgressFile(file, epoch=1).write(0, ROWS[1])
    write_rows(tmp_path / "whole.csv", ROWS[:2])
    assert file.read_bytes() == (tmp_path / "whole.csv").read_bytes()
