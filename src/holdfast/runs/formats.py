# SPDX-License-Identifier: Apache-2.0
"""What runs look like on disk: our folders, those of SafePO and OmniSafe, published tables."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from holdfast.runs.log import PUBLISHED_LIMIT, RunLog, Setting, flatten
from holdfast.runs.progress import NAMES, read_progress

# Columns of a published Parquet table: what tells runs apart, what it needs, what is progress.
IDENTITY = ("experiment", "variant", "algorithm", "task", "seed", "run_started")
REQUIRED = ("algorithm", "task", "seed", "env_steps", "ep_return", "ep_cost")
PROGRESS = frozenset(
    "epoch env_steps ep_return ep_cost ep_length cost_regret kl divergence recovering optim_case "
    "acceptance_step stop_iter lagrange_multiplier steps_per_second time_rollout time_update "
    "time_total".split()
)


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


def read_parquet(file: Path, cost_limit: float) -> list[RunLog]:
    """All runs of a table, one row per run and epoch.

    Further progress columns are taken over under their names; every other column is a setting of
    the run (its first row speaks). A run counts as done when it reaches the table's last step.
    """
    try:
        from pyarrow import parquet
    except ImportError as error:
        raise RuntimeError(
            f"reading {file.name} needs pyarrow, which is not installed: "
            "run `pip install 'holdfast[parquet]'`."
        ) from error
    table: Any = parquet.read_table(file)
    missing = [name for name in REQUIRED if name not in table.column_names]
    if missing:
        raise ValueError(f"the table lacks {', '.join(missing)}; every run needs {REQUIRED}")
    names = [n for n in table.column_names if not n.startswith(("in_", "ep_cost_regret"))]
    data = {name: table[name].to_numpy(zero_copy_only=False) for name in names}
    end = float(np.max(data["env_steps"])) if table.num_rows else 0.0
    return [_run(data, rows, file, end, cost_limit) for rows in _runs(data)]


def _runs(data: dict[str, Any]) -> list[Any]:
    """Row numbers of each run, ordered by steps, whatever the order of the table."""
    codes = [np.unique(data[n].astype(str), return_inverse=True)[1] for n in IDENTITY if n in data]
    order = np.lexsort([data["env_steps"], *reversed(codes)])
    stacked = np.stack(codes)[:, order]
    cuts = np.flatnonzero(np.any(stacked[:, 1:] != stacked[:, :-1], axis=0)) + 1
    return np.split(order, cuts) if order.size else []


def _run(data: dict[str, Any], rows: Any, file: Path, end: float, cost_limit: float) -> RunLog:
    first = rows[0]
    columns = {
        name: np.asarray(data[name][rows], np.float64)
        for name in data
        if name in PROGRESS or name.startswith(("ep_cost/", "cost_regret/"))
    }
    if "optim_case" in columns:  # published logs count reward steps, we count recovery steps
        columns["recovering"] = 1.0 - columns.pop("optim_case")
    settings = {
        name: _plain(values[first])
        for name, values in data.items()
        if name not in columns and name not in (*IDENTITY[2:], "optim_case")
    }
    limit = settings.pop("cost_limit", None)
    identity = [str(data[name][first]) for name in IDENTITY if name in data]
    return RunLog(
        algorithm=str(data["algorithm"][first]),
        task=str(data["task"][first]),
        seed=int(data["seed"][first]),
        limits={"cost": cost_limit if limit is None else float(limit)},
        columns={name: values for name, values in columns.items() if np.isfinite(values).any()},
        config={name: value for name, value in settings.items() if value is not None},
        done=bool(columns["env_steps"][-1] >= end),
        budget=int(end),
        source=file.stem,
        path=f"{file}#{'/'.join(identity)}",
    )


def _plain(value: Any) -> Setting:
    """A Python value for a table entry; missing entries are None, float32 loses its tail."""
    if isinstance(value, (float, np.floating)):
        return float(f"{value:.7g}") if np.isfinite(value) else None
    return value.item() if isinstance(value, np.generic) else value
