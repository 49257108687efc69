# SPDX-License-Identifier: Apache-2.0
"""Every Python block in the documentation runs, and every cheap command; links lead somewhere."""

import ast
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    page
    for pattern in ("*.md", "docs/**/*.md", "benchmarks/*.md", "evidence/*.md", "results/*.md")
    for page in ROOT.glob(pattern)
    if "generated" not in page.parts
)
BLOCK = re.compile(r"^```python\n(.*?)^```", re.S | re.M)
LINK = re.compile(r"\]\((?!https?:|#)([^)#\s]+)")
WITH_CODE = [page for page in PAGES if BLOCK.search(page.read_text())]


ONE_BY_ONE = """
import os, runpy, sys, traceback
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
for line in sys.stdin:
    script = line.strip()
    os.chdir(os.path.dirname(script))
    begin, path = set(sys.modules), sys.path[:]
    sys.path[0] = os.path.dirname(script)
    try:
        runpy.run_path(script, run_name="__main__")
        told = ""
    except BaseException:
        told = traceback.format_exc()
    sys.path[:] = path
    for name in set(sys.modules) - begin:  # another page has another file of the same name
        file = getattr(sys.modules[name], "__file__", None) or ""
        if file.startswith(os.path.dirname(script)):
            del sys.modules[name]
    print(repr(told), file=answers, flush=True)
"""
"""An interpreter that runs one script after another and answers with the traceback, if any."""


@pytest.fixture(scope="module")
def interpreter() -> Iterator[subprocess.Popen[str]]:
    """One for all pages: importing JAX takes longer than most of them."""
    process = subprocess.Popen(
        [sys.executable, "-c", ONE_BY_ONE],
        env=os.environ | {"MPLBACKEND": "agg"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    yield process
    process.communicate(timeout=60)


def error_of(interpreter: subprocess.Popen[str], script: Path) -> str:
    assert interpreter.stdin and interpreter.stdout
    interpreter.stdin.write(f"{script}\n")
    interpreter.stdin.flush()
    return ast.literal_eval(interpreter.stdout.readline())


def write_script(page: Path, folder: Path) -> Path:
    script = folder / "page.py"
    script.write_text("\n\n".join(BLOCK.findall(page.read_text())))
    return script


@pytest.mark.parametrize("page", WITH_CODE, ids=lambda p: str(p.relative_to(ROOT)))
def test_code_blocks_run(page, tmp_path, interpreter):
    """In order, as a reader would type them."""
    told = error_of(interpreter, write_script(page, tmp_path))
    assert not told, told[-3000:]


def test_a_block_that_fails_is_found(tmp_path, interpreter):
    """Negative control; and the page after it runs."""
    script = tmp_path / "page.py"
    script.write_text("raise SystemExit(1)")
    assert "SystemExit: 1" in error_of(interpreter, script)
    script.write_text("import page")
    assert error_of(interpreter, script) == ""


@pytest.mark.full
@pytest.mark.parametrize("page", WITH_CODE, ids=lambda p: str(p.relative_to(ROOT)))
def test_code_blocks_run_in_a_fresh_interpreter(page, tmp_path):
    """No page needs what another has imported or left behind."""
    done = subprocess.run(
        [sys.executable, str(write_script(page, tmp_path))],
        cwd=tmp_path,
        env=os.environ | {"MPLBACKEND": "agg"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]


FENCED = re.compile(r"^ *```([^`\n]*)\n(.*?)^ *```$", re.S | re.M)
CHEAP = {"list", "envs", "check", "solve", "playground"}
"""Commands that take seconds with any arguments; so do `--dry-run` and `--help` of others."""
FILES = {
    "my.json": "docs/examples/machine.json",
    "tank.py": "docs/examples/tank.py",
    "slope.py": "docs/examples/slope.py",
}
"""What a reader has written before, by the name that the pages give it."""


def commands(text):
    """Our commands in `sh` and plain blocks: their words."""
    blocks = [block for kind, block in FENCED.findall(text) if kind in ("sh", "")]
    lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    return [shlex.split(line, comments=True)[1:] for line in lines if line.startswith("holdfast ")]


def is_cheap(words):
    alone = not {"&&", "||", "|"} & set(words)
    return alone and (words[0] in CHEAP or bool({"--dry-run", "--help"} & set(words)))


SHOWN = {
    " ".join(words): words
    for page in PAGES
    for words in commands(page.read_text())
    if is_cheap(words)
}


@pytest.mark.parametrize("words", SHOWN.values(), ids=list(SHOWN))
def test_cheap_commands_run(words, tmp_path, monkeypatch):
    """As they stand, in a directory with the files that the pages tell to write."""
    from holdfast.cli import main

    for name, source in FILES.items():
        shutil.copy(ROOT / source, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    try:
        main(words)
    except SystemExit as end:
        assert not end.code, words


def test_of_every_kind_some_commands_run():
    assert {words[0] for words in SHOWN.values()} >= CHEAP | {"bench"}
    text = "```sh\nholdfast list  # all\nholdfast train \\\n  x\n```\n```python\nholdfast no\n```\n"
    assert commands(text) == [["list"], ["train", "x"]]
    assert is_cheap(["list"]) and is_cheap(["bench", "ours", "--dry-run"])
    assert not is_cheap(["train", "x"]) and not is_cheap(["check", "x", "&&", "y"])


FENCE = re.compile(r"^ *```([^`\n]+)$", re.M)
RUN = {"python", "toml", "json", "sh"}
"""Blocks that a test runs or reads; test_site.py asks whether commands and flags of `sh` exist,
and `test_cheap_commands_run` runs those that take seconds."""
PEERS = {"OmniSafe", "Safety-Gymnasium", "Stable-Baselines3"}


def unchecked(text):
    """Headings of code blocks that no test looks at, but for those of other libraries."""
    foreign = {f'python title="{peer}"' for peer in PEERS}
    shown = lambda kind: kind in ("text", "math") or kind.startswith("{")
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
    from holdfast.tabular.cmdp_files import read_cmdp

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
