# SPDX-License-Identifier: Apache-2.0
"""The policy square: every policy of a 2×2 CMDP is a point (π(a1|s1), π(a1|s2)) of [0,1]².

Values are rational functions of the point, so whole grids are evaluated in closed form; trust
regions become planar sets that can be drawn and searched exhaustively. The playground draws them
in a browser: one HTML file, no network, with the CMDP's numbers written into it.
"""

import json
from dataclasses import dataclass
from importlib.resources import files

import numpy as np

from holdfast.drawing.palette import page_colours
from holdfast.tabular.best_response import best_response
from holdfast.tabular.cmdp import FiniteCMDP, Floats, toy
from holdfast.tabular.flow import Geometry
from holdfast.tabular.occupancy import ExactValues
from holdfast.tabular.potentials import psi, psi_reversed


@dataclass(frozen=True, eq=False)
class Square:
    """A CMDP on a grid of the square; x varies along columns, y along rows: arrays [n, n]."""

    cmdp: FiniteCMDP
    x: Floats
    y: Floats

    @staticmethod
    def of(cmdp: FiniteCMDP, resolution: int) -> "Square":
        if cmdp.reward.shape != (2, 2):
            raise ValueError(
                f"the policy square needs 2 states and 2 actions, not {cmdp.reward.shape}."
            )
        line = np.linspace(0.0, 1.0, resolution)
        x, y = np.meshgrid(line, line)
        return Square(cmdp, x, y)

    def occupancy(self) -> Floats:
        """d [n, n, 2, 2], from the 2×2 system by Cramer's rule."""
        policy = self.policies()
        moves = np.einsum("xysa,sat->xyst", policy, self.cmdp.as_dense().transition)
        gamma = self.cmdp.gamma
        # (I − γ P_πᵀ) ρ = (1−γ) μ
        a, b = 1.0 - gamma * moves[..., 0, 0], -gamma * moves[..., 1, 0]
        c, d = -gamma * moves[..., 0, 1], 1.0 - gamma * moves[..., 1, 1]
        first, second = (1.0 - gamma) * self.cmdp.initial
        det = a * d - b * c
        visits = np.stack([(first * d - b * second) / det, (a * second - c * first) / det], axis=-1)
        return visits[..., None] * policy

    def policies(self) -> Floats:
        """π [n, n, 2, 2]."""
        first = np.stack([self.x, self.y], axis=-1)
        return np.stack([first, 1.0 - first], axis=-1)

    def value(self, signal: Floats) -> Floats:
        """V_f [n, n]."""
        return np.einsum("xysa,sa->xy", self.occupancy(), signal)

    def surrogate(self, old: ExactValues, adv: Floats) -> Floats:
        """𝔸_f(π) [n, n] seen from the policy `old`."""
        weight = old.visits[:, None] * adv
        return (
            weight[0, 1]
            + weight[1, 1]
            + self.x * (weight[0, 0] - weight[0, 1])
            + self.y * (weight[1, 0] - weight[1, 1])
        )

    def kl(self, old: ExactValues, new_first: bool = True) -> Floats:
        """E_{d_k} KL(π ‖ π_k) [n, n], or KL(π_k ‖ π) if `new_first` is off."""
        pairs = zip((self.x, self.y), old.policy[:, 0], old.visits, strict=True)
        terms = [
            weight * (_binary_kl(p, q) if new_first else _binary_kl(q, p)) for p, q, weight in pairs
        ]
        return terms[0] + terms[1]

    def divergence(self, old: ExactValues, geometry: Geometry) -> Floats:
        """D̄_C [n, n]; +inf outside the linearised safe set."""
        total = self.kl(old)
        beta, barrier = geometry.weights(self.cmdp), geometry.potential
        for i in np.flatnonzero(beta > 0.0):
            spent = self.surrogate(old, old.adv_c[i])
            total = total + beta[i] * psi(barrier, old.slack[i], spent)
        return total

    def bregman(self, old: ExactValues, geometry: Geometry) -> Floats:
        """D_C(d_k ‖ d_π) [n, n], exact; +inf outside the safe set."""
        total = self.kl(old, new_first=False)
        beta, barrier = geometry.weights(self.cmdp), geometry.potential
        for i in np.flatnonzero(beta > 0.0):
            spent = self.value(self.cmdp.cost[i]) - old.cost_return[i]
            total = total + beta[i] * psi_reversed(barrier, old.slack[i], spent)
        return total


def _binary_kl(p: Floats, q: Floats) -> Floats:
    """KL of two coins."""
    with np.errstate(divide="ignore", invalid="ignore"):
        head = np.where(p > 0.0, p * np.log(p / q), 0.0)
        tail = np.where(p < 1.0, (1.0 - p) * np.log((1.0 - p) / (1.0 - q)), 0.0)
    return head + tail


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
    template = files("holdfast.paper").joinpath("playground.html").read_text(encoding="utf-8")
    coloured = template.replace("/*PALETTE*/", page_colours())
    return coloured.replace("/*CMDP*/null", json.dumps(data))
