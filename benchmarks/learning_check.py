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
    """Markdown: ours beside the published range at 0.5M steps, and what the scatter would give.

    A sixth seed of the same distribution lies outside the range of five with probability 1/3. The
    offset is ours minus the published mean, in units of that range: 0 on average without a bias.
    """
    reference = {
        (row["algorithm"], row["task"]): row
        for row in csv.DictReader(published.open())
        if row["env_steps"] == "500000" and row["experiment"] in ("benchmark", "ablation")
    }
    print("| task | algorithm | seed | return | published | cost | published | inside |")
    print("|---|---|---|---|---|---|---|---|")
    verdicts: dict[str, list[str]] = {"ep_return": [], "ep_cost": []}
    offsets: dict[str, list[float]] = {"ep_return": [], "ep_cost": []}
    for row in csv.DictReader(ours.open()):
        known = reference.get((row["algorithm"], row["task"]))
        cells = [row["task"], row["algorithm"], row["seed"]]
        for key in verdicts:
            value = float(row[key])
            cells.append(f"{value:.1f}")
            if known is None:
                cells.append("none")
                continue
            low, high, mean = (float(known[f"{key}_{part}"]) for part in ("min", "max", "mean"))
            cells.append(f"{low:.1f} .. {high:.1f}")
            verdicts[key].append(
                "yes" if low <= value <= high else "below" if value < low else "above"
            )
            offsets[key].append((value - mean) / (high - low))
        shown = ", ".join(found[-1] for found in verdicts.values()) if known else "-"
        print("| " + " | ".join([*cells, shown]) + " |")
    print()
    for key, found in verdicts.items():
        counts = ", ".join(f"{word} {found.count(word)}" for word in ("yes", "below", "above"))
        offset = sum(offsets[key]) / len(found)
        print(f"{key}: inside {counts} of {len(found)}; mean offset {offset:+.2f} ranges")


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
