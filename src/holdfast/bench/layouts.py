# SPDX-License-Identifier: Apache-2.0
"""The layouts of run folders: our own, and those of SafePO and OmniSafe."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from holdfast.bench.progress import NAMES, read_progress
from holdfast.bench.runlog import PUBLISHED_LIMIT, RunLog, flatten


def read_run(folder: Path) -> RunLog:
    """A run folder of our own: run.json, progress.csv, done.json written last."""
    record: dict[str, Any] = json.loads((folder / "run.json").read_text())
    run: dict[str, Any] = record["run"]
    config = flatten(run)
    if "preset" in record:
        config["preset"] = record["preset"]
    config |= flatten(record.get("versions") or {}, "versions.")
    config.pop("name", None)
    budget = run.get("steps")
    return RunLog(
        algorithm=str(run["name"]),
        task=str(run["env"]),
        seed=int(run.get("seed", 0)),
        limits=_limits(record.get("limits") or run.get("cost_limit", PUBLISHED_LIMIT)),
        columns=read_progress(folder / "progress.csv"),
        config=config,
        done=(folder / "done.json").exists(),
        budget=None if budget is None else int(budget),
        source="holdfast",
        path=str(folder),
    )


def read_foreign(folder: Path) -> RunLog:
    """A run folder of SafePO (…/task/algorithm/seed-…) or OmniSafe (…/Algo-{task}/seed-…)."""
    file = folder / "config.json"
    config = flatten(json.loads(file.read_text())) if file.exists() else {}
    columns = {NAMES.get(k, k): v for k, v in read_progress(folder / "progress.csv").items()}
    omni = any(key.startswith("algo_cfgs.") for key in config) or "{" in folder.parent.name
    given, _, braced = folder.parent.name.partition("-{")
    algorithm = config.get("algo") or config.get("algo_name") or given
    task = config.get("env_id") or config.get("task")
    task = task or (braced.rstrip("}") if omni else folder.parent.parent.name)
    limit = next((v for k, v in config.items() if k.endswith("cost_limit")), PUBLISHED_LIMIT)
    budget = config.get("total_steps", config.get("train_cfgs.total_steps"))
    seed = config.get("seed", folder.name.removeprefix("seed-").split("-")[0])
    steps = columns.get("env_steps", np.zeros(0))
    reached = None if budget is None else steps.size > 0 and bool(steps[-1] >= float(str(budget)))
    return RunLog(
        algorithm=str(algorithm).lower() if not omni else str(algorithm),
        task=str(task),
        seed=int(str(seed)),
        limits=_limits(limit),
        columns=columns,
        config={k: v for k, v in config.items() if k not in ("algo", "env_id", "task", "exp_name")},
        done=steps.size > 0 if reached is None else reached,
        budget=None if budget is None else int(float(str(budget))),
        source="omnisafe" if omni else "safepo",
        path=str(folder),
    )


def _limits(limit: Any) -> dict[str, float]:
    if isinstance(limit, dict):
        return {str(name): float(value) for name, value in limit.items()}
    if isinstance(limit, str):
        limit = json.loads(limit)
    if isinstance(limit, list):
        return {str(i): float(value) for i, value in enumerate(limit)}
    return {"cost": float(limit)}
