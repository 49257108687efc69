# SPDX-License-Identifier: Apache-2.0
"""The linear programme. Occupancies of a 2×2 CMDP form a quadrilateral in a tetrahedron.

The drawing is the projection onto the quadrilateral's own plane, turned so that up is more reward.
"""

from itertools import combinations
from typing import Any

import numpy as np

from holdfast.drawing.palette import BLUE, GREEN, INK, RED
from holdfast.paper.figures.figure import Drawing, canvas
from holdfast.tabular.cmdp import FiniteCMDP, Floats, toy, two_action_policy
from holdfast.tabular.lp import optimum
from holdfast.tabular.occupancy import occupancy

ORDER = ((0, 0), (0, 1), (1, 1), (1, 0))
"""Deterministic policies (π(a1|s1), π(a1|s2)) around the quadrilateral."""


def draw(own: FiniteCMDP | None = None) -> Drawing:
    cmdp = own or toy()
    vertices = np.array([occupancy(cmdp, two_action_policy(*p)).reshape(-1) for p in ORDER])
    safe, flat = clip_polygon(vertices, cmdp), projection(vertices, cmdp.reward.reshape(-1))
    figure = canvas(4.6, 4.0)
    axes: Any = figure.subplots()
    _draw_simplex(axes, flat)
    axes.fill(*flat(vertices).T, facecolor=BLUE, alpha=0.18)
    axes.fill(*flat(vertices).T, fill=False, edgecolor=BLUE, lw=1.2)
    axes.fill(*flat(safe).T, facecolor=GREEN, alpha=0.45)
    _name_parts(axes, flat, vertices, safe, cmdp)
    rows: list[tuple[Any, ...]] = [
        ("vertex", *p, *map(float, d)) for p, d in zip(ORDER, vertices, strict=True)
    ]
    limits = (("free optimum", np.inf, RED), ("safe optimum", cmdp.cost_limit[0], INK))
    for label, limit, colour in limits:
        best = optimum(cmdp.with_limit(float(limit)))
        point = flat(best.occupancy.reshape(1, -1))[0]
        axes.axhline(point[1], color=colour, lw=0.8, ls=":", zorder=1)
        axes.plot(*point, "*", color=colour, ms=12, mec="white", mew=0.6, zorder=8)
        side = "left" if point[0] > 0.0 else "right"
        axes.text(
            float(side == "right"),
            point[1],
            rf"{label}, $V_r = {best.reward_return:.3f}$",
            transform=axes.get_yaxis_transform(),
            color=colour,
            ha=side,
            va="bottom",
        )
        rows.append(
            (label, *map(float, best.policy[:, 0]), *map(float, best.occupancy.reshape(-1)))
        )
    axes.set_aspect("equal")
    axes.margins(0.22, 0.08)
    axes.set(xticks=[], yticks=[], ylabel=r"reward $r\cdot d$  $\rightarrow$")
    axes.spines[["top", "right", "bottom", "left"]].set_visible(False)
    names = ("point", "pi_a1_s1", "pi_a1_s2", "d_s1a1", "d_s1a2", "d_s2a1", "d_s2a2")
    return Drawing(figure, names, rows)


def projection(vertices: Floats, reward: Floats) -> Any:
    """d [n, 4] ↦ [n, 2]: orthogonal onto the vertices' plane, the second axis along the reward."""
    centre = vertices.mean(axis=0)
    basis = np.linalg.svd(vertices - centre)[2][:2]
    up = basis @ reward
    up = up / np.linalg.norm(up) if np.linalg.norm(up) > 1e-12 else np.array([0.0, 1.0])
    turn = np.array([[up[1], -up[0]], up])
    return lambda d: (d - centre) @ (turn @ basis).T


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


def _draw_simplex(axes: Any, flat: Any) -> None:
    """The tetrahedron of all distributions over (s, a), beside the quadrilateral's plane."""
    corners = flat(np.eye(4))
    for pair in combinations(corners, 2):
        axes.plot(*np.array(pair).T, color="#bdbdbd", lw=0.8, zorder=0)
    for corner, name in zip(corners, ("s_1a_1", "s_1a_2", "s_2a_1", "s_2a_2"), strict=True):
        outward = corner + 0.07 * corner / np.linalg.norm(corner)
        axes.text(*outward, rf"${name}$", color="#777777", ha="center", va="center")


def _name_parts(axes: Any, flat: Any, vertices: Floats, safe: Floats, cmdp: FiniteCMDP) -> None:
    """Labels: corners by their policies, the two parts, and the cut between them."""
    for policy, corner in zip(ORDER, flat(vertices), strict=True):
        inward = corner * (1.0 - 0.13 / max(0.2, float(np.linalg.norm(corner))))
        axes.plot(*corner, "o", color=BLUE, ms=3)
        axes.text(*inward, f"{policy}", fontsize=7, color=BLUE, ha="center", va="center")
    on_cut = np.isclose(safe @ cmdp.cost[0].reshape(-1), cmdp.cost_limit[0])
    if not np.any(on_cut):
        return
    cut = flat(safe[on_cut])
    axes.plot(*cut.T, color=INK, lw=1.8, zorder=5)
    costly = vertices[vertices @ cmdp.cost[0].reshape(-1) > cmdp.cost_limit[0]]
    above = np.vstack([costly, safe[on_cut]])
    parts = (("safe set", safe, INK), ("costs too much", above, BLUE))
    for name, corners, colour in parts:
        axes.text(*flat(corners).mean(axis=0), name, color=colour, ha="center", va="center")
    low = cut[np.argmin(cut[:, 1])]
    axes.annotate(r"$c\cdot d=b$", low, (6, -3), textcoords="offset points", ha="left", va="top")
