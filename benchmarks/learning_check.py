# SPDX-License-Identifier: Apache-2.0
"""Every algorithm at 0.5M steps against the published seeds, preset `published`.

    python benchmarks/learning_check.py run TASK [ALGORITHM ...] [--seed 0] [--out check.csv]
    python benchmarks/learning_check.py table check.csv CHECKPOINTS

`run` trains 25 epochs of a 10M-step run (the learning rate falls over all of it) and appends one
row for each algorithm. `table` sets the rows beside the range of the published seeds.
"""

from __future__ import annotations

import argparse
import csv
import time
from pathlib import Path

from holdfast.algorithms import ALGORITHMS
from holdfast.envs.make import make_env
from holdfast.run import make_run
from holdfast.train import train

EPOCHS = 25
FIELDS = ("task", "algorithm", "seed", "ep_return", "ep_cost", "cost_regret", "update_s", "wall_s")


def run(task: str, name: str, seed: int) -> dict[str, object]:
    settings = make_run(name, "published", env=task, steps=10_000_000, seed=seed)
    env = make_env(task, settings.num_envs)
    start, updates = time.perf_counter(), []
    metrics: dict[str, float | int] = {}
    try:
        for epoch in train(settings, env):
            metrics = epoch.metrics
            updates.append(metrics["time_update"])
            if epoch.index == EPOCHS:
                break
    finally:
        env.close()
    shown = {k: round(float(metrics[k]), 3) for k in ("ep_return", "ep_cost", "cost_regret")}
    median = sorted(updates[1:])[len(updates) // 2 - 1]  # the first update compiles
    clock = {"update_s": round(median, 2), "wall_s": round(time.perf_counter() - start, 1)}
    return {"task": task, "algorithm": name, "seed": seed} | shown | clock


def append(path: Path, row: dict[str, object]) -> None:
    fresh = not path.exists()
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, FIELDS)
        if fresh:
            writer.writeheader()
        writer.writerow(row)


def table(ours: Path, published: Path) -> None:
    """Markdown: ours beside the published range at 0.5M steps."""
    reference = {
        (row["algorithm"], row["task"]): row
        for row in csv.DictReader(published.open())
        if row["env_steps"] == "500000" and row["experiment"] in ("benchmark", "ablation")
    }
    print("| task | algorithm | seed | return | published | cost | published | inside |")
    print("|---|---|---|---|---|---|---|---|")
    for row in csv.DictReader(ours.open()):
        known = reference.get((row["algorithm"], row["task"]))
        cells = [row["task"], row["algorithm"], row["seed"]]
        inside: list[str] = []
        for key, digits in (("ep_return", 1), ("ep_cost", 1)):
            value = float(row[key])
            cells.append(f"{value:.{digits}f}")
            if known is None:
                cells.append("none")
                continue
            low, high = float(known[f"{key}_min"]), float(known[f"{key}_max"])
            cells.append(f"{low:.{digits}f} .. {high:.{digits}f}")
            inside.append("yes" if low <= value <= high else "below" if value < low else "above")
        print("| " + " | ".join([*cells, ", ".join(inside) or "-"]) + " |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("run", "table"))
    parser.add_argument("names", nargs="+")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("learning_check.csv"))
    given = parser.parse_args()
    if given.what == "table":
        table(Path(given.names[0]), Path(given.names[1]))
        return
    task, *algorithms = given.names
    for name in algorithms or [n for n in ALGORITHMS if not n.startswith("c-trpo-")]:
        row = run(task, name, given.seed)
        append(given.out, row)
        print(*row.values(), flush=True)


if __name__ == "__main__":
    main()
