# SPDX-License-Identifier: Apache-2.0
"""Every example runs, in small, and prints what it is there to show."""

import re
import runpy
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
CALLS = {
    "first_policy": (["--steps", "8000", "--episodes", "100"], r"return -?\d.*safe: .*\n.*action"),
    "own_environment": (["--steps", "5000"], r"\[\]\n(.|\n)*return -?\d.*safe: "),
    "several_limits": (
        ["--steps", "4000", "--tank", str(ROOT / "docs/examples/tank.py:Tank")],
        r"spill: \d.* of 2 .*\ndry: \d.* of 1 ",
    ),
    "compare_and_plot": (
        ["--steps", "4000", "--seeds", "1"],
        r"c-trpo(.|\n)*trpo-lag(.|\n)*wrote compare\.png",
    ),
    "deploy_onnx": (["--steps", "4000"], r"speed after 20 steps: -?\d"),
}
"""Name → arguments of a short run, and what it prints. The one file has tests of its own."""


@pytest.mark.parametrize("name", CALLS)
def test_examples_run(name, tmp_path, monkeypatch, capsys):
    arguments, printed = CALLS[name]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [f"{name}.py", *arguments])
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    assert re.search(printed, capsys.readouterr().out)


def test_all_examples_are_here_and_fit_a_screen():
    files = {file.stem: file.read_text() for file in EXAMPLES.glob("*.py")}
    assert set(files) == set(CALLS) | {"ctrpo_in_one_file"}
    for name, text in files.items():
        assert text.startswith("# SPDX-License-Identifier: Apache-2.0\n")
        assert len(text.splitlines()) <= (300 if name == "ctrpo_in_one_file" else 60)
    listed = (EXAMPLES / "README.md").read_text()
    assert all(f"({name}.py)" in listed for name in files)
