# SPDX-License-Identifier: Apache-2.0
"""The paper's pictures, drawn from exact computations, each with its data beside it."""

from collections.abc import Callable, Sequence
from pathlib import Path

from matplotlib import rc_context

from holdfast.tabular.figures import divergence, paths, policy_square, polytope, trust_regions
from holdfast.tabular.figures.animation import animate
from holdfast.tabular.figures.drawing import STYLE, Drawing, save

__all__ = ["FIGURES", "Drawing", "figures"]

FIGURES: dict[str, Callable[[bool], Drawing]] = {
    "policy-square": policy_square.draw,
    "trust-regions": lambda parity: trust_regions.draw(),
    "divergence": lambda parity: divergence.draw(),
    "polytope": lambda parity: polytope.draw(),
    "paths": lambda parity: paths.draw(),
}
"""Figures 1 to 5 by name; the flag asks for parity with the published recipe where it matters."""


def figures(
    name: str = "all",
    out_dir: str | Path = "figures",
    formats: Sequence[str] = ("png", "svg", "pdf"),
    parity: bool = False,
) -> list[Path]:
    """Draw one figure, `all`, or the `animation`, into a folder; returns the files written."""
    known = [*FIGURES, "animation"]
    if name != "all" and name not in known:
        raise ValueError(f"unknown figure {name!r}; use one of all, {', '.join(known)}.")
    if unknown := sorted(set(formats) - {"png", "svg", "pdf"}):
        raise ValueError(f"cannot write {', '.join(unknown)}; use png, svg or pdf.")
    folder = Path(out_dir)
    folder.mkdir(parents=True, exist_ok=True)
    files: list[Path] = []
    for wanted in known if name == "all" else [name]:
        if wanted == "animation":
            files.append(animate(folder / "animation.gif"))
            continue
        with rc_context(STYLE):
            drawing = FIGURES[wanted](parity)
        published = parity and wanted == "policy-square"
        files += save(drawing, folder / (f"{wanted}-parity" if published else wanted), formats)
    return files
