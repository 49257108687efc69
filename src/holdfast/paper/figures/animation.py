# SPDX-License-Identifier: Apache-2.0
"""The animated figure: C-TRPO's path through the policy square with its trust regions."""

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.animation import FuncAnimation, PillowWriter
from matplotlib.backends.backend_agg import FigureCanvasAgg

from holdfast.drawing.palette import AMBER, BLUE, INK, RED
from holdfast.paper.figures.figure import STYLE, Look, canvas
from holdfast.paper.figures.paths import walk
from holdfast.paper.figures.policy_square import NAMES, draw_background
from holdfast.paper.square import Square
from holdfast.tabular.cmdp import FiniteCMDP, toy, two_action_policy
from holdfast.tabular.flow import Geometry
from holdfast.tabular.lp import interior_policy, optimum

RADIUS, FRAMES = 0.01, 40


def animate(file: Path, own: FiniteCMDP | None = None, look: Look = Look()) -> Path:
    """Write the animation as a GIF."""
    cmdp = own or toy()
    start = interior_policy(own) if own else two_action_policy(0.12, 0.2)
    geometry = Geometry(look.beta[0] if look.beta else 0.1, look.barrier or "log")
    radius = look.radius or RADIUS
    found = walk(cmdp, start, radius, FRAMES - 1, "ctrpo", geometry)
    square = Square.of(cmdp, 301)
    with rc_context(STYLE):
        figure = canvas(6.2, 3.0)
        FigureCanvasAgg(figure)
        left, right = figure.subplots(1, 2, width_ratios=(1, 1.2))
        draw_background(left, cmdp)
        left.set_ylabel(NAMES[1])
        left.plot(*optimum(cmdp).policy[:, 0], "*", color=RED, ms=9, mec="white", mew=0.6)
        right.axhline(float(cmdp.cost_limit[0]), color=INK, lw=1.2)
        top = 1.12 * max(optimum(cmdp).reward_return, float(cmdp.cost_limit[0]))
        right.set(xlim=(0, FRAMES - 1), ylim=(0, top), xlabel="update")
        (reward,) = right.plot([], [], color=BLUE, label=r"$V_r$")
        (cost,) = right.plot([], [], color=AMBER, label=r"$V_c$")
        right.legend(loc="center right")
        drawn: list[Any] = []

        def frame(k: int) -> list[Any]:
            while drawn:
                drawn.pop().remove()
            reach = np.nan_to_num(square.divergence(found[k], geometry), posinf=1.0)
            level = np.minimum(reach, 10 * radius)
            drawn.append(
                left.contour(square.x, square.y, level, [radius], colors=["white"], linewidths=1.4)
            )
            track = np.array([f.policy[:, 0] for f in found[: k + 1]])
            drawn.extend(left.plot(*track.T, "-o", color="white", ms=2.2, lw=1.0))
            drawn.extend(left.plot(*track[-1], "o", color=RED, ms=4.5, mec="white", mew=0.6))
            steps = np.arange(k + 1)
            reward.set_data(steps, [f.reward_return for f in found[: k + 1]])
            cost.set_data(steps, [f.cost_return[0] for f in found[: k + 1]])
            return drawn

        FuncAnimation(figure, frame, frames=FRAMES, blit=False).save(
            file, writer=PillowWriter(fps=6), dpi=110
        )
    return file
