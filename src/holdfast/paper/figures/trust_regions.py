# SPDX-License-Identifier: Apache-2.0
"""Trust regions of TRPO, CPO and C-TRPO near the constraint, and their models."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.lines import Line2D

from holdfast.drawing.palette import INK, SERIES
from holdfast.paper.figures.figure import Drawing, Look, canvas
from holdfast.paper.square import Square
from holdfast.tabular.cmdp import FiniteCMDP, Floats, toy, two_action_policy
from holdfast.tabular.flow import Geometry
from holdfast.tabular.lp import interior_policy
from holdfast.tabular.occupancy import ExactValues, evaluate
from holdfast.tabular.potentials import POTENTIALS

BETAS = (1e-3, 1e-1, 1.0, 2.0)
CENTRES = (((0.6, 0.4), 0.05), ((0.5, 0.3), 0.01))


def draw(own: FiniteCMDP | None = None, look: Look = Look()) -> Drawing:
    cmdp, betas = own or toy(), look.beta or BETAS
    shown = (look.barrier,) if look.barrier else tuple(POTENTIALS)
    ideal = look.barrier or "entropy"
    square = Square.of(cmdp, 1201)
    barriers = [f"C-TRPO, {barrier}" for barrier in shown]
    titles = ("TRPO, CPO", *barriers, f"ideal, {ideal}", "logit models")
    figure = canvas(1.72 * len(titles), 4.0)
    panels: Any = figure.subplots(2, len(titles))
    rows: list[tuple[Any, ...]] = []
    for row, (centre, radius) in zip(panels, _centres(own, look), strict=True):
        old = evaluate(cmdp, two_action_policy(*centre))
        kl, spent = square.kl(old), square.surrogate(old, old.adv_c[0])
        near = np.where(spent <= old.slack[0], kl, np.inf)
        regions = {("TRPO", 0.0): kl, ("CPO", 0.0): near}
        _region(row[0], square, kl, radius, INK, ":")
        _region(row[0], square, near, radius, SERIES[4], "-", fill=0.16)
        for axes, barrier in zip(row[1:-2], shown, strict=True):
            _region(axes, square, kl, radius, INK, ":")
            for beta, colour in zip(betas, SERIES, strict=False):
                reach = square.divergence(old, Geometry(beta, barrier))
                regions[(f"C-TRPO {barrier}", beta)] = reach
                _region(axes, square, reach, radius, colour, "-")
        _region(row[-2], square, kl, radius, INK, ":")
        for beta, colour in zip(betas, SERIES, strict=False):
            reach = square.bregman(old, Geometry(beta, ideal))
            regions[(f"ideal {ideal}", beta)] = reach
            _region(row[-2], square, reach, radius, colour, "-")
        for axes in row[:-1]:
            _frame(axes, square, old, np.asarray(centre), kl, radius)
        _models(row[-1], old, radius, [Geometry(beta, ideal) for beta in betas])
        row[0].set_ylabel(rf"$\pi_k=({centre[0]:.3g},{centre[1]:.3g}),\ \delta={radius:g}$")
        rows += [
            _summary(square, name, beta, centre, radius, d) for (name, beta), d in regions.items()
        ]
    for axes, title in zip(panels[0], titles, strict=True):
        axes.set_title(title)
    figure.legend(handles=_legend(betas), loc="outside lower center", ncols=7)
    names = ("region", "beta", "x", "y", "radius", "area", "x_min", "x_max", "y_min", "y_max")
    return Drawing(figure, names, rows)


def _centres(own: FiniteCMDP | None, look: Look) -> tuple[tuple[tuple[float, float], float], ...]:
    """Centre and size of the regions; for a given CMDP from its interior policy."""
    inside = interior_policy(own)[:, 0] if own else None
    place = lambda usual: usual if inside is None else (float(inside[0]), float(inside[1]))
    return tuple((place(centre), look.radius or radius) for centre, radius in CENTRES)


def _region(
    axes: Any,
    square: Square,
    reach: Floats,
    radius: float,
    colour: str,
    dash: str,
    fill: float = 0.0,
) -> None:
    inside = np.minimum(np.nan_to_num(reach, posinf=1e9), 10.0 * radius)
    if fill:
        axes.contourf(square.x, square.y, inside, [-1.0, radius], colors=[colour], alpha=fill)
    axes.contour(
        square.x, square.y, inside, [radius], colors=[colour], linestyles=dash, linewidths=1.2
    )


def _frame(
    axes: Any, square: Square, old: ExactValues, centre: Floats, kl: Floats, radius: float
) -> None:
    """Zoom to the KL ball; the true and the linearised constraint; the centre."""
    cmdp = square.cmdp
    cost = square.value(cmdp.cost[0])
    axes.contour(square.x, square.y, cost, [cmdp.cost_limit[0]], colors=[INK], linewidths=1.4)
    axes.contour(
        square.x,
        square.y,
        square.surrogate(old, old.adv_c[0]),
        [old.slack[0]],
        colors=["#888888"],
        linestyles="--",
        linewidths=0.8,
    )
    axes.plot(*centre, "o", color=INK, ms=3)
    inside = kl <= radius
    half = 1.18 * max(
        np.abs(square.x[inside] - centre[0]).max(), np.abs(square.y[inside] - centre[1]).max()
    )
    axes.set(xlim=(centre[0] - half, centre[0] + half), ylim=(centre[1] - half, centre[1] + half))
    axes.set_aspect("equal")
    axes.tick_params(labelsize=6.5)


def logit_model(old: ExactValues, geometry: Geometry) -> tuple[Floats, Floats]:
    """(H, a): Hessian and cost gradient in the two logit differences θ(s,a1) − θ(s,a2)."""
    spread = old.visits * old.policy[:, 0] * old.policy[:, 1]
    normal = spread * (old.adv_c[0, :, 0] - old.adv_c[0, :, 1])
    weight = float(np.asarray(geometry.beta)) * POTENTIALS[geometry.barrier].curvature(old.slack)[0]
    return np.diag(spread) + weight * np.outer(normal, normal), normal


def _models(axes: Any, old: ExactValues, radius: float, geometries: Sequence[Geometry]) -> None:
    """Ellipses ½ uᵀHu = δ in logit space and the linearised constraint."""
    angle = np.linspace(0.0, 2.0 * np.pi, 400)
    circle = np.stack([np.cos(angle), np.sin(angle)])
    for geometry, colour in [(Geometry(0.0), INK), *zip(geometries, SERIES, strict=False)]:
        beta = geometry.beta
        hessian, normal = logit_model(old, geometry)
        shape = np.linalg.cholesky(np.linalg.inv(hessian))
        ellipse = np.sqrt(2.0 * radius) * shape @ circle
        axes.plot(*ellipse, color=colour, ls=":" if beta == 0.0 else "-", lw=1.1)
        if beta == 0.0:
            half = 1.15 * np.abs(ellipse).max()
            x = np.array([-half, half])
            axes.plot(x, (old.slack[0] - normal[0] * x) / normal[1], "--", color="#888888", lw=0.8)
            axes.set(xlim=(-half, half), ylim=(-half, half))
    axes.plot(0, 0, "o", color=INK, ms=3)
    axes.set_aspect("equal")
    axes.tick_params(labelsize=6.5)


def _summary(
    square: Square,
    name: str,
    beta: float,
    centre: tuple[float, float],
    radius: float,
    reach: Floats,
) -> tuple[Any, ...]:
    inside = reach <= radius
    x, y = square.x[inside], square.y[inside]
    spans = (float(v) for v in (x.min(), x.max(), y.min(), y.max()))
    return (name, beta, *centre, radius, float(inside.mean()), *spans)


def _legend(betas: Sequence[float]) -> list[Line2D]:
    lines = [
        Line2D([], [], color=INK, ls=":", label="TRPO"),
        Line2D([], [], color=SERIES[4], label="CPO"),
    ]
    lines += [
        Line2D([], [], color=colour, label=rf"$\beta={beta:g}$")
        for beta, colour in zip(betas, SERIES, strict=False)
    ]
    return [*lines, Line2D([], [], color=INK, lw=1.6, label=r"$V_c=b$")]
