# SPDX-License-Identifier: Apache-2.0
"""docs/paper.md is what the code says, and two clicks from the README."""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "evidence"))

import paper_page  # noqa: E402


def test_the_page_is_current() -> None:
    text = paper_page.PAGE.read_text()
    shown = paper_page.on_page(text)
    assert set(shown) == set(paper_page.EVERYWHERE | paper_page.WITH_MANY_OPTIMA)
    assert paper_page.filled(text, shown) == text, "run python evidence/paper_page.py"
    stale = text.replace("Theorem 4.4", "Theorem 9")
    assert paper_page.filled(stale, shown) == text  # a stale one is not


def test_a_claim_that_fails_is_shown_as_one() -> None:
    shown = paper_page.on_page(paper_page.PAGE.read_text())
    rows = paper_page.claims({**shown, "Φ_K induces D_K": 0.1})
    assert {row[0] for row in rows[1:] if row[4] != "holds"} == {"Φ_K induces D_K"}
    assert all(row[5] for row in rows)  # each has its control


def test_every_erratum_has_its_test_and_every_test_its_erratum() -> None:
    source = (ROOT / "tests" / "paper" / "test_errata.py").read_text()
    tests = set(re.findall(r"^def (test_\w+)", source, re.M))
    named = {name for *_, names in paper_page.ERRATA for name in names.split(", ")}
    assert named == tests


def test_tests_and_names_of_the_page_exist() -> None:
    text = paper_page.PAGE.read_text()
    for path in re.findall(r"`(tests/[\w/.]+)`", text):
        assert (ROOT / path).exists(), path
    from holdfast.paper import geometry_claims

    for name in re.findall(r"geometry_claims\.(\w+)", text):
        assert hasattr(geometry_claims, name)


def test_commands_of_the_page_exist() -> None:
    """Suites and figures that it names; flags are looked up by test_site."""
    from holdfast.bench.suite import shipped
    from holdfast.paper.figures import FIGURES

    text = paper_page.PAGE.read_text()
    suites = set(re.findall(r"holdfast bench ([\w-]+)", text))
    assert suites <= set(shipped()) and len(suites) == 7
    assert set(re.findall(r"holdfast figures ([a-z-]+)", text)) == set(FIGURES)


def test_two_clicks_from_the_readme() -> None:
    assert "](docs/paper.md)" in (ROOT / "README.md").read_text()
    index = (ROOT / "docs" / "index.md").read_text()
    assert "](paper.md)" in index and "\npaper\n" in index and "\nstudies\n" in index
