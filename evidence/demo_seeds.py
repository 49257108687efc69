# SPDX-License-Identifier: Apache-2.0
"""Is the demo true? Its setting over seeds: the verdict, and what happened on the way.

    python evidence/demo_seeds.py [--seeds 20] [--first 0] [--out runs/demo_seeds]

Each seed trains the demo's run and is judged as the demo judges. `demo_seeds.csv` in the folder
gets a row for each finished seed. Kill it whenever you like: finished seeds are skipped, a
half-trained one goes on from its checkpoint.
"""

from __future__ import annotations

import argparse
import csv
import io
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from holdfast import Agent
from holdfast.cli.demo import DEMO_EPISODES, demo_run
from holdfast.files import write_atomic
from holdfast.process import use_compilation_cache
from holdfast.records.rows import read_progress
from holdfast.runs.folder import create, load_state, open_folder
from holdfast.runs.training import train_in_folder
from holdfast.train.environment import open_env

TABLE = "demo_seeds.csv"


@dataclass(frozen=True)
class Row:
    """One seed."""

    seed: int
    verdict: str
    """yes, no or undecided: proved at 95 % from fresh episodes."""
    cost: float
    """Mean of those episodes."""
    proved_high: float
    episodes: int
    earned: float
    """Their mean return."""
    crossed: bool
    """Whether the cost of some epoch of training was above the limit."""
    epochs_above: int
    worst_epoch: float
    regret_raw: float
    regret: float


def crossings(raw: Any, limit: float) -> tuple[bool, int, float]:
    """(whether, in how many epochs, how far up) the raw cost of an epoch went above the limit."""
    above = np.asarray(raw) > limit
    return bool(above.any()), int(above.sum()), float(np.max(raw))


def trained(folder: Path, run: Any) -> None:
    """Train to the end, from where an earlier attempt stopped."""
    if (folder / "run.json").exists():
        found = open_folder(folder)
        if found.run != run:
            raise ValueError(f"'{folder}' holds a run with other settings; choose another --out.")
        if found.finished:
            return
        state, _ = load_state(found)
        env = open_env(run, run.env)
    else:
        env, state = open_env(run, run.env), None
        found = create(folder, run, env)
    try:
        for _ in train_in_folder(found, env, state=state):
            pass
    finally:
        env.close()


def judged(folder: Path, run: Any) -> Row:
    result = Agent.load(folder).evaluate(
        episodes=20, until_decided=True, max_episodes=DEMO_EPISODES
    )
    columns = read_progress(folder / "progress.csv")
    (limit,) = open_folder(folder).spaces.limits.values()
    crossed, count, worst = crossings(columns["ep_cost_raw"], limit)
    return Row(
        seed=run.seed,
        verdict=result.verdict.safe,
        cost=round(result.verdict.mean[0], 2),
        proved_high=round(result.verdict.proved.upper[0], 2),
        episodes=len(result.returns),
        earned=round(float(result.returns.mean()), 1),
        crossed=crossed,
        epochs_above=count,
        worst_epoch=round(worst, 2),
        regret_raw=round(float(columns["cost_regret_raw"][-1]), 2),
        regret=round(float(columns["cost_regret"][-1]), 2),
    )


def read(path: Path) -> dict[int, dict[str, str]]:
    """Rows that are there, by seed."""
    if not path.exists():
        return {}
    with path.open(newline="") as file:
        return {int(row["seed"]): row for row in csv.DictReader(file)}


def write(path: Path, rows: dict[int, dict[str, Any]]) -> None:
    text = io.StringIO()
    table = csv.DictWriter(text, [field.name for field in fields(Row)], lineterminator="\n")
    table.writeheader()
    table.writerows(rows[seed] for seed in sorted(rows))
    write_atomic(path, text.getvalue().encode())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--out", type=Path, default=Path("runs/demo_seeds"))
    given = parser.parse_args()
    use_compilation_cache()
    given.out.mkdir(parents=True, exist_ok=True)
    table = given.out / TABLE
    rows: dict[int, dict[str, Any]] = dict(read(table))
    for seed in range(given.first, given.first + given.seeds):
        if seed not in rows:
            run = demo_run(seed)
            folder = given.out / f"seed{seed}"
            trained(folder, run)
            rows[seed] = asdict(judged(folder, run))
            write(table, rows)
        print(" ".join(f"{name}={value}" for name, value in rows[seed].items()), flush=True)
    verdicts = [row["verdict"] for row in rows.values()]
    counts = ", ".join(f"{name} {verdicts.count(name)}" for name in ("yes", "undecided", "no"))
    crossed = sum(str(row["crossed"]) == "True" for row in rows.values())
    print(f"{len(rows)} seeds: {counts}; above the limit at some epoch: {crossed}")


if __name__ == "__main__":
    main()
