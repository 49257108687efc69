# SPDX-License-Identifier: Apache-2.0
"""Figure 5: exact CPO and C-TRPO runs with the same radius: how each meets the limit.

CPO uses the limit up in a few updates and slides along it to the optimum; the surrogate errs little
and what it errs the next update repairs. C-TRPO keeps a distance. The entropy barrier gives it up
below the slack 2δ/β; an update that ends on the limit is followed by a recovery, a whole step down
the cost. The log barrier keeps its distance at any slack.
"""

from typing import Any

import numpy as np

from holdfast.tabular.cmdp import Floats, toy, two_action_policy
from holdfast.tabular.figures.drawing import BLUE, GREEN, INK, ORANGE, Drawing, canvas
from holdfast.tabular.figures.policy_square import NAMES, draw_background
from holdfast.tabular.flow import Geometry
from holdfast.tabular.occupancy import evaluate
from holdfast.tabular.trust import Method, update

RADIUS, STEPS = 0.002, 70
RUNS: tuple[tuple[str, Method, Geometry, str], ...] = (
    ("CPO", "cpo", Geometry(), ORANGE),
    ("C-TRPO, entropy, β = 1", "ctrpo", Geometry(1.0), GREEN),
    ("C-TRPO, log, β = 0.1", "ctrpo", Geometry(0.1, "log"), BLUE),
)


def run(method: Method, geometry: Geometry) -> Floats:
    """Rows (π(a1|s1), π(a1|s2), V_r, V_c) of exact updates from one start [STEPS + 1, 4]."""
    policy = two_action_policy(0.15, 0.25)
    rows: list[Floats] = []
    for _ in range(STEPS + 1):
        found = evaluate(toy(), policy)
        rows.append(np.array([*policy[:, 0], found.reward_return, found.cost_return[0]]))
        policy = update(toy(), policy, RADIUS, method, geometry).policy
    return np.array(rows)


def draw() -> Drawing:
    figure = canvas(7.2, 2.9)
    left, right = figure.subplots(1, 2, width_ratios=(1, 1.55))
    draw_background(left, toy())
    left.set_ylabel(NAMES[1])
    rows: list[tuple[Any, ...]] = []
    for name, method, geometry, colour in RUNS:
        data = run(method, geometry)
        left.plot(*data[:, :2].T, "-o", color=colour, ms=2.4, mec="white", mew=0.3, lw=1.1)
        right.plot(data[:, 3], "-o", color=colour, ms=2.6, label=name)
        rows += [(name, step, *map(float, line)) for step, line in enumerate(data)]
    right.axhline(0.2, color=INK, lw=1.2)
    right.text(STEPS, 0.2005, r"$b$", va="bottom", ha="right")
    right.set(xlabel="update", ylabel=r"$V_c$", ylim=(0.135, 0.204))
    right.spines[["top", "right"]].set_visible(False)
    right.legend(loc="lower right")
    names = ("method", "update", "pi_a1_s1", "pi_a1_s2", "reward_return", "cost_return")
    return Drawing(figure, names, rows)
