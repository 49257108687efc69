# SPDX-License-Identifier: Apache-2.0
"""`holdfast figures`: pictures of the geometry of safe policies."""

from typing import Annotated

import tyro

from holdfast.cli.cmdp import choice, load

NAMES = "all, policy-square, trust-regions, divergence, polytope, paths, penalty or animation."
CMDP = (
    "Another CMDP, from any source of `holdfast solve`; all figures but divergence and paths need "
    "2 states, 2 actions and 1 constraint."
)


def command(
    name: tyro.conf.Positional[Annotated[str, tyro.conf.arg(help=NAMES)]] = "all",
    out: Annotated[str, tyro.conf.arg(aliases=["-o"])] = "figures",
    formats: tuple[str, ...] = ("png", "svg", "pdf"),
    parity: bool = False,
    cmdp: Annotated[str, tyro.conf.arg(help=CMDP)] = "toy",
    beta: tuple[float, ...] = (),
    barrier: str | None = None,
    radius: float | None = None,
) -> None:
    """Draw the paper's figures from exact computations, each with its data as CSV.

    Args:
        out: Folder to write to.
        formats: Any of png, svg, pdf.
        parity: Draw trajectories as the published code does, with its overshoot and its Gramian.
        beta: Weights of the barrier, instead of each figure's defaults.
        barrier: The barrier: entropy, log, or your own, file.py:name.
        radius: Radius of the regions and updates.
    """
    from holdfast.paper.figures import figures as draw
    from holdfast.paper.figures.figure import Look

    for value in beta:
        choice(value, None, None)
    chosen = choice(None, barrier, radius)
    own = None if cmdp == "toy" else load(cmdp)
    for file in draw(name, out, formats, parity, own, Look(beta, chosen.barrier, radius)):
        print(file)
