# SPDX-License-Identifier: Apache-2.0
"""Run folders with known numbers, for the report's tests."""

import json
from pathlib import Path

import numpy as np

ALGORITHMS = {"c-trpo": (8.0, -6.0), "cpo": (9.0, 1.0), "ppo": (20.0, 60.0)}
"""name -> (final return, final cost − limit)"""
TASKS = ("SafetyAntVelocity-v1", "SafetyPointGoal1-v0")
EPOCHS = 40


def write_runs(root: Path, seeds: int = 4, unfinished: bool = True) -> Path:
    """All algorithms on all tasks; the last seed of the last cell may be half done."""
    rng = np.random.default_rng(0)
    for name, (reward, margin) in ALGORITHMS.items():
        for task in TASKS:
            for seed in range(seeds):
                folder = root / f"{name}_{task}_{seed}"
                folder.mkdir(parents=True)
                run = {"env": task, "name": name, "seed": seed, "steps": 1000 * EPOCHS}
                run |= {"cost_limit": 25.0, "gamma": 0.99, "algorithm": {"radius": 0.01}}
                if name == "c-trpo":
                    run["algorithm"] = {"radius": 0.01, "beta": 1.0}
                record = {"run": run, "limits": {"cost": 25.0}, "versions": {"numpy": "2.0"}}
                (folder / "run.json").write_text(json.dumps(record))
                half = unfinished and (name, task, seed) == ("cpo", TASKS[1], seeds - 1)
                _progress(folder, reward, margin, EPOCHS // 2 if half else EPOCHS, rng)
                if not half:
                    (folder / "done.json").write_text("{}")
    return root


def _progress(
    folder: Path, reward: float, margin: float, epochs: int, rng: np.random.Generator
) -> None:
    rows = ["epoch,env_steps,ep_return,ep_cost,time_rollout,time_update,steps_per_second"]
    for k in range(1, epochs + 1):
        grown = reward * (1 - np.exp(-k / 10)) + rng.normal(0, 0.2)
        cost = max(0.0, 25 + margin * k / EPOCHS + rng.normal(0, 2))
        rows.append(f"{k},{1000 * k},{grown:.4f},{cost:.3f},1.5,0.5,500")
    (folder / "progress.csv").write_text("\n".join(rows) + "\n")
