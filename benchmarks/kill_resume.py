# SPDX-License-Identifier: Apache-2.0
"""Kill a run at many random instants, resume it each time, compare with an undisturbed one.

    python benchmarks/kill_resume.py [--kills 50] [--env SafetyHopperVelocity-v1]

Exits with 1 unless every parameter, statistic and row (clock columns aside) is byte-identical.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.progress import Progress

from holdfast.records.rows import read_rows
from holdfast.runs import checkpoint
from holdfast.runs.folder import open_folder
from holdfast.train.epoch import CLOCK_COLUMNS

HOLDFAST = [sys.executable, "-c", "from holdfast.cli import main; main()"]


def final(folder: Path) -> tuple[bytes, list[dict[str, str]]]:
    """The last checkpoint's bytes and the rows without their clocks."""
    last = checkpoint.saved_epochs(folder)[-1]
    rows = read_rows(folder / "progress.csv")
    kept = [{k: str(v) for k, v in row.items() if k not in CLOCK_COLUMNS} for row in rows]
    return (folder / "checkpoint" / f"epoch-{last:06d}" / "state.safetensors").read_bytes(), kept


def train_command(env: str, out: Path, epochs: int) -> list[str]:
    steps = ["--steps", str(epochs * 1000), "--epoch-steps", "1000", "--num-envs", "4"]
    small = ["--critic-passes", "1", "--hidden", "16", "--cg-steps", "5", "--quiet"]
    return [*HOLDFAST, "train", "c-trpo", env, *steps, *small, "--out", str(out)]


def killed_run(command: list[str], out: Path, kills: int, seed: int) -> int:
    """Start or resume, kill after a random time, until `kills` are done; then let it finish."""
    rng = random.Random(seed)
    done = 0
    with Progress() as progress:
        task = progress.add_task("kills", total=kills)
        while not (out / "done.json").exists():
            started = (out / "run.json").exists()
            again = [*HOLDFAST, "resume", str(out), "--quiet"] if started else command
            process = subprocess.Popen(again)
            rows = lambda: (
                len((out / "progress.csv").read_bytes().splitlines())
                if (out / "progress.csv").exists()
                else 0
            )
            before = rows()
            while done < kills and process.poll() is None and rows() <= before:
                time.sleep(0.002)
            if done < kills and process.poll() is None:
                time.sleep(rng.uniform(0.0, 0.3))  # a few epochs
                process.send_signal(signal.SIGKILL)
                done += 1
                progress.update(task, completed=done)
            process.wait()
    return done


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--env", default="SafetyHopperVelocity-v1")
    parser.add_argument("--epochs", type=int, default=500)
    options = parser.parse_args()
    place = Path(tempfile.mkdtemp())
    os.environ["JAX_COMPILATION_CACHE_DIR"] = str(place / "cache")
    subprocess.run(train_command(options.env, place / "whole", options.epochs), check=True)
    command = train_command(options.env, place / "killed", options.epochs)
    done = killed_run(command, place / "killed", options.kills, seed=0)
    (left, left_rows), (right, right_rows) = final(place / "whole"), final(place / "killed")
    same = left == right and left_rows == right_rows
    finished = open_folder(place / "killed").finished
    print(f"{done} kills, {len(right_rows)} rows, finished: {finished}, byte-identical: {same}")
    raise SystemExit(0 if same and finished and done == options.kills else 1)


if __name__ == "__main__":
    main()
