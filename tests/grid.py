# SPDX-License-Identifier: Apache-2.0
"""A small grid for the runners' tests, and the comparison of its results."""

import csv
import hashlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from holdfast.train.epoch import CLOCK_COLUMNS

EPOCHS = 90
SUITE = """
steps = {steps}
seeds = 2
tasks = ["probe/Speed-v0"]
algorithms = ["trpo"]
[settings]
epoch_steps = 200
num_envs = 2
hidden = [4]
"""


def write_suite(folder: Path, epochs: int = EPOCHS) -> Path:
    file = folder / "small.toml"
    file.write_text(SUITE.format(steps=200 * epochs))
    return file


def launch(suite: Path, out: Path, **options: object) -> subprocess.Popen[bytes]:
    """The bench command in a process of its own."""
    given = {"jobs": 2} | options
    call = f"bench({str(suite)!r}, out=Path({str(out)!r}), **{given!r})"
    code = f"from pathlib import Path; from holdfast.cli.bench import command as bench; {call}"
    return subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE)


def finish(process: subprocess.Popen[bytes], seconds: float = 300) -> str:
    """What the command said; it must have succeeded."""
    _, said = process.communicate(timeout=seconds)
    assert process.returncode == 0, said.decode()
    return said.decode()


def rows(out: Path, name: str) -> int:
    file = out / name / "progress.csv"
    return max(0, file.read_bytes().count(b"\n") - 1) if file.exists() else 0


def wait_for(condition: Callable[[], bool], seconds: float = 200) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.002)


def results(out: Path) -> dict[str, object]:
    """All that a grid has learned, without the clock: rows and the bytes of the last state."""
    found: dict[str, object] = {}
    for folder in sorted(path.parent for path in out.glob("*/done.json")):
        with open(folder / "progress.csv", newline="") as file:
            table = list(csv.DictReader(file))
        learned = [{k: v for k, v in row.items() if k not in CLOCK_COLUMNS} for row in table]
        newest = sorted((folder / "checkpoint").glob("epoch-*"))[-1]
        found[folder.name] = (learned, (newest / "state.safetensors").read_bytes())
    return found


def digests(out: Path) -> dict[str, str]:
    """Of what each finished cell has learned."""
    return {
        name: hashlib.sha256(repr(learned).encode()).hexdigest()
        for name, learned in results(out).items()
    }


def cell_processes(out: Path) -> list[int]:
    """Processes at work on cells under `out`."""
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                command = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if b"holdfast.bench.train_cell" in command and any(
                str(out).encode() in c for c in command
            ):
                found.append(int(entry.name))
    return found


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
