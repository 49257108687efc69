# SPDX-License-Identifier: Apache-2.0
"""One cell of a grid: train a run in its folder, from wherever it was left.

`python -m holdfast.bench.cell FOLDER` is the process that a runner starts. It reads the run as one
line of JSON and then watches its standard input: when the runner dies, even by SIGKILL, the pipe
closes and the cell ends too, so that no orphan writes into a folder that a rerun has taken over.
A lock on the folder makes sure that two runners never train one cell at the same time.
"""

import contextlib
import json
import os
import shutil
import sys
import threading
from collections.abc import Callable, Generator, Mapping
from pathlib import Path
from typing import Any

BUSY, ORPHANED = 75, 76
"""Exit codes: another process trains this cell; the runner is gone."""


def compilation_cache() -> str:
    """Where compiled functions are kept between runs."""
    home = os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache"))
    return os.environ.get("HOLDFAST_CACHE", f"{home}/holdfast/jax")


def thread_limits(threads: int) -> dict[str, str]:
    """Environment variables that keep a process on `threads` cores; set before jax is imported.

    Parallel cells then do not fight, and the order of sums, hence every bit of the result, does not
    depend on how many cores the machine has.
    """
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NPROC")
    limits = {name: str(threads) for name in names}
    eigen = "" if threads > 1 else "--xla_cpu_multi_thread_eigen=false"
    flags = f"{os.environ.get('XLA_FLAGS', '')} {eigen}".strip()
    return limits | {
        "XLA_FLAGS": flags,
        "JAX_PLATFORMS": os.environ.get("JAX_PLATFORMS", "cpu"),
        "JAX_COMPILATION_CACHE_DIR": os.environ.get(
            "JAX_COMPILATION_CACHE_DIR", compilation_cache()
        ),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.1",
    }


def train_cell(
    path: Path, config: Mapping[str, Any], tell: Callable[[int], None] | None = None
) -> None:
    """Train the run `config` in `path` to its end; a finished cell is left alone."""
    from holdfast.agent import open_env
    from holdfast.folder import create, drive, load_state, open_folder
    from holdfast.run import from_json, to_json

    if (path / "done.json").exists():
        return
    run = from_json(config)
    env = open_env(run, run.env)
    try:
        state = None
        if (path / "run.json").exists():
            folder = open_folder(path)
            if to_json(folder.run) != to_json(run):
                raise ValueError(
                    f"'{path}' holds a run with other settings; choose another --out, or remove "
                    "the folder to train it anew."
                )
            state, _ = load_state(folder)
        else:
            _sweep(path)
            folder = create(path, run, env)
        for epoch in drive(folder, env, (), state):
            if tell is not None:
                tell(epoch.env_steps)
    finally:
        env.close()


def _sweep(path: Path) -> None:
    """Remove what a kill before the first run.json has left: half-written hidden files."""
    if path.is_dir() and all(child.name.startswith(".") for child in path.iterdir()):
        shutil.rmtree(path)


@contextlib.contextmanager
def locked(path: Path) -> Generator[bool]:
    """Hold the cell's lock, which lies beside its folder; False if someone else does."""
    try:
        import fcntl
    except ImportError:  # no file locks on this platform: one runner at a time is up to the user
        yield True
        return
    locks = path.parent / ".locks"
    locks.mkdir(parents=True, exist_ok=True)
    with open(locks / path.name, "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
            return
        yield True


def _first_line() -> bytes:
    """The run's JSON, read without Python's buffers: a thread goes on reading the same pipe."""
    text = b""
    while not text.endswith(b"\n") and (more := os.read(0, 1 << 16)):
        text += more
    return text


def _end_with_parent() -> None:
    while os.read(0, 1):
        pass
    os._exit(ORPHANED)


def main() -> None:
    """Entry point of the process; see the module's text."""
    path, config = Path(sys.argv[1]), json.loads(_first_line())
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with locked(path) as mine:
        if not mine:
            raise SystemExit(BUSY)
        try:
            train_cell(path, config)
        except (ValueError, RuntimeError, OSError) as error:
            print(f"holdfast: {error}", file=sys.stderr)
            raise SystemExit(1) from error


if __name__ == "__main__":
    main()
