# SPDX-License-Identifier: Apache-2.0
"""File formats of runs: our folders, those of SafePO and OmniSafe, published tables."""

from pathlib import Path
from typing import Any, cast

import numpy as np

from holdfast.files import MALFORMED, MB, json_value, read_json, reason, refuse_links
from holdfast.process import optional
from holdfast.records.log import PUBLISHED_LIMIT, RunLog, Scalar, dotted, read_limits
from holdfast.records.rows import EVALUATIONS, NAMES, read_evaluations, read_progress

# Columns of a published Parquet table: keys of a run, required ones, progress.
IDENTITY = ("experiment", "variant", "algorithm", "task", "seed", "run_started")
LARGEST = 2048 * MB
"""Largest size of a table in memory, in bytes."""
REQUIRED = ("algorithm", "task", "seed", "env_steps", "ep_return", "ep_cost")
PROGRESS = frozenset(
    "epoch env_steps ep_return ep_cost ep_length cost_regret kl divergence recovering optim_case "
    "acceptance_step stop_iter lagrange_multiplier steps_per_second time_rollout time_update "
    "time_total".split()
)


def read_run(folder: Path) -> RunLog:
    """A run folder of Holdfast: run.json, progress.csv, done.json written last."""
    refuse_links(folder, ("run.json", "progress.csv", EVALUATIONS))
    record = read_json(folder / "run.json")
    run: dict[str, Any] = record["run"]
    config = dotted(run) | dotted(record.get("versions") or {}, "versions.")
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
        evaluations=read_evaluations(folder),
    )


def read_foreign(folder: Path) -> RunLog:
    """A run folder of SafePO (…/task/algorithm/seed-…) or OmniSafe (…/Algo-{task}/seed-…)."""
    refuse_links(folder, ("config.json", "progress.csv"))
    file = folder / "config.json"
    config = dotted(read_json(file)) if file.exists() else {}
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
    if isinstance(limit, str):
        limit = json_value(limit, "cost_limit")
    if isinstance(limit, list):
        limit = dict(enumerate(cast("list[Any]", limit)))
    return read_limits(
        cast("dict[str, Any]", limit) if isinstance(limit, dict) else {"cost": limit}
    )


def read_parquet(file: Path, cost_limit: float) -> list[RunLog]:
    """All runs of a table, one row per run and epoch.

    Further progress columns keep their names. Every other column is a setting of the run; its value
    is in the run's first row. A run is done when it reaches the table's last step.
    """
    data = _columns(optional("pyarrow.parquet", "parquet", f"reading {file.name}"), file)
    end = float(np.max(data["env_steps"])) if data["env_steps"].size else 0.0
    return [_run(data, rows, file, end, cost_limit) for rows in _runs(data)]


def _columns(parquet: Any, file: Path) -> dict[str, Any]:
    """The table's columns in NumPy; size and types are checked."""
    from pyarrow import ArrowException

    if not file.is_file():
        raise ValueError("it is not a plain file")
    try:
        about = parquet.read_metadata(file)
        groups = [about.row_group(i) for i in range(about.num_row_groups)]
        cells, size = about.num_rows * about.num_columns, sum(g.total_byte_size for g in groups)
        if max(cells * 8, size, file.stat().st_size) > LARGEST:
            raise ValueError(f"its size is more than {LARGEST // MB} MB by its own header")
        table: Any = parquet.read_table(file)
        names = [n for n in table.column_names if not n.startswith(("in_", "ep_cost_regret"))]
        missing = [name for name in REQUIRED if name not in names]
        if missing:
            raise ValueError(f"the table lacks {', '.join(missing)}; every run needs {REQUIRED}")
        data = {name: table[name].to_numpy(zero_copy_only=False) for name in names}
        for name in data:
            if name in (*REQUIRED[2:], "cost_limit") or _is_progress(name):
                data[name] = table[name].cast("float64").to_numpy(zero_copy_only=False)
    except (ArrowException, OSError, *MALFORMED) as error:
        raise ValueError(f"it is not a table of runs ({reason(error)})") from None
    if not np.isfinite(data["seed"]).all() or not np.isfinite(data["env_steps"]).all():
        raise ValueError("every row of the table needs a seed and its env_steps")
    return data


def _is_progress(name: str) -> bool:
    return name in PROGRESS or name.startswith(("ep_cost/", "cost_regret/"))


def _runs(data: dict[str, Any]) -> list[Any]:
    """Row numbers of each run, sorted by steps."""
    codes = [np.unique(data[n].astype(str), return_inverse=True)[1] for n in IDENTITY if n in data]
    order = np.lexsort([data["env_steps"], *reversed(codes)])
    stacked = np.stack(codes)[:, order]
    cuts = np.flatnonzero(np.any(stacked[:, 1:] != stacked[:, :-1], axis=0)) + 1
    return np.split(order, cuts) if order.size else []


def _run(data: dict[str, Any], rows: Any, file: Path, end: float, cost_limit: float) -> RunLog:
    first = rows[0]
    columns = {name: data[name][rows] for name in data if _is_progress(name)}
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
        limits=_limits(cost_limit if limit is None else limit),
        columns={name: values for name, values in columns.items() if np.isfinite(values).any()},
        config={name: value for name, value in settings.items() if value is not None},
        done=bool(columns["env_steps"][-1] >= end),
        budget=int(end),
        source=file.stem,
        path=f"{file}#{'/'.join(identity)}",
    )


def _plain(value: Any) -> Scalar:
    """A Python value for a table entry; missing entries are None, float32 is rounded to its
    digits.
    """
    if isinstance(value, (float, np.floating)):
        return float(f"{value:.7g}") if np.isfinite(value) else None
    plain = value.item() if isinstance(value, np.generic) else value
    return plain if plain is None or isinstance(plain, str | int | float | bool) else str(plain)
