# SPDX-License-Identifier: Apache-2.0
"""The model of docs/scale.md, by hand."""

import importlib.util
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "benchmarks" / "scale.py"


@pytest.fixture(scope="module")
def scale():
    spec = importlib.util.spec_from_file_location("scale", SOURCE)
    module = importlib.util.module_from_spec(spec)
    sys.modules["scale"] = module
    spec.loader.exec_module(module)
    return module


def test_a_grid_takes_whole_rounds_or_what_the_driver_takes_in(scale):
    assert scale.grid_seconds(5.0, 2.0, 10, 7, 3) == 3 * (5 + 10 * 2)
    assert scale.grid_seconds(5.0, 2.0, 10, 7, 7) == 25
    assert scale.grid_seconds(5.0, 2.0, 10, 7, 700) == 25  # more cores than runs idle
    assert scale.grid_seconds(5.0, 2.0, 10, 7, 7, driver=0.1) == 25
    assert scale.grid_seconds(5.0, 2.0, 10, 7, 7, driver=1.0) == 70


def test_an_epoch_is_acting_shared_and_the_rest_alone(scale):
    assert scale.run_seconds(8.0, 1.0, 4, 0.5, cores=4) == 2 + 0.5 + 1
    assert scale.run_seconds(8.0, 1.0, 4, 0.5, cores=2) == 4 + 0.5 + 1  # two workers to a core


def test_the_tables_are_printed_from_what_is_given(scale, capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["scale.py", "model", "--cells", "80", "--cores", "8"])
    scale.main()
    said = capsys.readouterr().out
    assert "A grid of 80 runs" in said and said.count("| 1000 |") == 2
