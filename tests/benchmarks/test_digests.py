# SPDX-License-Identifier: Apache-2.0
"""Digests are compared for what they show: a refused run shows nothing."""

import importlib.util
import json
from pathlib import Path

import pytest

from holdfast.run import make_run

SOURCE = Path(__file__).parents[2] / "benchmarks" / "digests.py"
TRAINED = {"ep_return": "00", "(learned)": "11"}
REFUSED = {"refused": "beta='0.5' must be a number."}


@pytest.fixture(scope="module")
def digests():
    spec = importlib.util.spec_from_file_location("digests", SOURCE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def compare(digests, tmp_path, capsys):
    def compared(before, after):
        paths = tmp_path / "before.json", tmp_path / "after.json"
        for path, table in zip(paths, (before, after), strict=True):
            path.write_text(json.dumps(table))
        return digests.compare(*paths), capsys.readouterr().out

    return compared


def test_settings_are_read_as_json_or_text(digests):
    given = ["critic_first=false", "num_envs=4", "beta=0.5", "normalise=running", "cost=a.py:b=c"]
    settings = dict(map(digests.read_setting, given))
    assert settings == {
        "critic_first": False, "num_envs": 4, "beta": 0.5, "normalise": "running",
        "cost": "a.py:b=c",
    }  # fmt: skip
    run = make_run("c-trpo", **settings)
    assert (run.num_envs, run.algorithm.beta, run.algorithm.critic.critic_first) == (4, 0.5, False)


def test_equal_runs_pass(compare):
    code, said = compare({"a": TRAINED}, {"a": TRAINED})
    assert code == 0 and "1 runs compared, 1 equal in every digest" in said


def test_refusals_are_counted_apart(compare):
    table = {"a": TRAINED, "b": REFUSED, "c": REFUSED}
    code, said = compare(table, table)
    assert code == 0 and "1 runs compared, 1 equal in every digest" in said
    assert "2 runs refused before and after" in said and "b: beta='0.5' must be a number." in said


def test_only_refusals_prove_nothing(compare):
    code, said = compare({"a": REFUSED}, {"a": REFUSED})
    assert code == 1 and "0 runs compared, 0 equal" in said


@pytest.mark.parametrize(
    ("before", "after", "side"), [(REFUSED, TRAINED, "before"), (TRAINED, REFUSED, "after")]
)
def test_a_run_refused_on_one_side_differs(compare, before, after, side):
    code, said = compare({"a": TRAINED, "b": before}, {"a": TRAINED, "b": after})
    assert code == 1 and "2 runs compared, 1 equal" in said and f"b: refused only {side}" in said


def test_other_sentences_of_a_refusal_differ(compare):
    code, said = compare({"a": TRAINED, "b": REFUSED}, {"a": TRAINED, "b": {"refused": "x"}})
    assert code == 1 and "1 runs compared, 1 equal" in said and "b: refused" in said
