# SPDX-License-Identifier: Apache-2.0
"""The surrogate divergence Ψ against the cost advantage."""

from typing import Any

import numpy as np

from holdfast.drawing.palette import AMBER, BLUE, INK
from holdfast.paper.figures.figure import Drawing, Look, canvas
from holdfast.tabular.potentials import POTENTIALS, psi, psi_reversed

SLACK = 3.0


FORMULAS = {"entropy": r"$x\log x$", "log": r"$-\log x$"}


def draw(look: Look = Look()) -> Drawing:
    figure = canvas(3.5, 2.5)
    axes: Any = figure.subplots()
    x = np.linspace(-SLACK, SLACK, 1201)[:-1]
    curves = {
        (name, order): price(POTENTIALS[name], SLACK, x)
        for order, price in (("new||old", psi), ("old||new", psi_reversed))
        for name in ((look.barrier,) if look.barrier else FORMULAS)
    }
    for (name, order), value in curves.items():
        formula = FORMULAS.get(name, name)
        axes.plot(
            x,
            value,
            color=AMBER if name == "log" else BLUE,
            ls="-" if order == "new||old" else "--",
            label=rf"$\varphi=$ {formula}" + ("" if order == "new||old" else ", reversed"),
        )
    axes.axvline(SLACK, color=INK, lw=0.9, ls=":")
    axes.set(ylim=(0, 2), xlim=(-SLACK, 1.04 * SLACK), xlabel=r"cost advantage $\mathbb{A}_c$")
    axes.set_ylabel(r"$\Psi$")
    axes.set_xticks([0, SLACK], ["0", r"$\delta_b$"])
    axes.set_yticks([0, 1, 2])
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="upper left", bbox_to_anchor=(0.22, 1.0))
    rows = [
        (name, order, SLACK, float(a), float(b))
        for (name, order), value in curves.items()
        for a, b in zip(x[::10], value[::10], strict=True)
    ]
    return Drawing(figure, ("barrier", "order", "slack", "cost_advantage", "divergence"), rows)
