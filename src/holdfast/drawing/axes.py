# SPDX-License-Identifier: Apache-2.0
"""Figures of matplotlib in one style: axes, limits, curves with bands, and files without dates.

matplotlib is imported when a figure is drawn, so that commands without figures start at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.drawing.palette import LIMIT

if TYPE_CHECKING:
    from matplotlib.figure import Figure

UNDATED: dict[str, dict[str, Any]] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}


def figure_of(
    rows: int, columns: int, size: tuple[float, float], **options: Any
) -> tuple[Figure, Any]:
    """A figure and its axes [rows, columns]; no window system, no global state."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.subplots(rows, columns, squeeze=False, **options)


def open_frame(axes: Any) -> None:
    """Axes without a frame at the top and on the right, with a faint grid."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25, lw=0.5)


def draw_limit(axes: Any, limit: float, colour: str = LIMIT, *, labelled: bool = False) -> None:
    """A dashed horizontal line at a limit, with its number at the left end if `labelled`."""
    axes.axhline(limit, color=colour, ls="--", lw=1)
    if labelled:
        axes.annotate(
            f"limit {limit:g}",
            (0, limit),
            xycoords=("axes fraction", "data"),
            xytext=(3, 3),
            textcoords="offset points",
            fontsize=8,
            color=colour,
        )


def draw_curve(
    axes: Any,
    x: Any,
    value: Any,
    colour: Any,
    band: tuple[Any, Any] | None = None,
    **style: Any,
) -> None:
    """A curve, with a band from low to high if there is one; `style` is that of `plot`."""
    shade = style.pop("shade", 0.08)
    axes.plot(x, value, color=colour, **{"lw": 1.2} | style)
    if band is not None:
        axes.fill_between(x, *band, color=colour, alpha=shade, lw=0)


def write_formats(figure: Figure, stem: Path, formats: Sequence[str], dpi: int) -> list[Path]:
    """Write the figure as `stem` with each suffix; equal figures give equal files."""
    files: list[Path] = []
    for kind in formats:
        files.append(stem.with_name(f"{stem.name}.{kind}"))
        figure.savefig(files[-1], dpi=dpi, metadata=UNDATED.get(kind))
    return files
