# SPDX-License-Identifier: Apache-2.0
"""Figure 4: the linear programme. Occupancies of the toy form a quadrilateral in a tetrahedron."""

from itertools import product
from typing import Any

import numpy as np
from mpl_toolkits.mplot3d.art3d import Poly3DCollection

from holdfast.tabular.cmdp import FiniteCMDP, Floats, toy, two_action_policy
from holdfast.tabular.figures.drawing import BLUE, GREEN, INK, RED, Drawing, canvas
from holdfast.tabular.lp import optimum
from holdfast.tabular.occupancy import occupancy

CORNERS = np.array([[0, 0, 0], [1, 0, 0], [0.5, 0.9, 0], [0.5, 0.3, 0.85]])
"""Where the four unit occupancies (s1a1, s1a2, s2a1, s2a2) are drawn."""
VIEW = (38, 128)
ORDER = ((0, 0), (0, 1), (1, 1), (1, 0))
"""Deterministic policies (π(a1|s1), π(a1|s2)) around the quadrilateral."""


def draw() -> Drawing:
    cmdp = toy()
    vertices = np.array([occupancy(cmdp, two_action_policy(*p)).reshape(-1) for p in ORDER])
    safe = clip_polygon(vertices, cmdp)
    figure = canvas(4.2, 3.7)
    figure.set_layout_engine("none")  # 3-D axes keep wide margins: let them overlap the edge
    axes: Any = figure.add_axes((-0.2, -0.08, 1.2, 1.18), projection="3d")
    for i, j in product(range(4), repeat=2):
        if i < j:
            axes.plot(*CORNERS[[i, j]].T, color="#9a9a9a", lw=0.8, zorder=1)
    for corner, name in zip(CORNERS, ("s_1a_1", "s_1a_2", "s_2a_1", "s_2a_2"), strict=True):
        outward = corner + 0.09 * (corner - CORNERS.mean(axis=0))
        axes.text(*outward, rf"${name}$", fontsize=8, ha="center", va="center")
    _patch(axes, cutting_plane(cmdp), "#777777", 0.10)
    _patch(axes, vertices, BLUE, 0.22)
    _patch(axes, safe, GREEN, 0.55)
    cut = safe[np.isclose(safe @ cmdp.cost[0].reshape(-1), cmdp.cost_limit[0])] @ CORNERS
    axes.plot(*cut.T, color=INK, lw=1.8, zorder=5)
    axes.text(*cut.mean(axis=0), r"$c\cdot d=b$   ", fontsize=8, ha="right", va="top", zorder=9)
    rows: list[tuple[Any, ...]] = [
        ("vertex", *p, *map(float, d)) for p, d in zip(ORDER, vertices, strict=True)
    ]
    for label, limit, colour in (("free optimum", np.inf, RED), ("safe optimum", 0.2, INK)):
        best = optimum(toy(limit))
        point = best.occupancy.reshape(-1) @ CORNERS
        axes.plot(*point[:, None], "*", color=colour, ms=11, mec="white", mew=0.6, zorder=8)
        side = "right" if colour == INK else "left"
        axes.text(*point, f"  {label}   ", fontsize=8, color=colour, ha=side, va="top", zorder=9)
        rows.append(
            (label, *map(float, best.policy[:, 0]), *map(float, best.occupancy.reshape(-1)))
        )
    _reward_arrow(axes, cmdp, vertices)
    axes.set_axis_off()
    axes.view_init(elev=VIEW[0], azim=VIEW[1])
    axes.set_box_aspect((1, 0.9, 0.85), zoom=1.15)
    names = ("point", "pi_a1_s1", "pi_a1_s2", "d_s1a1", "d_s1a2", "d_s2a1", "d_s2a2")
    return Drawing(figure, names, rows)


def clip_polygon(vertices: Floats, cmdp: FiniteCMDP) -> Floats:
    """The part of a polygon of occupancies that satisfies c·d ≤ b, its corners in order."""
    slack = cmdp.cost_limit[0] - vertices @ cmdp.cost[0].reshape(-1)
    kept: list[Floats] = []
    for i in range(len(vertices)):
        j = (i + 1) % len(vertices)
        if slack[i] >= 0.0:
            kept.append(vertices[i])
        if slack[i] * slack[j] < 0.0:
            share = slack[i] / (slack[i] - slack[j])
            kept.append(vertices[i] + share * (vertices[j] - vertices[i]))
    return np.array(kept)


def cutting_plane(cmdp: FiniteCMDP) -> Floats:
    """Where the plane c·d = b meets the edges of the simplex, as barycentric rows."""
    cost, limit = cmdp.cost[0].reshape(-1), cmdp.cost_limit[0]
    rows: list[Floats] = []
    for i, j in product(range(4), repeat=2):
        if cost[i] <= limit < cost[j]:
            row = np.zeros(4)
            row[j] = (limit - cost[i]) / (cost[j] - cost[i])
            row[i] = 1.0 - row[j]
            rows.append(row)
    return np.array(rows)


def _patch(axes: Any, vertices: Floats, colour: str, alpha: float) -> None:
    corners = vertices @ CORNERS
    patch = Poly3DCollection([corners], facecolor=colour, alpha=alpha, edgecolor=colour, lw=1.0)
    axes.add_collection3d(patch)


def _reward_arrow(axes: Any, cmdp: FiniteCMDP, vertices: Floats) -> None:
    """The reward's gradient within the quadrilateral's plane, from its middle."""
    centre = vertices.mean(axis=0)
    basis, _ = np.linalg.qr((vertices[1:3] - vertices[0]).T)
    within = basis @ (basis.T @ cmdp.reward.reshape(-1))
    step = 0.28 * (within / np.linalg.norm(within)) @ CORNERS
    start = centre @ CORNERS
    axes.plot(*np.stack([start, start + step]).T, color=RED, lw=1.6, zorder=7)
    axes.plot(*(start + step)[:, None], "v", color=RED, ms=5, zorder=7)
    axes.text(*(start + 1.15 * step), r"  $r$", color=RED, fontsize=9, va="top", zorder=7)
