# SPDX-License-Identifier: Apache-2.0
"""The paper's figures, drawn from exact computations, each with its data as CSV."""

from collections.abc import Callable, Sequence
from pathlib import Path

from matplotlib import rc_context

from holdfast.paper.figures import (
    divergence,
    paths,
    penalty,
    policy_square,
    polytope,
    trust_regions,
)
from holdfast.paper.figures.animation import animate
from holdfast.paper.figures.figure import STYLE, Drawing, Look, save
from holdfast.tabular.cmdp import FiniteCMDP

__all__ = ["FIGURES", "Drawing", "Look", "figures"]

FIGURES: dict[str, Callable[[FiniteCMDP | None, bool, Look], Drawing]] = {
    "policy-square": policy_square.draw,
    "trust-regions": lambda own, parity, look: trust_regions.draw(own, look),
    "divergence": lambda own, parity, look: divergence.draw(look),
    "polytope": lambda own, parity, look: polytope.draw(own),
    "paths": lambda own, parity, look: paths.draw(own, look),
    "penalty": lambda own, parity, look: penalty.draw(own, look),
}
"""Figures by name, for a given CMDP or the toy; the flag selects the published recipe."""
ANY_SIZE = ("divergence", "paths")
"""Figures without a policy square, for CMDPs of any size."""


def figures(
    name: str = "all",
    out_dir: str | Path = "figures",
    formats: Sequence[str] = ("png", "svg", "pdf"),
    parity: bool = False,
    own: FiniteCMDP | None = None,
    look: Look = Look(),
) -> list[Path]:
    """Draw one figure, `all`, or the `animation`, into a folder; returns the files written."""
    known = [*FIGURES, "animation"]
    if own is not None and (own.reward.shape != (2, 2) or own.num_constraints != 1):
        if name not in ("all", *ANY_SIZE):
            raise ValueError(
                f"{name} draws 2 states, 2 actions and 1 constraint, not {own.reward.shape} and "
                f"{own.num_constraints}; {' and '.join(ANY_SIZE)} work for any CMDP."
            )
        known = list(ANY_SIZE)
    if name != "all" and name not in known:
        raise ValueError(f"unknown figure {name!r}; use one of all, {', '.join(known)}.")
    if unknown := sorted(set(formats) - {"png", "svg", "pdf"}):
        raise ValueError(f"cannot write {', '.join(unknown)}; use png, svg or pdf.")
    folder = Path(out_dir)
    folder.mkdir(parents=True, exist_ok=True)
    files: list[Path] = []
    for wanted in known if name == "all" else [name]:
        if wanted == "animation":
            files.append(animate(folder / "animation.gif", own, look))
            continue
        with rc_context(STYLE):
            drawing = FIGURES[wanted](own, parity, look)
        published = parity and wanted == "policy-square"
        files += save(drawing, folder / (f"{wanted}-parity" if published else wanted), formats)
    return files
