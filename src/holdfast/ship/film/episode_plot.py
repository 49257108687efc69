# SPDX-License-Identifier: Apache-2.0
"""An episode as a plot, for environments without pictures and for print."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from holdfast.drawing.axes import draw_curve, draw_limit, figure_of, open_frame
from holdfast.drawing.palette import BLUE, CONSTRAINTS, INK, LIMIT, SOFT
from holdfast.files import write_atomic
from holdfast.ship.film.episode import Episode

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_episodes(
    episodes: Sequence[Episode], limits: Mapping[str, float], title: str, target: Path
) -> None:
    """Running return, running costs with their limits, and actions; a column for each episode."""
    width = max(6.4, 4.2 * len(episodes))
    figure, axes = figure_of(3, len(episodes), (width, 7.2), sharex="col", sharey="row")
    figure.suptitle(title, fontsize=11, color=SOFT)
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
    draw_curve(top, steps, episode.rewards.cumsum(), BLUE, lw=1.5)
    over = [
        name
        for (name, limit), cost in zip(limits.items(), episode.costs.sum(0), strict=True)
        if cost > limit
    ]
    state = f"over the limit of {', '.join(over)}" if over else "within limits"
    top.set_title(f"{episode.address}: {state}", fontsize=10, color=LIMIT if over else INK)
    for i, (name, limit) in enumerate(limits.items()):
        colour = CONSTRAINTS[i % len(CONSTRAINTS)]
        draw_curve(middle, steps, episode.costs[:, i].cumsum(), colour, lw=1.5, label=name)
        draw_limit(middle, limit, colour, labelled=True)
    for axis in (top, middle):
        events = steps[episode.costs.sum(1) > 0]
        if len(events):  # marks without a place would leave the layout no room
            axis.plot(events, np.zeros(len(events)), "|", color=LIMIT, ms=8, clip_on=False)
        open_frame(axis)
    if len(limits) > 1:
        middle.legend(frameon=False, fontsize=8)
    bottom.plot(steps, episode.actions, lw=0.8)
    open_frame(bottom)
    bottom.set_xlabel("step (red marks: costs)")
