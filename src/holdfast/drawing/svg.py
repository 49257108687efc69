# SPDX-License-Identifier: Apache-2.0
"""Small charts as inline SVG, without scripts, in the page's colours."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from holdfast.drawing.palette import CONSTRAINT_INDICES

WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 520, 230, 46, 36, 36
Floats = NDArray[np.float64]
STYLE = """
svg { width: 100%; height: auto; max-width: 620px; display: block; margin: 10px 0; }
svg text { font: 13px system-ui, "DejaVu Sans", sans-serif; fill: var(--soft); }
svg .bar { fill: var(--accent); } svg .over { fill: var(--unsafe); } svg .dot { fill: var(--ink); }
svg line.axis { stroke: var(--line); } svg text.limit { fill: var(--unsafe); }
svg line.limit { stroke: var(--unsafe); stroke-dasharray: 5 4; }
svg line.mean { stroke: var(--ink); } svg text.mean { fill: var(--ink); }
svg .line { fill: none; stroke-width: 1.8; }
"""
"""CSS of the charts, in the colours of `page_colours`."""


def histogram(costs: Floats, limit: float, mean: float, name: str) -> str:
    """A histogram of the costs of episodes, with the limit and the mean."""
    most = max(float(costs.max()), 1.25 * limit, 1e-9)
    counts, edges = np.histogram(costs, bins=32, range=(0.0, most))
    x, y = _scale(0.0, most), _rise(float(counts.max()))
    bars = "".join(
        f'<rect class="{"over" if a >= limit else "bar"}" x="{x(a) + 0.5:.1f}" y="{y(n):.1f}" '
        f'width="{max(x(b) - x(a) - 1, 1):.1f}" height="{y(0) - y(n):.1f}"/>'
        for n, a, b in zip(counts.tolist(), edges[:-1], edges[1:], strict=True)
        if n
    )
    lines = _marks((x(limit), f"limit {limit:g}", "limit"), (x(mean), f"mean {mean:.3g}", "mean"))
    label = f"Histogram of the {name} of {len(costs)} episode{'s' * (len(costs) != 1)}"
    return _svg(label, bars + lines + _axes(0.0, most, float(counts.max()), name, "episodes"))


def curves(
    steps: Floats, values: Floats, limits: Mapping[str, float], label: str, unit: str
) -> str:
    """Values [E, K] of constraints over steps, each with its limit; several have a legend."""
    series = [(steps, values[:, k], _colour(k)) for k in range(values.shape[1])]
    return lines(series, limits, label, "environment steps", unit)


def lines(
    series: Sequence[tuple[Floats, Floats, str]],
    limits: Mapping[str, float],
    label: str,
    across: str,
    up: str,
) -> str:
    """Curves (x, y, colour) from x = 0 on, and horizontal lines at the limits.

    Several limits are those of the curves, in this order, in the colours of constraints.
    """
    finite = np.concatenate([y[np.isfinite(y)] for _, y, _ in series])
    low = min(0.0, float(finite.min())) if finite.size else 0.0
    high = max(
        [float(finite.max()) if finite.size else 1.0, *(1.15 * b for b in limits.values()), 1e-9]
    )
    right = max(float(x[-1]) for x, _, _ in series)
    at_x, at_y = _scale(0.0, right), _rise(high, low)
    drawn = _legend(limits) if len(limits) > 1 else ""
    for xs, ys, colour in series:
        points = " ".join(
            f"{at_x(x):.1f},{at_y(y):.1f}" for x, y in zip(xs, ys, strict=True) if y == y
        )
        drawn += f'<polyline class="line" style="stroke:{colour}" points="{points}"/>'
    for k, limit in enumerate(limits.values()):
        at, several = at_y(limit), len(limits) > 1
        drawn += _line("limit", LEFT, at, WIDTH - 8, at, f"stroke:{_colour(k)}" if several else "")
        drawn += "" if several else _text("limit", WIDTH - 10, 13, f"limit {limit:g}", "end")
    return _svg(label, drawn + _axes(0.0, right, high, across, up, low))


def scatter(points: Sequence[tuple[float, float, str]], label: str, across: str, up: str) -> str:
    """Dots (x, y, colour) beside the limit x = 0, where values above it are unsafe."""
    xs, ys = [x for x, _, _ in points], [y for _, y, _ in points]
    left, right = min(0.0, *(1.05 * x for x in xs)), max(1e-9, *(1.05 * x for x in xs))
    low, high = min(0.0, *ys), max(1e-9, *(1.05 * y for y in ys))
    at_x, at_y = _scale(left, right), _rise(high, low)
    drawn = _line("limit", at_x(0.0), TOP, at_x(0.0), HEIGHT - BOTTOM)
    for x, y, colour in points:
        drawn += f'<circle cx="{at_x(x):.1f}" cy="{at_y(y):.1f}" r="4" style="fill:{colour}"/>'
    return _svg(label, drawn + _axes(left, right, high, across, up, low))


def _colour(k: int) -> str:
    """The colour of constraint `k` in the page's theme."""
    return f"var(--c{CONSTRAINT_INDICES[k % len(CONSTRAINT_INDICES)]})"


def _legend(limits: Mapping[str, float]) -> str:
    """The legend above the curves, with their limits: lines may be too close for labels."""
    drawn, x = "", 60.0
    for k, (name, limit) in enumerate(limits.items()):
        text = f"{name}: limit {limit:g}"
        drawn += _line("line", x, 9, x + 18, 9, f"stroke:{_colour(k)}") + _text(
            "axis", x + 23, 13, text
        )
        x += 34 + 6.6 * len(text)
    return drawn


def interval(value: float, low: float, high: float, label: str) -> str:
    """A probability with its interval, from 0 to 100 %."""
    x = _scale(0.0, 1.0)
    y, foot = 22, 46
    labels = "".join(
        _text("axis", x(t), foot, f"{t:.0%}", "end" if t == 1 else "middle")
        for t in (0.0, 0.25, 0.5, 0.75, 1.0)
    )
    body = _line("axis", x(0), y, x(1), y) + (
        f'<rect class="bar" x="{x(low):.1f}" y="{y - 5}" '
        f'width="{max(x(high) - x(low), 2):.1f}" height="10" rx="3"/>'
        f'<circle class="dot" cx="{x(value):.1f}" cy="{y}" r="6"/>'
    )
    return _svg(label, body + labels, 56)


def _scale(low: float, high: float):  # pyright: ignore[reportUnknownParameterType]
    width = WIDTH - LEFT - 16
    return lambda value: LEFT + width * (value - low) / max(high - low, 1e-12)


def _rise(high: float, low: float = 0.0):  # pyright: ignore[reportUnknownParameterType]
    span = HEIGHT - BOTTOM - TOP
    return lambda value: HEIGHT - BOTTOM - span * (value - low) / max(high - low, 1e-12)


def _marks(*given: tuple[float, str, str]) -> str:
    """Two vertical lines, (x, text, kind), with labels in two rows that no line crosses.

    Labels stand on the same side of their lines. On the right the left line has the upper row, so
    its line passes the lower row where no label begins yet; near the edge it is the other way.
    """
    at_edge = max(given)[0] > WIDTH - 90
    drawn = ""
    for height, (x, text, kind) in zip((20, 6), sorted(given, reverse=at_edge), strict=True):
        side, shift = ("end", -5) if at_edge and x > 2 * LEFT + 20 else ("start", 5)
        drawn += _line(kind, x, TOP - height - 9, x, HEIGHT - BOTTOM)
        drawn += _text(kind, x + shift, TOP - height, text, side)
    return drawn


def _axes(left: float, right: float, high: float, across: str, up: str, low: float = 0.0) -> str:
    foot = HEIGHT - BOTTOM
    x, y = _scale(left, right), _rise(high, low)
    drawn = _line("axis", LEFT, foot, WIDTH - 16, foot)
    for value in ticks(left, right):
        drawn += _text("axis", x(value), foot + 15, _short(value), "middle")
    for value in ticks(low, high):
        drawn += _text("axis", LEFT - 6, y(value) + 4, _short(value), "end")
    drawn += _text("axis", WIDTH - 16, HEIGHT - 4, across, "end")
    return drawn + _text("axis", 4, 13, up)


def ticks(low: float, high: float) -> list[float]:
    """Three to six round numbers between two others."""
    raw = (high - low) / 4
    power = 10.0 ** np.floor(np.log10(raw))
    step = power * min((f for f in (1, 2, 5, 10) if f * power >= raw), default=10)
    first = int(np.ceil(low / step - 1e-9))
    return [i * step for i in range(first, int(np.floor(high / step + 1e-9)) + 1)]


def _short(value: float) -> str:
    if abs(value) >= 1e6:
        return f"{value / 1e6:.3g}M"
    return f"{value / 1e3:.3g}k" if abs(value) >= 1e4 else f"{value:.4g}"


def _line(kind: str, x1: float, y1: float, x2: float, y2: float, style: str = "") -> str:
    own = f' style="{style}"' if style else ""
    return f'<line class="{kind}" x1="{x1:.1f}" x2="{x2:.1f}" y1="{y1:.1f}" y2="{y2:.1f}"{own}/>'


def _text(kind: str, x: float, y: float, text: str, anchor: str = "start") -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f'<text class="{kind}" {place}>{html.escape(text)}</text>'


def _svg(label: str, body: str, height: int = HEIGHT) -> str:
    text = html.escape(label)
    return (
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{text}"><title>{text}</title>'
        f"{body}</svg>"
    )
