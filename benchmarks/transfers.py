# SPDX-License-Identifier: Apache-2.0
"""Bytes that an epoch of training moves between host and device.

    python benchmarks/transfers.py [--env slope.py:Slope probe/Speed-v0] [--epoch-steps 3200 12800]

Counts every array that goes up or down in the third epoch of a run, without its checkpoints. It
works on CPU devices too, where moving costs nothing but the same calls are made:

- up: JAX's own guard logs each array that NumPy or Python hands over. The fast path of compiled
  functions logs no shape, so it is off here.
- down: NumPy reads an array on a CPU device through the buffer protocol, which nothing can observe.
  Without it, every read calls `ArrayImpl._value`.

Both are changes of this process alone: no library code depends on them.
"""

from __future__ import annotations

import argparse
import ctypes
import itertools
import json
import math
import os
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax._src import pjit
from jax._src.array import ArrayImpl

from holdfast import make_run
from holdfast.train import train
from holdfast.train.environment import open_env

EXAMPLES = Path(__file__).parents[1] / "docs" / "examples"
LOGGED = re.compile(r"host-to-device transfer:(?: aval=\w+\((\w+)\[([\d,]*)\])?")
BUFFER_SLOT = 160
"""Offset of `tp_as_buffer` in a type of CPython on a 64-bit machine."""

Moved = Counter[tuple[str, str, tuple[int, ...]]]
"""Arrays by (direction, type, shape)."""


@contextmanager
def logged(found: list[str]) -> Iterator[None]:
    """Append the lines that the process writes to its standard error, also from C++."""
    sys.stderr.flush()
    kept = os.dup(2)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 2)
        try:
            yield
        finally:
            sys.stderr.flush()
            os.dup2(kept, 2)
            os.close(kept)
            file.seek(0)
            found += file.read().decode().splitlines()


class Reads:
    """Counts arrays that are read on the host; made once, before anything is compiled."""

    def __init__(self) -> None:
        self.found: Moved = Counter()
        pjit._get_fastpath_data = lambda *_: None
        ctypes.c_void_p.from_address(id(ArrayImpl) + BUFFER_SLOT).value = None
        plain = ArrayImpl._value

        def value(array: Any) -> Any:
            if array._npy_value is None:
                self.found["down", str(array.dtype), array.shape] += 1
            return plain.fget(array)

        ArrayImpl._value = property(value)


def moved_by(reads: Reads, work: Any) -> Moved:
    """The arrays that a function moves."""
    lines: list[str] = []
    reads.found = Counter()
    with logged(lines):
        jax.config.update("jax_transfer_guard", "log_explicit")  # of all threads
        work()
        jax.config.update("jax_transfer_guard", "allow")
    found = reads.found
    for line in lines:
        if match := LOGGED.search(line):
            kind, shape = match.groups()
            if kind is None:
                raise RuntimeError("an array went up without its shape in the log")
            found["up", kind, tuple(int(n) for n in shape.split(",") if n)] += 1
    return found


def size_of(kind: str, shape: tuple[int, ...]) -> int:
    """Bytes of an array; a random key has two numbers."""
    item = 8 if kind.startswith("key") else np.dtype(kind).itemsize
    return item * math.prod(shape)


def epoch(reads: Reads, env: str, num_envs: int, epoch_steps: int, **settings: Any) -> Moved:
    """The arrays that the third epoch moves."""
    run = make_run(
        "c-trpo", env=env, num_envs=num_envs, epoch_steps=epoch_steps, steps=3 * epoch_steps,
        **settings,
    )  # fmt: skip
    batch = open_env(run, trusted=True)
    epochs = train(run, batch)
    next(epochs), next(epochs)
    found = moved_by(reads, lambda: next(epochs))
    batch.close()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--env", nargs="+", default=[f"{EXAMPLES / 'slope.py'}:Slope"])
    parser.add_argument("--num-envs", type=int, default=16)
    parser.add_argument("--epoch-steps", type=int, nargs="+", default=[3200, 12800])
    parser.add_argument("--cost-limit", type=float, default=5.0)
    parser.add_argument("--json", action="store_true", help="a line for each epoch")
    options = parser.parse_args()
    reads = Reads()
    for env, steps in itertools.product(options.env, options.epoch_steps):
        found = epoch(reads, env, options.num_envs, steps, cost_limit=options.cost_limit)
        rows = [(*key, count, count * size_of(*key[1:])) for key, count in sorted(found.items())]
        if options.json:
            print(json.dumps({"env": env, "steps": steps, "moved": rows}))
        else:
            report(Path(env).name, steps, rows)


def report(env: str, steps: int, rows: list[tuple[str, str, tuple[int, ...], int, int]]) -> None:
    """Print a table, the largest first."""
    whole = {way: sum(row[-1] for row in rows if row[0] == way) for way in ("up", "down")}
    print(f"\n{env}, {steps} steps: {whole['up']:,} bytes up, {whole['down']:,} down\n")
    print("| way | array | times | bytes |\n|---|---|---|---|")
    for way, kind, shape, count, size in sorted(rows, key=lambda row: -row[-1]):
        print(f"| {way} | {kind}{list(shape)} | {count} | {size:,} |", flush=True)


if __name__ == "__main__":
    main()
