# SPDX-License-Identifier: Apache-2.0
"""Small kept runs and outcomes; importing it makes the scripts of evidence/ importable."""

import json
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "evidence"))

import kept  # noqa: E402


def write_run(
    folder: Path, seed: int, regret: float, done=True, label="c-trpo", task="Task-v0"
) -> None:
    """Two epochs, each with a raw cost of 20 + seed."""
    cell = folder / f"{label}_{task}_seed{seed}"
    cell.mkdir(parents=True)
    (cell / "run.json").write_text(json.dumps({"run": {"env": task, "seed": seed}}))
    rows = [
        f"{k},{k * 500_000},{k * 10 + seed},{20 * k},{regret * k},{2 * regret * k},{20 + seed}"
        for k in (1, 2)
    ]
    head = "epoch,env_steps,ep_return,ep_cost,cost_regret,cost_regret_raw,ep_cost_raw"
    (cell / "progress.csv").write_text("\n".join([head, *rows]) + "\n")
    (cell / "checkpoint").write_bytes(b"large")
    if done:
        (cell / "done.json").write_text("{}")
    (folder / "suite.json").write_text(json.dumps({"suite": "mine", "cells": [cell.name]}))


def outcome(label, seed, smooth, task="T", reward=0.0, cost=0.0):
    return kept.Outcome(task, label, seed, reward, cost, smooth, smooth, 0.0)
