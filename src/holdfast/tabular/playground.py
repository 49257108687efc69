# SPDX-License-Identifier: Apache-2.0
"""The interactive page: one HTML file, no network. The CMDP's numbers are written into it."""

import json
from importlib.resources import files

from holdfast.tabular.best_response import best_response
from holdfast.tabular.cmdp import FiniteCMDP, toy


def page(cmdp: FiniteCMDP | None = None) -> str:
    """The page for a 2×2 CMDP with one constraint; the paper's toy by default."""
    shown = cmdp or toy()
    if shown.reward.shape != (2, 2) or shown.num_constraints != 1:
        raise ValueError(
            f"the playground draws 2 states, 2 actions and 1 constraint, not {shown.reward.shape} "
            f"and {shown.num_constraints}."
        )
    highest = best_response(shown, shown.reward).value
    data = {
        "gamma": shown.gamma,
        "initial": shown.initial.tolist(),
        "transition": shown.as_dense().transition.tolist(),
        "reward": shown.reward.tolist(),
        "cost": shown.cost.tolist(),
        "cost_limit": shown.cost_limit.tolist(),
        "top": (1.0 - shown.gamma) * float(shown.initial @ highest),
    }
    template = files("holdfast.tabular").joinpath("playground.html").read_text(encoding="utf-8")
    return template.replace("/*CMDP*/null", json.dumps(data))
