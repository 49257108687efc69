# SPDX-License-Identifier: Apache-2.0
"""An episode as a plot, for environments without pictures and for print."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from holdfast.drawing import BLUE, CONSTRAINTS, GREY, RED
from holdfast.files import write_atomic
from holdfast.ship.film.episode import Episode

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_episodes(
    episodes: Sequence[Episode], limits: Mapping[str, float], title: str, target: Path
) -> None:
    """Running return, running costs with their limits, and actions; a column for each episode."""
    from matplotlib.figure import Figure

    width = max(6.4, 4.2 * len(episodes))
    figure = Figure(figsize=(width, 7.2), layout="constrained")
    figure.suptitle(title, fontsize=11, color=GREY)
    axes = figure.subplots(3, len(episodes), squeeze=False, sharex="col", sharey="row")
    for column, episode in zip(axes.T, episodes, strict=True):
        _draw(column, episode, limits)
    for axis, label in zip(axes[:, 0], ("return so far", "cost so far", "action"), strict=True):
        axis.set_ylabel(label)
    buffer = io.BytesIO()
    figure.savefig(buffer, format=target.suffix[1:], dpi=110)
    target.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(target, buffer.getvalue())


def _draw(axes: Sequence[Axes], episode: Episode, limits: Mapping[str, float]) -> None:
    top, middle, bottom = axes
    steps = np.arange(1, episode.length + 1)
    top.plot(steps, episode.rewards.cumsum(), color=BLUE)
    over = [
        name
        for (name, limit), cost in zip(limits.items(), episode.costs.sum(0), strict=True)
        if cost > limit
    ]
    state = f"over the limit of {', '.join(over)}" if over else "within limits"
    top.set_title(f"{episode.address}: {state}", fontsize=10, color=RED if over else "black")
    for i, (name, limit) in enumerate(limits.items()):
        colour = CONSTRAINTS[i % len(CONSTRAINTS)]
        middle.plot(steps, episode.costs[:, i].cumsum(), color=colour, label=name)
        middle.axhline(limit, color=colour, ls="--", lw=1)
        middle.annotate(
            f"limit {limit:g}", (1, limit), xycoords=("axes fraction", "data"), ha="right",
            va="top", fontsize=8, color=colour,
        )  # fmt: skip
    for axis in (top, middle):
        events = steps[episode.costs.sum(1) > 0]
        if len(events):  # marks without a place would leave the layout no room
            axis.plot(events, np.zeros(len(events)), "|", color=RED, ms=8, clip_on=False)
        axis.grid(alpha=0.25)
    if len(limits) > 1:
        middle.legend(frameon=False, fontsize=8)
    bottom.plot(steps, episode.actions, lw=0.8)
    bottom.grid(alpha=0.25)
    bottom.set_xlabel("step (red marks: costs)")
