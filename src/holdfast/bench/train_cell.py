# SPDX-License-Identifier: Apache-2.0
"""One cell of a grid: train a run in its folder, from its last checkpoint.

`python -m holdfast.bench.train_cell FOLDER` is the process that a scheduler starts. It reads the
run as one line of JSON and then watches its standard input. When the scheduler dies, even by
SIGKILL, the pipe closes and the cell ends too, so that no orphan writes into the folder of a rerun.
A lock prevents two schedulers from training one cell at the same time.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # a process that only ends itself need not wait for jax
    from holdfast.train import Epoch

BUSY, ORPHANED = 75, 76
"""Exit codes: another process trains this cell; the scheduler has ended."""


def train_cell(path: Path, config: Mapping[str, Any]) -> None:
    """Train the run `config` in `path` to its end; a finished cell is unchanged.

    `Busy` is raised while another process trains it. The lock is beside the folder, which may not
    exist yet; the lock inside the folder excludes `holdfast resume`.
    """
    from holdfast.files import Busy, locked

    with locked(path.parent / ".locks" / path.name) as mine:
        if not mine:
            raise Busy(f"'{path}' is being trained by another process.")
        for _ in training(path, config):
            pass


def training(path: Path, config: Mapping[str, Any]) -> Iterator[Epoch]:
    """Train the remaining epochs of a cell; yields each when its files are saved."""
    from holdfast.run import from_json, to_json
    from holdfast.runs.folder import create, load_state, open_folder
    from holdfast.runs.training import train_in_folder
    from holdfast.train.environment import open_env

    if (path / "done.json").exists():
        return
    run = from_json(config)
    env = open_env(run, trusted=True)
    try:
        state = None
        if (path / "run.json").exists():
            folder = open_folder(path)
            if to_json(folder.run) != to_json(run):
                raise ValueError(
                    f"'{path}' has a run with other settings; choose another --out, or remove "
                    "the folder to train it anew."
                )
            state, _ = load_state(folder)
        else:
            _sweep(path)
            folder = create(path, run, env)
        yield from train_in_folder(folder, env, (), state)
    finally:
        env.close()


def _sweep(path: Path) -> None:
    """Remove half-written hidden files of a kill before the first run.json."""
    if path.is_dir() and all(child.name.startswith(".") for child in path.iterdir()):
        shutil.rmtree(path)


def _first_line() -> bytes:
    """The run's JSON, read without Python's buffers, as a thread continues to read the same
    pipe.
    """
    text = b""
    while not text.endswith(b"\n") and (more := os.read(0, 1 << 16)):
        text += more
    return text


def _end_with_parent() -> None:
    while os.read(0, 1):
        pass
    os._exit(ORPHANED)


def main() -> None:
    """Entry point of the process; see the module's docstring."""
    path, config = Path(sys.argv[1]), json.loads(_first_line())
    threading.Thread(target=_end_with_parent, daemon=True).start()
    from holdfast.files import Busy
    from holdfast.process import describe, terminable

    try:
        with terminable():
            train_cell(path, config)
    except KeyboardInterrupt as stop:
        raise SystemExit(describe(stop)[1]) from None
    except Busy:
        raise SystemExit(BUSY) from None
    except (ValueError, RuntimeError, OSError) as error:
        print(f"holdfast: {error}", file=sys.stderr)
        raise SystemExit(1) from error


if __name__ == "__main__":
    main()
