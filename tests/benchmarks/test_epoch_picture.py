# SPDX-License-Identifier: Apache-2.0
"""The lanes of the picture of an epoch (benchmarks/epoch_picture.py)."""

import importlib.util
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "benchmarks" / "epoch_picture.py"


@pytest.fixture(scope="module")
def picture():
    spec = importlib.util.spec_from_file_location("epoch_picture", SOURCE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


PARTS = {"acting": (4.0, 8.0), "estimate": (1.0, 1.0), "critics": (2.0, 3.0), "step": (2.0, 1.5)}


def test_parts_follow_each_other_and_fill_the_lanes_with_processor_time(picture):
    first, second = ([b[1:] for b in picture.bars(PARTS) if b[0] == lane] for lane in (0, 1))
    assert [name for *_, name in first] == list(picture.ORDER)
    assert [begin for begin, *_ in first] == [0.0, 4.0, 5.0, 7.0, 8.0]
    assert [width for _, width, _ in first] == [4.0, 1.0, 2.0, 1.0, 1.5]  # the step waited
    assert [width for _, width, _ in second] == [4.0, 0.0, 1.0, 0.0, 0.0]


def test_the_share_of_two_cores(picture):
    assert picture.whole(PARTS) == 10.0
    assert picture.busy(PARTS) == (9.5 + 5.0) / 20.0
    both = {name: (wall, 2 * wall) for name, (wall, _) in PARTS.items()}
    assert picture.busy(both) == 1.0  # the control: nothing is idle


def test_it_is_drawn(picture, tmp_path):
    rows = {"before": PARTS, "after": PARTS}
    (file,) = picture.draw(rows, tmp_path / "epoch.svg")
    assert file.read_text().startswith("<?xml")
