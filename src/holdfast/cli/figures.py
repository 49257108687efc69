# SPDX-License-Identifier: Apache-2.0
"""`holdfast figures`: the geometry of safe policies, drawn."""

from typing import Annotated

import tyro

from holdfast.cli.cmdp import choice, load


def command(
    name: tyro.conf.Positional[str] = "all",
    out: Annotated[str, tyro.conf.arg(aliases=["-o"])] = "figures",
    formats: tuple[str, ...] = ("png", "svg", "pdf"),
    parity: bool = False,
    cmdp: str = "toy",
    beta: tuple[float, ...] = (),
    barrier: str | None = None,
    radius: float | None = None,
) -> None:
    """Draw the paper's figures from exact computations, each with its data as CSV.

    Args:
        name: all, policy-square, trust-regions, divergence, polytope, paths, penalty or
            animation.
        out: Folder to write to.
        formats: Any of png, svg, pdf.
        parity: Trajectories by the published recipe, overshoot and log-d Gramian included.
        cmdp: Another CMDP to draw, any source that `holdfast solve` takes; all but divergence and
            paths need 2 states, 2 actions and 1 constraint.
        beta: Weights of the barrier to draw, instead of each figure's own.
        barrier: The barrier to draw: entropy, log, or one of your own, file.py:name.
        radius: The radius of the regions and updates to draw.
    """
    from holdfast.paper.figures import figures as draw
    from holdfast.paper.figures.drawing import Look

    for value in beta:
        choice(value, None, None)
    chosen = choice(None, barrier, radius)
    own = None if cmdp == "toy" else load(cmdp)
    for file in draw(name, out, formats, parity, own, Look(beta, chosen.barrier, radius)):
        print(file)
