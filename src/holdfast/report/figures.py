# SPDX-License-Identifier: Apache-2.0
"""The report's figures for papers, as PNG, SVG and PDF."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from holdfast.drawing.axes import draw_curve, draw_limit, figure_of, write_formats
from holdfast.drawing.palette import INK, LIGHT, LIMIT, METHODS
from holdfast.report.curves import CURVES, Curve
from holdfast.report.finals import Pair
from holdfast.report.html import limits, short
from holdfast.report.summary import METRICS, Summary, printed

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS = ("png", "svg", "pdf")
TITLES = {
    "excess": "final cost / limit − 1",
    "reward": "normalised return",
    "regret": "normalised cost regret",
    "cost": "cost",
}
STYLE: dict[Any, Any] = {
    "font.size": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": LIGHT["line"],
    "axes.axisbelow": True,
    "legend.frameon": False,
    "svg.fonttype": "none",
    "pdf.fonttype": 42,
}


def write_figures(
    out: Path, summary: Summary, drawn: Mapping[Pair, Mapping[str, Curve]]
) -> list[Path]:
    """Write every figure in every format under `out`; returns the files."""
    from matplotlib import rc_context

    out.mkdir(parents=True, exist_ok=True)
    files: list[Path] = []
    with rc_context(STYLE):
        figures = {
            "aggregate": aggregate(summary),
            "pareto": pareto(summary),
            "profiles": profiles(summary),
            "curves": learning(summary, drawn),
        }
        if summary.layout == "paper":
            safe = summary.groups["safe"]
            figures["curves-safe"] = learning(summary, drawn, safe) if safe else None
        for name, made in figures.items():
            if made is None:
                continue
            made.draw_without_rendering()
            made.set_layout_engine(None)  # laid out once, not again for each format
            files += write_formats(made, out / name, FORMATS, dpi=160)
    return files


def colours(summary: Summary) -> dict[str, str]:
    """The page's colours: algorithms with results on all tasks come first."""
    ranked = sorted(summary.labels, key=lambda label: label in summary.partial)
    return {label: METHODS[i % len(METHODS)] for i, label in enumerate(ranked)}


def aggregate(summary: Summary) -> "Figure | None":
    """IQM bars with intervals, the probably safe methods above the others."""
    titled = reversed(summary.groups.items())
    by_regret = lambda name: -summary.aggregate[name]["regret"].value
    ordered = lambda names: (
        list(reversed(names)) if summary.layout == "paper" else sorted(names, key=by_regret)
    )
    groups = {title: ordered(names) for title, names in titled if names}
    safest = next(iter(summary.groups.values()))
    rows = [name for names in groups.values() for name in names]
    if not rows:
        return None
    figure, axes = figure_of(1, 3, (9.0, 1.2 + 0.24 * len(rows)), sharey=True)
    tint, y = colours(summary), np.arange(len(rows), dtype=float)
    starts = np.cumsum([0, *(len(names) for names in groups.values())])
    for start in starts[1:-1]:
        y[start:] += 0.6
    for axis, metric in zip(axes.flat, METRICS, strict=True):
        top = _reach([printed(summary, n, metric).high for n in rows])
        for height, name in zip(y, rows, strict=True):
            e, safe = printed(summary, name, metric), name in safest
            axis.barh(height, min(e.value, top), 0.66, color=tint[name], alpha=0.9 if safe else 0.4)
            if e.value <= top:
                axis.plot([e.low, min(e.high, top)], [height] * 2, color=INK, lw=1.2)
            else:
                axis.text(top, height, f"{e.value:.3g} ▸", ha="right", va="center", fontsize=7)
        title = TITLES[metric].removesuffix(" − 1" if summary.limit_at else "")
        axis.set(title=title, yticks=y, yticklabels=rows)
        axis.grid(axis="y", visible=False)
    axes.flat[0].axvline(summary.limit_at, color=LIMIT, ls="--", lw=1)
    for group, first, after in zip(groups, starts[:-1], starts[1:], strict=True):
        middle = float(y[first:after].mean())
        place = {"xy": (1.01, middle), "xycoords": ("axes fraction", "data")}
        axes.flat[2].annotate(group, **place, rotation=270, va="center")
    return figure


def pareto(summary: Summary) -> "Figure | None":
    """Return against regret with both intervals; hollow markers are not probably safe."""
    if not summary.aggregate:
        return None
    figure, axes = figure_of(1, 1, (5.5, 3.6))
    axis, tint = axes.flat[0], colours(summary)
    points: dict[str, tuple[float, float]] = {}
    for name, estimates in summary.aggregate.items():
        x, y = estimates["regret"], estimates["reward"]
        low, value, high = np.maximum(1e-3, [x.low, x.value, x.high])
        face = tint[name] if name in summary.safe else "white"
        axis.plot([low, high], [y.value] * 2, color=tint[name], lw=0.8)
        axis.plot([value] * 2, [y.low, y.high], color=tint[name], lw=0.8)
        axis.plot(value, y.value, "o", mfc=face, mec=tint[name], ms=6)
        points[name] = (float(value), y.value)
    axis.set(xscale="log", xlabel=TITLES["regret"], ylabel=TITLES["reward"])
    axis.margins(x=0.12)
    figure.draw_without_rendering()  # names are placed among the markers' final places
    _annotate(axis, points, tint)
    return figure


def _annotate(
    axis: Any, points: Mapping[str, tuple[float, float]], tint: Mapping[str, str]
) -> None:
    """Place each name where it covers the fewest markers and earlier names."""
    scale = 72.0 / axis.figure.dpi
    at = {name: axis.transData.transform(point) * scale for name, point in points.items()}
    taken = [(x - 4, y - 4, 8.0, 8.0) for x, y in at.values()]

    def covered(x: float, y: float, wide: float) -> float:
        across = [min(x + wide, a + c) - max(x, a) for a, _, c, _ in taken]
        along = [min(y + 9, b + d) - max(y, b) for _, b, _, d in taken]
        return sum(max(0.0, u) * max(0.0, v) for u, v in zip(across, along, strict=True))

    for name, (x, y) in sorted(at.items(), key=lambda item: -item[1][1]):
        wide = 4.5 * len(name)
        spots = [(dx, dy) for dy in (4, -11, 14, -21, 24) for dx in (5, -5 - wide, -wide / 2)]
        best = min(spots, key=lambda spot: covered(x + spot[0], y + spot[1], wide))
        taken.append((x + best[0], y + best[1], wide, 9.0))
        axis.annotate(name, points[name], best, textcoords="offset points", color=tint[name])


def profiles(summary: Summary) -> "Figure | None":
    """Run-score distributions with pointwise 95 % bands."""
    if not summary.aggregate:
        return None
    figure, axes = figure_of(1, 2, (9.0, 3.0), sharey=True)
    tint = colours(summary)
    for axis, metric in zip(axes.flat, ("reward", "regret"), strict=True):
        for name, p in summary.profiles[metric].items():
            draw_curve(
                axis, p.thresholds, p.share, tint[name], (p.low, p.high), label=name, shade=0.06
            )
        axis.set(xlabel=f"threshold τ of {TITLES[metric]}", ylim=(0, 1.02))
    axes.flat[0].set_ylabel("share of runs above τ")
    figure.legend(*axes.flat[1].get_legend_handles_labels(), loc="outside right center", fontsize=7)
    return figure


def learning(
    summary: Summary,
    drawn: Mapping[Pair, Mapping[str, Curve]],
    names: Sequence[str] | None = None,
) -> "Figure":
    """Per task return, cost with its limit, and regret; IQM and the band of each curve."""
    figure, axes = figure_of(len(summary.tasks), 3, (9.0, 1.9 * len(summary.tasks)))
    tint, shown = colours(summary), summary.labels if names is None else names
    for row, task in zip(axes, summary.tasks, strict=True):
        for axis, metric in zip(row, CURVES, strict=True):
            here = [(n, drawn[n, task][metric]) for n in shown if (n, task) in drawn]
            for name, c in here:
                style = {"ls": "--" if name in summary.partial else "-", "lw": 1, "label": name}
                draw_curve(axis, c.steps / 1e6, c.value, tint[name], (c.low, c.high), **style)
            bounds = limits(summary, task) if metric == "cost" else []
            for bound in bounds:
                draw_limit(axis, bound)
            if here:
                top = _reach([*(float(np.nanmax(c.high)) for _, c in here), *bounds])
                low = min(0.0, -_reach([-float(np.nanmin(c.low)) for _, c in here]))
                axis.set_ylim(low, max(top, 0.0) + 0.05 * (max(top, 0.0) - low) + 1e-9)
            axis.set_title(f"{short(task)}: {metric.replace('reward', 'return')}", fontsize=8)
    for axis in axes[-1]:
        axis.set_xlabel("environment steps (millions)")
    named = {
        t: h for axis in axes.flat for h, t in zip(*axis.get_legend_handles_labels(), strict=True)
    }
    figure.legend(named.values(), named.keys(), loc="outside upper center", ncol=5)
    return figure


def _reach(values: Sequence[float]) -> float:
    """The upper end of an axis; see `reach` in charts.js."""
    ordered = sorted((v for v in values if np.isfinite(v)), reverse=True)
    for k in range(len(ordered) // 4, 0, -1):
        if ordered[k] > 0 and ordered[k - 1] > 3 * ordered[k]:
            return ordered[k] * 1.12
    return ordered[0] if ordered else 1.0
