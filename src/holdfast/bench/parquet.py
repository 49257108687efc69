# SPDX-License-Identifier: Apache-2.0
"""Published results as one Parquet table: one row per run and epoch.

Required columns: algorithm, task, seed, env_steps, ep_return, ep_cost. Further progress columns are
taken over under their names; every other column is a setting of the run (its first row speaks).
"""

from pathlib import Path
from typing import Any

import numpy as np

from holdfast.bench.runlog import RunLog, Setting

IDENTITY = ("experiment", "variant", "algorithm", "task", "seed", "run_started")
REQUIRED = ("algorithm", "task", "seed", "env_steps", "ep_return", "ep_cost")
PROGRESS = frozenset(
    "epoch env_steps ep_return ep_cost ep_length cost_regret kl divergence recovering optim_case "
    "acceptance_step stop_iter lagrange_multiplier steps_per_second time_rollout time_update "
    "time_total".split()
)


def read_parquet(file: Path, cost_limit: float) -> list[RunLog]:
    """All runs of a table; a run counts as done when it reaches the table's last step."""
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
