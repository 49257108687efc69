# SPDX-License-Identifier: Apache-2.0
"""The paper's toy example: NPG and C-NPG trajectories in the policy square of the toy CMDP."""

from itertools import chain, islice, repeat
from typing import Any

import numpy as np
from matplotlib.patheffects import Normal, Stroke

from holdfast.drawing.palette import INK, RED
from holdfast.paper.figures.figure import Drawing, Look, canvas
from holdfast.paper.square import Square
from holdfast.tabular.cmdp import FiniteCMDP, Floats, toy
from holdfast.tabular.flow import Geometry, Trajectory, ascend
from holdfast.tabular.lp import Optimum, interior_policy, optimum, safest
from holdfast.tabular.mirror import mirror_path
from holdfast.tabular.occupancy import evaluate, softmax

BETAS = (0.0, 1e-2, 1.0)
TIMES = np.concatenate([np.linspace(0.0, 6.0, 91), np.geomspace(6.3, 60.0, 16)])
NAMES = (r"$\pi(a_1\mid s_1)$", r"$\pi(a_1\mid s_2)$")


def starts(cmdp: FiniteCMDP, count: int = 10, seed: int = 0) -> list[Floats]:
    """Policies with logits θ ~ N(0, I), redrawn while V_c ≥ b − 0.1.

    If the safe set is narrow, 0.6 of the largest slack replaces 0.1, and after 10,000 draws the
    interior policy replaces missing ones.
    """
    rng = np.random.default_rng(seed)
    least = min(0.1, 0.6 * safest(cmdp)[1])
    drawn = (softmax(rng.normal(size=cmdp.reward.shape)) for _ in range(10_000))
    inside = (policy for policy in drawn if np.all(evaluate(cmdp, policy).slack > least))
    return list(islice(chain(inside, repeat(interior_policy(cmdp))), count))


def trajectory(
    cmdp: FiniteCMDP, start: Floats, beta: float, parity: bool, barrier: str = "entropy"
) -> Trajectory:
    """The exact flow, or with `parity` the published recipe: finite steps, log-d Gramian (D32)."""
    if not parity:
        return mirror_path(cmdp, start, TIMES, Geometry(beta, barrier))
    geometry = Geometry(beta, barrier, log_occupancy=True)
    return ascend(cmdp, start, geometry, rule="normalised", dt=0.01, steps=10_000)


def draw_background(axes: Any, cmdp: FiniteCMDP) -> Any:
    """Heat map of V_r, the curve V_c = b, the unsafe side shaded."""
    coarse, fine = Square.of(cmdp, 100), Square.of(cmdp, 1000)
    image = axes.imshow(
        coarse.value(cmdp.reward),
        origin="lower",
        extent=(0, 1, 0, 1),
        cmap="YlGnBu_r",
        interpolation="bilinear",
        rasterized=True,
    )
    cost = fine.value(cmdp.cost[0])
    top = float(cost.max()) + 1.0
    axes.contourf(fine.x, fine.y, cost, [cmdp.cost_limit[0], top], colors=["#ffffff"], alpha=0.28)
    axes.contour(fine.x, fine.y, cost, [cmdp.cost_limit[0]], colors=[INK], linewidths=1.4)
    axes.set(xlim=(0, 1), ylim=(0, 1), xlabel=NAMES[0], aspect="equal")
    axes.set_xticks([0, 0.5, 1])
    axes.set_yticks([0, 0.5, 1])
    return image


def draw_star(axes: Any, best: Optimum) -> None:
    """An optimum, also on the border."""
    point = best.policy[:, 0]
    axes.plot(*point, "*", color=RED, ms=9, mec="white", mew=0.6, zorder=6, clip_on=False)


def draw(own: FiniteCMDP | None = None, parity: bool = False, look: Look = Look()) -> Drawing:
    cmdp = own or toy()
    best, free = optimum(cmdp), optimum(cmdp.with_limit(np.inf))
    betas = (0.0, *look.beta) if look.beta else BETAS
    figure = canvas(0.9 + 2.1 * len(betas), 2.75)
    panels: Any = figure.subplots(1, len(betas), sharey=True)
    rows: list[tuple[Any, ...]] = []
    image: Any = None
    for axes, beta in zip(panels, betas, strict=True):
        image = draw_background(axes, cmdp)
        for number, start in enumerate(starts(cmdp)):
            path = trajectory(cmdp, start, beta, parity, look.barrier or "entropy")
            points = path.policy[:, :, 0]
            axes.plot(*points.T, color="white", lw=1.1, path_effects=_outline(), clip_on=False)
            axes.plot(*points[0], "o", color="white", ms=2.6, mec=INK, mew=0.5, zorder=4)
            rows += _table(beta, number, path)
        draw_star(axes, free if beta == 0.0 else best)
        axes.set_title("NPG" if beta == 0.0 else rf"C-NPG, $\beta = {beta:g}$")
    panels[0].set_ylabel(NAMES[1])
    if own is None:
        panels[-1].text(0.06, 0.42, r"$V_c > b$", color=INK, fontsize=8)
    figure.colorbar(image, ax=list(panels), label=r"$V_r$", shrink=0.72, pad=0.015)
    names = ("beta", "trajectory", "time", "pi_a1_s1", "pi_a1_s2", "reward_return", "cost_return")
    return Drawing(figure, names, rows)


def _table(beta: float, number: int, path: Trajectory) -> list[tuple[Any, ...]]:
    """At most about 200 rows of a trajectory."""
    columns = (path.time, *path.policy[:, :, 0].T, path.reward_return, path.cost_return[:, 0])
    every = slice(None, None, max(1, len(path.time) // 200))
    return [(beta, number, *map(float, row)) for row in np.stack(columns, axis=1)[every]]


def _outline() -> list[Any]:
    return [Stroke(linewidth=1.9, foreground=INK, alpha=0.55), Normal()]
