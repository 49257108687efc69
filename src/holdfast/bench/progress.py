# SPDX-License-Identifier: Apache-2.0
"""Reading progress.csv while it is being written.

A run may die, or still be at work, in the middle of a line: whatever follows the last line break is
not yet a row. A resumed run writes the epochs after its last checkpoint a second time: the later
row of an epoch is the true one.
"""

import io
from pathlib import Path

import numpy as np

from holdfast.core.stats import Array

# Column names of SafePO and OmniSafe in our words.
NAMES = {
    "Metrics/EpRet": "ep_return",
    "Metrics/EpCost": "ep_cost",
    "Metrics/EpLen": "ep_length",
    "Train/Epoch": "epoch",
    "Train/TotalSteps": "env_steps",
    "TotalEnvSteps": "env_steps",
    "Train/KL": "kl",
    "Train/div": "divergence",
    "Time/Rollout": "time_rollout",
    "Time/Update": "time_update",
    "Time/Total": "time_total",
    "Time/FPS": "steps_per_second",
}
WORDS = {"": np.nan, "None": np.nan, "True": 1.0, "False": 0.0, "true": 1.0, "false": 0.0}


def read_progress(file: Path) -> dict[str, Array]:
    """Columns of a progress file; no rows yet, or no file, gives empty columns."""
    text = file.read_text() if file.exists() else ""
    header, _, body = text[: text.rfind("\n") + 1].partition("\n")
    names = header.strip().split(",")
    if not body.strip():
        empty = names if header.strip() else ["env_steps", "ep_return", "ep_cost"]
        return {name: np.zeros(0) for name in empty}
    try:
        table = np.loadtxt(io.StringIO(body), delimiter=",", ndmin=2)
    except ValueError:  # empty fields or words: rare, so the slow way may be slow
        table = _patiently(body, len(names), file)
    if table.shape[1] != len(names):
        raise ValueError(
            f"{file.name} has {len(names)} names and {table.shape[1]} columns: it was not written "
            "by one run; remove it or repair its first line."
        )
    return _latest({name: table[:, i] for i, name in enumerate(names)})


def tail(file: Path, size: int = 8192) -> dict[str, float]:
    """The newest whole row, read from the end of the file; empty before the first."""
    try:
        with open(file, "rb") as stream:
            header = stream.readline().decode()
            start = stream.tell()
            end = stream.seek(0, 2)
            stream.seek(max(start, end - size))
            rows = stream.read().decode(errors="replace")
    except FileNotFoundError:
        return {}
    whole = rows[: rows.rfind("\n") + 1].splitlines()
    names = header.strip().split(",")
    if not whole or whole[-1].count(",") != len(names) - 1:
        return {}
    fields = zip(names, whole[-1].split(","), strict=True)
    return {name: _number(field, file) for name, field in fields}


def _patiently(body: str, width: int, file: Path) -> Array:
    rows = [line.split(",") for line in body.splitlines() if line.strip()]
    for number, row in enumerate(rows, start=2):
        if len(row) != width:
            raise ValueError(
                f"line {number} of {file.name} has {len(row)} fields, its header {width}: "
                "remove the line or the file."
            )
    return np.array([[_number(field, file) for field in row] for row in rows], np.float64)


def _number(field: str, file: Path) -> float:
    field = field.strip()
    if field in WORDS:
        return WORDS[field]
    try:
        return float(field)
    except ValueError:
        raise ValueError(f"'{field}' in {file.name} is not a number: repair the field.") from None


def _latest(columns: dict[str, Array]) -> dict[str, Array]:
    order = columns.get("epoch", columns.get("Train/Epoch"))
    if order is None or np.all(np.diff(order) > 0):
        return columns
    _, backwards = np.unique(order[::-1], return_index=True)  # first from behind = last written
    keep = order.size - 1 - backwards
    return {name: values[keep] for name, values in columns.items()}
