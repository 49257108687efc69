# SPDX-License-Identifier: Apache-2.0
"""Proof that a refactoring changed no bit: digests of three epochs of everything.

    python benchmarks/digests.py record before.json     # at the commit before
    python benchmarks/digests.py record after.json      # at the commit after
    python benchmarks/digests.py compare before.json after.json

A recording that was stopped goes on where it was. `--set` gives settings by name, so that a default
which was meant to change can be set back: `record after.json --only /none --set normalise=running`.
Values are JSON (`critic_first=false`, `beta=0.5`), or else text. A run that was refused trained
nothing: `compare` counts it apart, and fails where there is no other.
With `--cache FOLDER` recordings share what they compile: a function that a refactoring left alone
is not compiled again.

Every algorithm on two native tasks, a probe with two limits and a discrete probe, without a preset
and with each. A digest is the SHA-256 of each column of progress.csv but the clock's, and of the
learned arrays. They belong to one machine and one set of versions: compare, do not keep.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from rich.progress import track

NATIVE = {"num_envs": 2, "epoch_steps": 2_000}  # one episode of each environment and epoch
PROBE = {"num_envs": 4, "epoch_steps": 800}
TASKS: dict[str, dict[str, Any]] = {
    "SafetyHalfCheetahVelocity-v1": NATIVE,
    "SafetyPointGoal1-v0": NATIVE,
    "probe/Machines-v0": PROBE | {"limits": {"heat": 9.0, "noise": 9.75}},
    "probe/Shortcut-v0": PROBE | {"cost_limit": 1.5},
}
PRESETS = ("none", "published", "corrected")
EPOCHS = 3

Cell = tuple[str, str, str]
"""Algorithm, task and preset."""

Digest = dict[str, str]
"""What was digested -> 16 hexadecimal digits, or the sentence of a refusal."""


def short(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def digest(cell: Cell, given: dict[str, Any]) -> Digest:
    """One run, in this process."""
    from safetensors.numpy import load_file

    from holdfast import Agent
    from holdfast.train.epoch import CLOCK_COLUMNS

    algorithm, task, preset = cell
    settings = TASKS[task] | given
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "run")
        try:
            agent = Agent(algorithm, preset=None if preset == "none" else preset)  # type: ignore[arg-type]
            steps = EPOCHS * settings["epoch_steps"]
            agent.learn(task, steps, out=out, progress=False, **settings)
        except ValueError as error:
            return {"refused": str(error)}
        with (out / "progress.csv").open(newline="") as file:
            rows = list(csv.DictReader(file))
        found = {
            name: short("\n".join(row[name] for row in rows).encode())
            for name in rows[0]
            if name not in CLOCK_COLUMNS
        }
        newest = max(out.rglob("*.safetensors"), key=lambda path: path.stat().st_mtime_ns)
        learned = {k: v for k, v in load_file(newest).items() if k.startswith("learner")}
        # Sorted by content, not by name: a field may be renamed without changing what was learned.
        parts = sorted(short(v.tobytes()) for v in learned.values())
        return found | {"(learned)": short("".join(parts).encode())}


def share_compiled(cache: str) -> None:
    import jax

    jax.config.update("jax_compilation_cache_dir", cache)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)


def digests(cells: list[Cell], given: dict[str, Any], workers: int, cache: str) -> Iterator[Digest]:
    """Of all cells, in their order; in fresh processes now and then: compiled functions pile up.

    A pool that replaces its processes by itself (`max_tasks_per_child`) may come to a stand.
    """
    size = 12 * workers
    for some in (cells[i : i + size] for i in range(0, len(cells), size)):
        context = get_context("spawn")
        with ProcessPoolExecutor(workers, context, share_compiled, (cache,)) as pool:
            yield from pool.map(partial(digest, given=given), some)


def record(path: Path, only: str, given: dict[str, Any], workers: int, cache: str | None) -> None:
    from holdfast.algorithms import ALGORITHMS

    table: dict[str, Digest] = json.loads(path.read_text()) if path.exists() else {}
    cells = [(a, t, p) for t in TASKS for a in ALGORITHMS for p in PRESETS]
    cells = [cell for cell in cells if only in "/".join(cell) and " ".join(cell) not in table]
    with tempfile.TemporaryDirectory() as own:  # many runs share a compiled function
        results = track(digests(cells, given, workers, cache or own), "digests", len(cells))
        for cell, found in zip(cells, results, strict=True):
            table[" ".join(cell)] = found
            path.write_text(json.dumps(table, indent=1))
    print(f"{len(table)} runs in {path}")


def compare(before: Path, after: Path) -> int:
    old, new = (json.loads(path.read_text()) for path in (before, after))
    common = [key for key in old if key in new]
    refused = [key for key in common if "refused" in old[key] and "refused" in new[key]]
    differing: dict[str, list[str]] = {}
    added: set[str] = set()
    removed: set[str] = set()
    for key in common:
        if ("refused" in old[key]) != ("refused" in new[key]):
            differing[key] = [f"refused only {'before' if 'refused' in old[key] else 'after'}"]
            continue
        added |= new[key].keys() - old[key].keys()
        removed |= old[key].keys() - new[key].keys()
        for name in old[key].keys() & new[key].keys():
            if old[key][name] != new[key][name]:
                differing.setdefault(key, []).append(name)
    trained = [key for key in common if key not in refused]
    equal = sum(key not in differing for key in trained)
    print(f"{len(trained)} runs compared, {equal} equal in every digest")
    if refused:
        print(f"{len(refused)} runs refused before and after, which show nothing, such as")
        print(f"  {refused[0]}: {old[refused[0]]['refused']}")
    for what, runs in (("only before", old.keys() - new.keys()), ("only after", new.keys() - old)):
        if runs:
            print(f"{what}: {', '.join(sorted(runs))}")
    for what, names in (("columns added", added), ("columns removed", removed)):
        if names:
            print(f"{what}: {', '.join(sorted(names))}")
    for key, names in differing.items():
        print(f"  {key}: {', '.join(sorted(names))}")
    return 1 if differing or not trained else 0


def read_setting(text: str) -> tuple[str, Any]:
    """NAME=VALUE, the value as JSON, or as the text it is."""
    name, _, value = text.partition("=")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    commands = parser.add_subparsers(dest="command", required=True)
    recording = commands.add_parser("record")
    recording.add_argument("file", type=Path)
    recording.add_argument("--only", default="", help="runs whose name holds this text")
    recording.add_argument("--set", nargs="*", default=[], help="settings, as NAME=VALUE in JSON")
    recording.add_argument("--workers", type=int, default=2)
    recording.add_argument("--cache", help="a folder for compiled functions, kept and shared")
    comparing = commands.add_parser("compare")
    comparing.add_argument("before", type=Path)
    comparing.add_argument("after", type=Path)
    given = parser.parse_args()
    if given.command == "compare":
        return compare(given.before, given.after)
    settings = dict(map(read_setting, given.set))
    record(given.file, given.only, settings, given.workers, given.cache)
    return 0


if __name__ == "__main__":
    sys.exit(main())
