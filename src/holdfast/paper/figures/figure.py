# SPDX-License-Identifier: Apache-2.0
"""A figure: a matplotlib figure and its data, in one style."""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.figure import Figure

from holdfast.drawing.axes import write_formats
from holdfast.drawing.palette import SERIES

STYLE: Any = {
    "font.size": 8.5,
    "axes.titlesize": 9,
    "axes.labelsize": 8.5,
    "legend.fontsize": 7.5,
    "axes.linewidth": 0.7,
    "lines.linewidth": 1.3,
    "legend.frameon": False,
    "mathtext.fontset": "cm",
    "pdf.fonttype": 42,
    "svg.fonttype": "path",
    "svg.hashsalt": "holdfast",
}


@dataclass(frozen=True, eq=False)
class Drawing:
    """A finished figure and its data as a table."""

    figure: Figure
    columns: tuple[str, ...]
    rows: Sequence[Sequence[Any]]


@dataclass(frozen=True)
class Look:
    """Parameters of a figure in place of its defaults."""

    beta: tuple[float, ...] = ()
    """Weights of the barrier, at most five."""
    barrier: str | None = None
    """A key of `POTENTIALS`."""
    radius: float | None = None
    """Radius of trust regions and updates."""

    def __post_init__(self) -> None:
        if len(self.beta) > len(SERIES):
            raise ValueError(
                f"{len(self.beta)} values of beta are more than a figure has colours for; give at "
                f"most {len(SERIES)}."
            )


def canvas(width: float, height: float) -> Figure:
    """An empty figure of that size in inches, laid out without overlaps."""
    return Figure(figsize=(width, height), layout="constrained")


def save(drawing: Drawing, stem: Path, formats: Sequence[str]) -> list[Path]:
    """Write the figure in each format and its data as CSV; returns the files."""
    with rc_context(STYLE):
        files = write_formats(drawing.figure, stem, formats, dpi=220)
    files.append(stem.with_suffix(".csv"))
    with files[-1].open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(drawing.columns)
        writer.writerows([_rounded(value) for value in row] for row in drawing.rows)
    return files


def _rounded(value: Any) -> Any:
    return f"{value:.10g}" if isinstance(value, float) else value
