# SPDX-License-Identifier: Apache-2.0
"""Style and writing of figures: one set of colours, and files without dates."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INK, GREY = "#1b1b1b", "#8a8a8a"
BLUE, ORANGE, GREEN, RED, PURPLE = "#2f6db5", "#d9822b", "#2a9d74", "#c8443c", "#7b5ea7"
SERIES = (BLUE, GREEN, ORANGE, RED, PURPLE)
"""Colours of curves, in turn."""
CONSTRAINTS = (BLUE, GREEN, PURPLE, ORANGE, "#40818f")
"""Colours of constraints, in turn; red marks a value above a limit."""
LIMIT, SAFE, STOPPED = "#c2410c", "#1a8754", "#9aa3b5"
"""Colours of limits and violations, of values within limits, and of early ends; as on the pages."""
UNDATED: dict[str, dict[str, Any]] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}


def write_formats(figure: Figure, stem: Path, formats: Sequence[str], dpi: int) -> list[Path]:
    """Write the figure as `stem` with each suffix; equal figures give equal files."""
    files: list[Path] = []
    for kind in formats:
        files.append(stem.with_name(f"{stem.name}.{kind}"))
        figure.savefig(files[-1], dpi=dpi, metadata=UNDATED.get(kind))
    return files
