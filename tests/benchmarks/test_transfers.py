# SPDX-License-Identifier: Apache-2.0
"""Bytes between host and device: those of a functional epoch do not depend on its steps."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
NUM_ENVS, WIDTH, OBS = 16, 4, 2
"""Environments, sums of an episode (return, length, cost, discounted cost), observation size."""
ROWS = 256
"""Finished episodes that go to the host at once."""


def moved(*arguments):
    script = str(ROOT / "benchmarks" / "transfers.py")
    command = [sys.executable, script, "--json", "--num-envs", str(NUM_ENVS), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def of(told, way):
    return sum(row[-1] for row in told["moved"] if row[0] == way)


def test_steps_stay_on_the_device():
    slope = f"{ROOT / 'docs' / 'examples' / 'slope.py'}:Slope"
    short, long, host, host_long = moved(
        "--env", slope, "probe/Speed-v0", "--epoch-steps", "640", "1280"
    )
    assert short["moved"] == long["moved"]  # 32 and 64 episodes, which fit into one transfer
    rows = {
        ("up", "float64", (NUM_ENVS, WIDTH)): 1,  # sums of unfinished episodes
        ("down", "float64", (NUM_ENVS, WIDTH)): 1,
        ("down", "float64", (ROWS, WIDTH)): 1,  # sums of finished episodes
        ("down", "bool", (NUM_ENVS,)): 1,  # whether the last step ended an episode
    }
    arrays = {(way, kind, tuple(shape)): count for way, kind, shape, count, _ in long["moved"]}
    assert rows.items() <= arrays.items()
    # All else is a number, or one for each sum, observation or critic.
    assert all(max(shape, default=1) <= WIDTH for _, _, shape in arrays.keys() - rows.keys())
    assert of(long, "up") < 1_000 and of(long, "down") < ROWS * WIDTH * 8 + 1_000
    # Control: an environment on the host moves every step, so twice the steps are twice the bytes.
    assert of(host, "up") > 640 * 20 and of(host, "down") > 640 * 4
    assert 1.9 < of(host_long, "up") / of(host, "up") < 2.1
