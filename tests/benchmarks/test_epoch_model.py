# SPDX-License-Identifier: Apache-2.0
"""The arithmetic of the model of an epoch (benchmarks/epoch_model.py)."""

import importlib.util
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "benchmarks" / "epoch_model.py"


@pytest.fixture(scope="module")
def model():
    spec = importlib.util.spec_from_file_location("epoch_model", SOURCE)
    module = importlib.util.module_from_spec(spec)
    sys.modules["epoch_model"] = module  # dataclasses look themselves up
    spec.loader.exec_module(module)
    yield module
    del sys.modules["epoch_model"]


def test_it_passes_through_both_measurements_and_recovers_its_parts(model):
    fitted = model.fit_epoch(4.5, 2.5, 0.5, 0.25, 0.125)
    assert (fitted.fixed, fitted.shared) == (0.5, 4.0)
    assert (fitted.acting(1), fitted.acting(2), fitted.acting(8)) == (4.5, 2.5, 1.0)
    assert fitted.seconds(4) == 0.5 + 1.0 + 0.5 + 0.25 + 0.125


@pytest.mark.parametrize(
    ("one", "two", "parts"),
    [(4.0, 1.5, (0.0, 4.0)), (2.0, 3.0, (2.0, 0.0)), (2.0, 2.0, (2.0, 0.0))],
)
def test_measurements_that_no_sharing_explains_stay_within_bounds(model, one, two, parts):
    fitted = model.fit_epoch(one, two, 0.0, 0.0)
    assert (fitted.fixed, fitted.shared) == parts


def test_advice_uses_cores_only_while_they_pay(model):
    physics, update = model.fit_epoch(40.0, 20.0, 0.1, 0.1), model.fit_epoch(0.1, 0.05, 5.0, 5.0)
    assert physics.workers(16) == 16 and physics.workers(6) == 6
    assert update.workers(16) == 1  # the control: acting is 1 % of its epoch
    assert physics.workers(1) == 1


def test_environments_are_divided_evenly(model):
    physics = model.fit_epoch(40.0, 20.0, 0.1, 0.1)
    assert physics.advice(16, 10).startswith("--workers 16 --num-envs 16 on 16 cores")
    assert physics.advice(2, 10).startswith("--workers 2 --num-envs 10 on 2 cores")
