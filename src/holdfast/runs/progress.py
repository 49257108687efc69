# SPDX-License-Identifier: Apache-2.0
"""Writing progress.csv, a row for each epoch, floats to the last bit; `records.rows` reads it."""

import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from holdfast.files import write_atomic, write_durably
from holdfast.records.rows import Row, rows_until


class ProgressFile:
    """The sink that writes progress.csv. On resuming, rows after `epoch` are dropped, since these
    epochs run again.
    """

    def __init__(self, path: Path, epoch: int = 0) -> None:
        self.path = path
        kept = rows_until(path, epoch)
        self.names = list(kept[0]) if kept else []
        if path.exists():
            write_rows(path, kept)

    def write(self, env_steps: int, metrics: Row) -> None:
        lines = ""
        if not self.names:
            self.names = list(metrics)
            lines = _line(self.names)
        # A column of an older version, which nobody fills any more, stays empty.
        lines += _line(_shortest(metrics.get(name, np.nan)) for name in self.names)
        with self.path.open("ab") as file:
            write_durably(file, lines.encode())

    def close(self) -> None:
        """Nothing to do: no file stays open."""


def write_rows(file: Path, rows: Sequence[Row]) -> None:
    """Write a whole progress file at once."""
    lines = [list(rows[0]), *(map(_shortest, row.values()) for row in rows)] if rows else []
    write_atomic(file, "".join(map(_line, lines)).encode())


def _line(fields: Iterable[str]) -> str:
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow(fields)
    return line.getvalue()


def _shortest(value: float | int) -> str:
    """A text that parses to exactly the same number."""
    return str(value) if isinstance(value, int) else repr(float(value))
