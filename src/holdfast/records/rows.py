# SPDX-License-Identifier: Apache-2.0
"""Reading progress.csv: a row for each epoch, floats to the last bit.

A run may be killed, or still be writing, in the middle of a line: text after the last line break is
not a row. A resumed run repeats the epochs after its last checkpoint: the last row of an epoch
counts. A row with another number of fields than the header is an error.
"""

import csv
import io
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from holdfast.files import MB, text
from holdfast.records.statistics import Array

Row = Mapping[str, float | int]

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
EVALUATIONS = "evaluations.csv"
"""The record of evaluations while training, in the same form."""
LARGEST = 256 * MB
"""Largest size of a record in bytes: a million epochs."""
WHOLE = re.compile("-?[0-9]{1,18}")
WORDS = {"": np.nan, "None": np.nan, "True": 1.0, "False": 0.0, "true": 1.0, "false": 0.0}


def costs_of(row: Row, limits: Mapping[str, float]) -> list[tuple[str, float, float]]:
    """(name, cost, limit) of each constraint; the cost is this epoch's own, as in the regret."""
    part = lambda name: f"/{name}" if len(limits) > 1 else ""
    return [(name, own(row, "ep_cost", part(name)), limit) for name, limit in limits.items()]


def own(row: Row, name: str, part: str = "") -> float:
    """The mean of this epoch's own episodes; the smoothed value if that is not logged."""
    raw = float(row.get(f"{name}_raw{part}", np.nan))
    return float(row.get(f"{name}{part}", 0.0)) if np.isnan(raw) else raw


def read_rows(file: Path) -> list[dict[str, float | int]]:
    """All rows, each number exact to the last bit."""
    exact = lambda field: int(field) if WHOLE.fullmatch(field) else _number(field, file)
    names, lines = _whole_lines(file)
    rows = [dict(zip(names, map(exact, line.split(",")), strict=True)) for line in lines]
    return list({row["epoch"]: row for row in rows}.values()) if "epoch" in names else rows


def rows_until(file: Path, epoch: int) -> list[dict[str, float | int]]:
    """The rows of the first epochs."""
    rows = read_rows(file)
    if rows and "epoch" not in rows[0]:
        raise ValueError(
            f"{file.name} has no column 'epoch': remove it, or restore its first line."
        )
    return [row for row in rows if row["epoch"] <= epoch]


def columns_of(rows: Sequence[Row]) -> dict[str, Array]:
    """Rows as columns; NaN where a row has no such number."""
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: np.array([float(row.get(name, np.nan)) for row in rows]) for name in names}


def _whole_lines(file: Path) -> tuple[list[str], list[str]]:
    """(names, lines of numbers); text after the last line break is not a row."""
    record = text(file, LARGEST) if file.exists() else ""
    header, *lines = record[: record.rfind("\n") + 1].splitlines() or [""]
    names, lines = _names(header, file), [line for line in lines if line.strip()]
    for number, line in enumerate(lines, start=2):
        if line.count(",") + 1 != len(names):
            raise ValueError(
                f"line {number} of {file.name} has {line.count(',') + 1} fields, its header "
                f"{len(names)}: remove the line or the file."
            )
    return names, lines


def _names(header: str, file: Path) -> list[str]:
    try:
        names = next(csv.reader([header.strip()]), [])
    except csv.Error as error:
        raise ValueError(
            f"the first line of {file.name} is not a list of names ({error}); "
            "restore the file from a copy."
        ) from None
    if len(set(names)) < len(names):
        raise ValueError(f"the first line of {file.name} names a column twice.")
    return names


def read_progress(file: Path) -> dict[str, Array]:
    """Columns of a progress file; empty without rows or without a file."""
    names, rows = _whole_lines(file)
    if not rows:
        return {name: np.zeros(0) for name in names or ("env_steps", "ep_return", "ep_cost")}
    try:
        table = np.loadtxt(io.StringIO("\n".join(rows)), delimiter=",", ndmin=2, comments=None)
    except ValueError:  # empty fields or words: rare, so the slow way may be slow
        fields = [[_number(field, file) for field in row.split(",")] for row in rows]
        table = np.array(fields, np.float64)
    return _latest({name: table[:, i] for i, name in enumerate(names)})


def read_evaluations(folder: Path) -> dict[str, Array]:
    """Columns of evaluations.csv; empty if a run has no such file."""
    file = folder / EVALUATIONS
    columns = read_progress(file) if file.is_file() else {}
    needed = ("env_steps", "return", "cost", "safe")
    missing = [name for name in needed if name not in columns] if columns else []
    if missing and any(values.size for values in columns.values()):
        raise ValueError(f"'{file}' has no column '{missing[0]}': remove it.")
    return {} if missing else columns


def tail(file: Path, size: int = 8192) -> dict[str, float]:
    """The newest whole row, read from the end of the file; empty if there is none."""
    try:
        with open(file, "rb") as stream:
            header = stream.readline(MB).decode(errors="replace")
            start = stream.tell()
            end = stream.seek(0, 2)
            stream.seek(max(start, end - size))
            rows = stream.read().decode(errors="replace")
    except FileNotFoundError:
        return {}
    whole = rows[: rows.rfind("\n") + 1].splitlines()
    names = _names(header, file)
    if not whole or whole[-1].count(",") != len(names) - 1:
        return {}
    fields = zip(names, whole[-1].split(","), strict=True)
    return {name: _number(field, file) for name, field in fields}


def _number(field: str, file: Path) -> float:
    field = field.strip()
    if field in WORDS:
        return WORDS[field]
    try:
        return float(field)
    except ValueError:
        raise ValueError(
            f"'{field[:80]}' in {file.name} is not a number: repair the field."
        ) from None


def _latest(columns: dict[str, Array]) -> dict[str, Array]:
    order = columns.get("epoch", columns.get("Train/Epoch"))
    if order is None or np.all(np.diff(order) > 0):
        return columns
    _, backwards = np.unique(order[::-1], return_index=True)  # first from behind = last written
    keep = order.size - 1 - backwards
    return {name: values[keep] for name, values in columns.items()}
