# SPDX-License-Identifier: Apache-2.0
"""CMDPs as JSON files: the fields of FiniteCMDP by their names, kernels dense or as entries.

    {"gamma": 0.9, "initial": [0.8, 0.2], "reward": [[1, 0], [2, 0]],
     "cost": [[[0.1, 0], [1, 0.01]]], "cost_limit": [0.2],
     "transition": [[[1, 0], [0, 1]], [[0, 1], [1, 0]]]}

A sparse kernel is a list of entries [s, a, s', p] under "entries" instead of "transition".
"""

import json
from pathlib import Path
from typing import Any, cast

import numpy as np
from scipy import sparse

from holdfast.files import MB, content, json_value
from holdfast.tabular.cmdp import FiniteCMDP, Floats, read_array

LARGEST = 128 * MB
"""Largest size of a file in bytes: a dense kernel of two hundred states and actions, or millions of
entries.
"""
FIELDS = ("reward", "cost", "cost_limit", "initial", "gamma")


def read_cmdp(file: str | Path) -> FiniteCMDP:
    """Read a CMDP from a JSON file; a ValueError names what is missing or wrong."""
    try:
        data = json_value(content(Path(file), LARGEST), file)
    except FileNotFoundError:
        raise ValueError(f"there is no file '{file}'; check the path.") from None
    if not isinstance(data, dict):
        raise ValueError(f"{file} must be one JSON object with the fields {', '.join(FIELDS)}.")
    missing = [name for name in FIELDS if name not in data]
    if "transition" not in data and "entries" not in data:
        missing.append("transition")
    if missing:
        raise ValueError(f"{file} lacks {', '.join(missing)}; `write_cmdp` shows the format.")
    given: Any = data["cost_limit"]
    if not isinstance(given, list):
        raise ValueError(f"cost_limit in {file} must be a list with a limit for each cost.")
    limit = read_array(
        "cost_limit", [np.inf if b is None else b for b in cast("list[Any]", given)], 1
    )
    reward = read_array("reward", data["reward"], 2)
    kernel = data["transition"] if "transition" in data else _kernel(data["entries"], reward)
    return FiniteCMDP(kernel, reward, data["cost"], limit, data["initial"], data["gamma"])


def _kernel(entries: Any, reward: Floats) -> Any:
    table = read_array("entries", entries, 2)
    if table.shape[1] != 4:
        raise ValueError(f"entries has shape {table.shape}; give rows [s, a, s', p].")
    states, actions = reward.shape
    at = table[:, :3]
    known = (at >= 0) & (at < (states, actions, states)) & (at == np.floor(at))
    inside = np.all(known, axis=1)
    if not np.all(inside):
        row = int(np.argmin(inside))
        raise ValueError(
            f"entries[{row}] = {table[row].tolist()} points outside the {states} states and "
            f"{actions} actions; both are counted from 0."
        )
    state, action, successor = at.astype(int).T
    where = (state * actions + action, successor)
    return sparse.coo_array((table[:, 3], where), shape=(states * actions, states))


def write_cmdp(cmdp: FiniteCMDP, file: str | Path) -> None:
    """Write a CMDP as JSON, the kernel dense or as entries by its type; inf becomes null."""
    data: dict[str, Any] = {
        "gamma": cmdp.gamma,
        "initial": cmdp.initial.tolist(),
        "reward": cmdp.reward.tolist(),
        "cost": cmdp.cost.tolist(),
        "cost_limit": [None if np.isinf(b) else b for b in cmdp.cost_limit.tolist()],
    }
    if cmdp.is_sparse:
        table = sparse.coo_array(cmdp.kernel)
        row, column = table.coords
        state, action = np.divmod(row, cmdp.num_actions)
        columns = (state.tolist(), action.tolist(), column.tolist(), table.data.tolist())
        data["entries"] = [list(entry) for entry in zip(*columns, strict=True)]
    else:
        data["transition"] = cmdp.transition.tolist()
    Path(file).write_text(json.dumps(data) + "\n", encoding="utf-8")
