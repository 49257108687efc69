# SPDX-License-Identifier: Apache-2.0
"""The panel below a picture: return, each cost against its limit, and the steps with costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from holdfast.drawing.palette import DARK
from holdfast.ship.film.episode import Episode

WIDTH = 640
"""Width of a frame."""
GROUND, TEXT, DIM, TRACK = (DARK[name] for name in ("bg", "ink", "soft", "line"))
GOOD, BAD, LIMIT = DARK["safe"], DARK["unsafe"], "#ffffff"
MARGIN, LINE, HEAD, FOOT = 14, 34, 62, 40
LABEL = 236
"""Left end of bars."""


@cache
def font(size: int, bold: bool = False) -> ImageFont.FreeTypeFont:
    """Matplotlib's font, the same on every system."""
    import matplotlib

    name = "DejaVuSans-Bold.ttf" if bold else "DejaVuSans.ttf"
    return ImageFont.truetype(str(Path(matplotlib.get_data_path(), "fonts", "ttf", name)), size)


@dataclass(frozen=True)
class Panel:
    """Draws frames of one episode."""

    title: str
    caption: str
    limits: Mapping[str, float]
    length: int
    """Steps of the whole episode."""
    totals: NDArray[np.float64]
    """[K] its costs."""

    def frame(self, picture: NDArray[np.uint8], now: Episode, stride: int) -> Image.Image:
        """The picture with the panel below, of even height and width, as video codecs require.

        `now` is the episode so far; the frame before was drawn `stride` steps ago.
        """
        scene = Image.fromarray(picture)
        height = round(scene.height * WIDTH / scene.width)
        kind = Image.Resampling.NEAREST if scene.width < WIDTH / 2 else Image.Resampling.LANCZOS
        scene = scene if scene.width == WIDTH else scene.resize((WIDTH, height), kind)
        whole = height + HEAD + LINE * len(self.limits) + FOOT
        image = Image.new("RGB", (WIDTH, whole + whole % 2), GROUND)
        image.paste(scene, (0, 0))
        draw = ImageDraw.Draw(image)
        new = float(now.costs[-stride:].sum())
        if new > 0:
            self._alarm(draw, height, new)
        self._head(draw, height, now)
        spent = now.costs.sum(0)
        for i, (name, limit) in enumerate(self.limits.items()):
            self._bar(draw, height + HEAD + LINE * i, name, limit, float(spent[i]), i)
        self._course(draw, height + HEAD + LINE * len(self.limits), now)
        return image

    def _alarm(self, draw: ImageDraw.ImageDraw, height: int, cost: float) -> None:
        draw.rectangle((0, 0, WIDTH - 1, height - 1), outline=BAD, width=6)
        text = f"cost +{cost:.3g}"
        wide = draw.textlength(text, font(17, True))
        draw.rectangle((WIDTH - wide - 34, 14, WIDTH - 14, 44), fill=BAD)
        draw.text((WIDTH - wide - 24, 29), text, "#ffffff", font(17, True), anchor="lm")

    def _head(self, draw: ImageDraw.ImageDraw, top: int, now: Episode) -> None:
        right = WIDTH - MARGIN
        draw.text((MARGIN, top + 18), self.title, DIM, font(13), anchor="lm")
        draw.text((right, top + 18), self.caption, DIM, font(13), anchor="rm")
        draw.text((MARGIN, top + 44), "return", TEXT, font(16), anchor="lm")
        draw.text(
            (MARGIN + 64, top + 44), f"{now.rewards.sum():.1f}", TEXT, font(19, True), anchor="lm"
        )
        text = f"step {now.length} of {self.length}"
        draw.text((right, top + 44), text, TEXT, font(16), anchor="rm")

    def _bar(
        self, draw: ImageDraw.ImageDraw, top: int, name: str, limit: float, spent: float, i: int
    ) -> None:
        over = spent > limit
        colour = BAD if over else GOOD
        middle, right = top + LINE // 2, WIDTH - MARGIN
        text = f"{spent:.4g}"
        draw.text((MARGIN, middle), shorten(name, 12), TEXT, font(16), anchor="lm")
        draw.text((146, middle), text, colour, font(17, True), anchor="rm")
        draw.text((154, middle), f"limit {limit:g}", DIM, font(13), anchor="lm")
        most = max(1.3 * limit, float(self.totals[i]) * 1.05, 1e-9)
        at = lambda value: LABEL + round((right - LABEL) * min(value / most, 1.0))
        draw.rectangle((LABEL, middle - 8, right, middle + 8), fill=TRACK)
        if spent > 0:
            draw.rectangle((LABEL, middle - 8, at(min(spent, limit)), middle + 8), fill=GOOD)
        if over:
            draw.rectangle((at(limit), middle - 8, at(spent), middle + 8), fill=BAD)
        draw.rectangle((at(limit) - 1, middle - 13, at(limit) + 1, middle + 13), fill=LIMIT)

    def _course(self, draw: ImageDraw.ImageDraw, top: int, now: Episode) -> None:
        """The episode from left to right, with a red mark at each step with a cost."""
        right, middle = WIDTH - MARGIN, top + FOOT // 2 - 4
        draw.text((MARGIN, middle), "costs over time", DIM, font(13), anchor="lm")
        at = lambda step: LABEL + (right - LABEL) * step / max(self.length, 1)
        draw.rectangle((LABEL, middle - 1, right, middle + 1), fill=TRACK)
        draw.rectangle((LABEL, middle - 1, at(now.length), middle + 1), fill=DIM)
        for step in np.flatnonzero(now.costs.sum(1) > 0):
            draw.rectangle((at(step), middle - 8, max(at(step + 1), at(step) + 1), middle + 8), BAD)
        head = at(now.length)
        draw.rectangle((head - 1, middle - 11, head + 1, middle + 11), fill=TEXT)


def shorten(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
