# SPDX-License-Identifier: Apache-2.0
"""docs/reliability.md: every row of its tables names tests, and every test it names exists."""

import ast
import functools
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reliability.md"
NAME = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def rows(text):
    """The last cell of each row that states a fault."""
    faults = text.partition("## How the readers were fuzzed")[0]
    lines = [line for line in faults.splitlines() if line.startswith("| ")]
    return [line.strip("| ").split(" | ") for line in lines if not line.startswith("| Fault |")]


@functools.cache
def names_in(file):
    if not (ROOT / file).is_file():
        return frozenset()
    body = ast.parse((ROOT / file).read_text()).body
    return frozenset(node.name for node in body if isinstance(node, ast.FunctionDef))


def untested(text):
    """Faults without a test that exists."""
    return [
        cells[0]
        for cells in rows(text)
        if len(cells) != 3
        or not NAME.findall(cells[2])
        or any(test not in names_in(file) for file, test in NAME.findall(cells[2]))
    ]


def test_no_row_is_untested():
    text = PAGE.read_text()
    assert len(rows(text)) > 30 and untested(text) == []


def test_an_untested_row_is_found():
    """The negative control: no test, a test that does not exist, a file that does not."""
    good = "`tests/docs/test_reliability.py::test_no_row_is_untested`"
    wrong = [
        "",
        "by hand",
        "`tests/docs/test_reliability.py::test_nothing`",
        "`tests/no.py::test_no`",
    ]
    table = "\n".join(f"| fault {i} | it ends | {cell} |" for i, cell in enumerate([good, *wrong]))
    assert untested(table) == [f"fault {i}" for i in range(1, 5)]
    assert untested(f"| half | good | {good}, `tests/no.py::test_no` |") == ["half"]
