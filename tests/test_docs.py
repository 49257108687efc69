# SPDX-License-Identifier: Apache-2.0
"""Every Python block in the documentation runs, every link to a file leads somewhere."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    page
    for pattern in ("*.md", "docs/**/*.md", "benchmarks/*.md")
    for page in ROOT.glob(pattern)
    if "generated" not in page.parts
)
BLOCK = re.compile(r"^```python\n(.*?)^```", re.S | re.M)
LINK = re.compile(r"\]\((?!https?:|#)([^)#\s]+)")
WITH_CODE = [page for page in PAGES if BLOCK.search(page.read_text())]


@pytest.mark.parametrize("page", WITH_CODE, ids=lambda p: str(p.relative_to(ROOT)))
def test_code_blocks_run(page, tmp_path):
    """In order, in one fresh interpreter, as a reader would type them."""
    script = tmp_path / "page.py"
    script.write_text("\n\n".join(BLOCK.findall(page.read_text())))
    done = subprocess.run(
        [sys.executable, str(script)],
        cwd=tmp_path,
        env=os.environ | {"MPLBACKEND": "agg"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]


FENCE = re.compile(r"^ *```([^`\n]+)$", re.M)
RUN = {"python", "toml", "json", "sh"}
"""Blocks that a test runs or reads; test_site.py asks whether commands and flags of `sh` exist."""
PEERS = {"OmniSafe", "Safety-Gymnasium", "Stable-Baselines3"}


def unchecked(text):
    """Headings of code blocks that no test looks at, but for those of other libraries."""
    foreign = {f'python title="{peer}"' for peer in PEERS}
    shown = lambda kind: kind == "text" or kind.startswith("{")
    return [kind for kind in FENCE.findall(text) if kind not in RUN | foreign and not shown(kind)]


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_no_block_escapes(page):
    """A block of another spelling, or inside a list, would be shown and never run."""
    text = page.read_text()
    assert not unchecked(text)
    assert len(re.findall(r"^ *```python$", text, re.M)) == len(BLOCK.findall(text))


def test_an_escaping_block_would_be_found():
    assert unchecked('```py\nno\n```\n```python title="Holdfast"\n```') == [
        "py",
        'python title="Holdfast"',
    ]


def test_data_blocks_are_what_they_say(tmp_path):
    from holdfast.bench.suite import load_suite
    from holdfast.tabular.files import read_cmdp

    (suite,) = re.findall(
        r"^```toml\n(.*?)^```", (ROOT / "docs/benchmark.md").read_text(), re.S | re.M
    )
    (tmp_path / "mine.toml").write_text(suite)
    assert load_suite(tmp_path / "mine.toml").tasks
    (cmdp,) = re.findall(
        r"^```json\n(.*?)^```", (ROOT / "docs/tabular.md").read_text(), re.S | re.M
    )
    (tmp_path / "my.json").write_text(cmdp)
    assert read_cmdp(tmp_path / "my.json").num_states == 2


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    for target in LINK.findall(page.read_text()):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_the_register_is_documented():
    from holdfast.register import REGISTER

    text = (ROOT / "docs" / "training.md").read_text()
    for row in REGISTER:
        if int(row.code[1:]) <= 17:
            assert re.search(rf"\| {row.code} \|.*`{row.setting.split('.')[-1]}`", text), row
