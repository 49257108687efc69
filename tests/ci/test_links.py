# SPDX-License-Identifier: Apache-2.0
"""README's links on a package index; .ci/wheel.sh checks the built packages."""

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HOME = "https://code.example/holdfast"


@pytest.fixture(scope="module")
def absolute():
    return runpy.run_path(str(ROOT / ".ci" / "links.py"))["absolute"]


def test_every_link_of_the_readme_leads_to_a_file_of_the_tag(absolute):
    found = re.findall(r"\]\(([^)]+)\)", absolute((ROOT / "README.md").read_text(), HOME, "1.2.3"))
    assert found and all(link.startswith(("https://", "http://")) for link in found)
    ours = [link for link in found if link.startswith(HOME)]
    assert len(ours) > 10
    for link in ours:
        kind, path = re.fullmatch(rf"{HOME}/(blob|raw)/v1\.2\.3/([^#]+)(?:#.*)?", link).groups()
        assert (ROOT / path).exists()
        assert (kind == "raw") == (Path(path).suffix in (".png", ".webp", ".gif", ".svg"))


def test_other_links_stay_as_they_are(absolute):
    text = "[a](https://a.example) [b](#part) [c](mailto:c@example.org) f(x) [d]: e"
    assert absolute(text, HOME, "1") == text
    assert absolute("[![p](p.png)](q.md#r)", f"{HOME}/", "1") == (
        f"[![p]({HOME}/raw/v1/p.png)]({HOME}/blob/v1/q.md#r)"
    )
