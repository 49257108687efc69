# SPDX-License-Identifier: Apache-2.0
"""Small charts as inline SVG, without scripts, in the page's colours."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from holdfast.console import counted

WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 520, 230, 46, 36, 36
Floats = NDArray[np.float64]


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
    label = f"Histogram of the {name} of {counted(len(costs), 'episode')}"
    return _svg(label, bars + lines + _axes(0.0, most, float(counts.max()), name, "episodes"))


def curves(
    steps: Floats, values: Floats, limits: Mapping[str, float], label: str, unit: str
) -> str:
    """Values [E, K] over steps, each with its limit; several have a legend."""
    finite = values[np.isfinite(values)]
    low = min(0.0, float(finite.min())) if finite.size else 0.0
    high = max(
        [float(finite.max()) if finite.size else 1.0, *(1.15 * b for b in limits.values()), 1e-9]
    )
    x, y = _scale(0.0, float(steps[-1])), _rise(high, low)
    names, drawn = list(limits), _legend(list(limits)) if len(limits) > 1 else ""
    for k in range(values.shape[1]):
        points = " ".join(
            f"{x(s):.1f},{y(v):.1f}" for s, v in zip(steps, values[:, k], strict=True) if v == v
        )
        drawn += f'<polyline class="line line{k % 4}" points="{points}"/>'
        if k < len(limits):
            limit = limits[names[k]]
            at, whose = y(limit), f"{names[k]}: " if len(limits) > 1 else ""
            drawn += _line("limit", LEFT, at, WIDTH - 8, at)
            drawn += _text("limit", WIDTH - 10, at - 5, f"{whose}limit {limit:g}", "end")
    axes = _axes(0.0, float(steps[-1]), high, "environment steps", unit, low)
    return _svg(label, drawn + axes)


def _legend(names: Sequence[str]) -> str:
    """The legend above the curves."""
    drawn, x = "", 90
    for k, name in enumerate(names):
        drawn += _line(f"line line{k % 4}", x, 9, x + 18, 9)
        drawn += _text("axis", x + 23, 13, name)
        x += 40 + 8 * len(name)
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
    return f"{value / 1e3:.3g}k" if abs(value) >= 1e4 else f"{value:.3g}"


def _line(kind: str, x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line class="{kind}" x1="{x1:.1f}" x2="{x2:.1f}" y1="{y1:.1f}" y2="{y2:.1f}"/>'


def _text(kind: str, x: float, y: float, text: str, anchor: str = "start") -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f'<text class="{kind}" {place}>{html.escape(text)}</text>'


def _svg(label: str, body: str, height: int = HEIGHT) -> str:
    text = html.escape(label)
    return (
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{text}"><title>{text}</title>'
        f"{body}</svg>"
    )
