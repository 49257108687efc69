# SPDX-License-Identifier: Apache-2.0
"""Exact CPO and C-TRPO runs with the same radius, near the limit.

CPO reaches the limit in a few updates and follows it to the optimum; the surrogate's error is
small, and the next update repairs it. C-TRPO keeps a distance. With the entropy barrier a region
touches the limit if the slack is below δ/β (for the quadratic model below 2δ/β). An update that
ends on the limit is followed by a recovery, a whole step that reduces the cost. With the log
barrier no region touches it, at any slack.
"""

from typing import Any

import numpy as np

from holdfast.drawing.palette import AMBER, BLUE, GREEN, INK, SERIES
from holdfast.paper.figures.figure import Drawing, Look, canvas
from holdfast.paper.figures.policy_square import NAMES, draw_background
from holdfast.tabular.cmdp import FiniteCMDP, Floats, toy, two_action_policy
from holdfast.tabular.flow import Geometry, Trajectory
from holdfast.tabular.lp import interior_policy
from holdfast.tabular.occupancy import ExactValues, evaluate
from holdfast.tabular.trust import Method, update

RADIUS, STEPS = 0.002, 70
RUNS: tuple[tuple[str, Method, Geometry, str], ...] = (
    ("CPO", "cpo", Geometry(), AMBER),
    ("C-TRPO, entropy, β = 1", "ctrpo", Geometry(1.0), GREEN),
    ("C-TRPO, log, β = 0.1", "ctrpo", Geometry(0.1, "log"), BLUE),
)


def walk(
    cmdp: FiniteCMDP, start: Floats, radius: float, steps: int, method: Method, geometry: Geometry
) -> list[ExactValues]:
    """Exact updates from one start, each policy evaluated."""
    points = [evaluate(cmdp, start)]
    for _ in range(steps):
        policy = update(cmdp, points[-1].policy, radius, method, geometry).policy
        points.append(evaluate(cmdp, policy))
    return points


def runs(look: Look) -> tuple[tuple[str, Method, Geometry, str], ...]:
    """The methods: the defaults, or CPO and C-TRPO with the chosen weights and barrier."""
    if not look.beta and look.barrier is None:
        return RUNS
    barrier = look.barrier or "entropy"
    others = (*(colour for colour in SERIES if colour != AMBER), "#666666")
    asked = zip(look.beta or (1.0,), others, strict=False)
    own = ((f"C-TRPO, {barrier}, β = {b:g}", Geometry(b, barrier), c) for b, c in asked)
    return (RUNS[0], *((name, "ctrpo", geometry, colour) for name, geometry, colour in own))


def run(
    cmdp: FiniteCMDP, start: Floats, method: Method, geometry: Geometry, radius: float = RADIUS
) -> Trajectory:
    """The curves of one method."""
    points = walk(cmdp, start, radius, STEPS, method, geometry)
    return Trajectory.of(np.arange(STEPS + 1.0), points, "took all steps")


def draw(own: FiniteCMDP | None = None, look: Look = Look()) -> Drawing:
    """The toy's paths, or those of any CMDP from its interior policy: return, and worst excess."""
    cmdp = own or toy()
    start = interior_policy(own) if own else two_action_policy(0.15, 0.25)
    figure = canvas(7.2, 2.9)
    left, right = figure.subplots(1, 2, width_ratios=(1, 1.55))
    square = cmdp.reward.shape == (2, 2) and cmdp.num_constraints == 1
    if square:
        draw_background(left, cmdp)
    else:
        left.set(xlabel="update")
        left.spines[["top", "right"]].set_visible(False)
    left.set_ylabel(NAMES[1] if square else r"$V_r$")
    rows: list[tuple[Any, ...]] = []
    for name, method, geometry, colour in runs(look):
        path = run(cmdp, start, method, geometry, look.radius or RADIUS)
        track = path.policy[:, :, 0].T if square else (path.time, path.reward_return)
        left.plot(*track, "-o", color=colour, ms=2.4, mec="white", mew=0.3, lw=1.1)
        excess = np.max(path.cost_return - cmdp.cost_limit, axis=1, initial=-np.inf)
        right.plot(excess, "-o", color=colour, ms=2.6, label=name)
        columns = zip(path.reward_return.tolist(), path.cost_return.tolist(), strict=True)
        rows += [(name, step, reward, *costs) for step, (reward, costs) in enumerate(columns)]
    right.axhline(0.0, color=INK, lw=1.2)
    right.set(xlabel="update", ylabel=r"$V_c - b$" if square else r"$\max_i\, V_{c_i} - b_i$")
    right.spines[["top", "right"]].set_visible(False)
    right.legend(loc="lower right")
    costs = tuple(f"cost_return_{i}" for i in range(cmdp.num_constraints))
    return Drawing(figure, ("method", "update", "reward_return", *costs), rows)
