# SPDX-License-Identifier: Apache-2.0
"""The same barrier in the objective and in the metric.

As a penalty the log barrier moves the optimum into the safe set. Its price β/slack is then a dual
solution, so V_r is too small by β for each limit, as long as the prices equal those at the optimum.
In the metric the barrier changes only the path: C-NPG converges to the constrained optimum for
every β.
"""

from typing import Any

import numpy as np

from holdfast.drawing.palette import INK, SERIES
from holdfast.paper.figures.figure import Drawing, Look, canvas
from holdfast.paper.figures.policy_square import NAMES, draw_background, draw_star
from holdfast.tabular.cmdp import FiniteCMDP, toy, two_action_policy
from holdfast.tabular.flow import Geometry, flow
from holdfast.tabular.lp import interior_policy, optimum
from holdfast.tabular.mirror import mirror_path

BETAS = (0.02, 0.05, 0.1)
TIMES = np.concatenate([[0.0], np.geomspace(0.05, 300.0, 90)])


def draw(own: FiniteCMDP | None = None, look: Look = Look()) -> Drawing:
    cmdp = own or toy()
    start = interior_policy(own) if own else two_action_policy(0.15, 0.25)
    best = optimum(cmdp)
    figure = canvas(7.2, 2.9)
    left, right = figure.subplots(1, 2, width_ratios=(1, 1.4))
    draw_background(left, cmdp)
    left.set_ylabel(NAMES[1])
    rows: list[tuple[Any, ...]] = []
    for beta, colour in zip(look.beta or BETAS, SERIES, strict=False):
        geometry = Geometry(beta, look.barrier or "log")
        penalty = flow(cmdp, start, TIMES, geometry, 1e-9, penalised=True)
        metric = mirror_path(cmdp, start, TIMES[1:], geometry)
        for name, path, dash in (("penalty", penalty, "--"), ("metric", metric, "-")):
            left.plot(*path.policy[:, :, 0].T, dash, color=colour, lw=1.2, clip_on=False)
            gap = best.reward_return - path.reward_return
            label = rf"$\beta={beta:g}$" if name == "metric" else None
            right.loglog(path.time, np.maximum(gap, 1e-9), dash, color=colour, label=label)
            columns = (path.time, *path.policy[:, :, 0].T, gap, path.cost_return[:, 0])
            rows += [(name, beta, *map(float, row)) for row in np.stack(columns, axis=1)]
        left.plot(*penalty.policy[-1, :, 0], "o", color=colour, ms=5, mec="white", mew=0.6,
                  zorder=5, clip_on=False)  # fmt: skip
    draw_star(left, best)
    right.plot([], [], "--", color=INK, label="as a penalty")
    right.plot([], [], "-", color=INK, label="in the metric")
    right.set(xlabel="time of the flow", ylabel=r"$V_r^* - V_r$", xlim=(0.05, TIMES[-1]))
    right.spines[["top", "right"]].set_visible(False)
    right.legend(loc="lower left")
    names = ("barrier_as", "beta", "time", "pi_a1_s1", "pi_a1_s2", "gap", "cost_return")
    return Drawing(figure, names, rows)
