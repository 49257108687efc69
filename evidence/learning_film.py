# SPDX-License-Identifier: Apache-2.0
"""A film of a policy while it learns: episodes of its checkpoints above the run's curves so far.

holdfast train c-trpo SafetyHalfCheetahVelocity-v1 --steps 1e6 --seed 1 --keep 60 --out RUN
python evidence/learning_film.py RUN -o docs/images/learning.webp
"""

import argparse
import shutil
import tempfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

from holdfast import Agent
from holdfast.drawing.palette import BLUE
from holdfast.records.rows import read_progress
from holdfast.runs.checkpoint import saved_epochs
from holdfast.ship.film import Address, Film
from holdfast.ship.film.views import View, open_view

MOMENTS = 6
FRAMES, STRIDE, FPS = 18, 3, 12
"""Frames of each moment, the steps between two of them, and their pace."""
SKIP = 400
"""Steps of an episode before the first frame: the start looks the same for all."""
SIZE = (480, 192)


def at_epoch(run: Path, epoch: int, place: Path) -> Agent:
    """The agent as it was: a folder with that checkpoint alone."""
    name = f"epoch-{epoch:06d}"
    shutil.copytree(run / "checkpoint" / name, place / "checkpoint" / name)
    for file in ("run.json", "progress.csv"):
        shutil.copy(run / file, place)
    return Agent.load(place)


def pictures(agent: Agent, view: View) -> Iterator[Image.Image]:
    """Some steps in the middle of an episode, seen."""
    film = Film(agent.actor(), agent.spaces.limits, "", frames=FRAMES)
    steps = islice(film.play(view.env, Address(1_000_000)), SKIP, SKIP + FRAMES * STRIDE)
    for number, instant in enumerate(steps):
        if number % STRIDE == 0 and not instant.last:
            yield cut(view.picture())


def cut(pixels: np.ndarray) -> Image.Image:
    """The middle band of a picture."""
    image = Image.fromarray(pixels)
    height = image.width * SIZE[1] // SIZE[0]
    top = (image.height - height) // 2
    return image.crop((0, top, image.width, top + height)).resize(SIZE)


def curves(run: Path, epoch: int, limit: float) -> Image.Image:
    """Return and cost up to an epoch, on axes that do not move."""
    rows = read_progress(run / "progress.csv")
    steps = rows["env_steps"] / 1e6
    figure = Figure(figsize=(4.8, 1.6), dpi=100, layout="constrained")
    canvas = FigureCanvasAgg(figure)
    parts = {"ep_return_raw": "return of an episode", "ep_cost_raw": "cost, with its limit"}
    for axis, (name, title) in zip(figure.subplots(1, 2), parts.items(), strict=True):
        low, high = min(0.0, rows[name].min()), max(rows[name].max(), limit)
        axis.set(xlim=(0, steps[-1]), ylim=(low, 1.05 * high))
        axis.set_xlabel("million steps", fontsize=7)
        axis.plot(steps[:epoch], rows[name][:epoch], color=BLUE)
        axis.plot(steps[epoch - 1], rows[name][epoch - 1], "o", color=BLUE, ms=4)
        axis.set_title(title, fontsize=9)
        axis.tick_params(labelsize=7)
        axis.spines[["top", "right"]].set_visible(False)
    axis.axhline(limit, color="#e0561f", ls="--", lw=1.2)
    canvas.draw()
    return Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB")


def frames(run: Path) -> Iterator[Image.Image]:
    kept = saved_epochs(run)
    for epoch in [kept[i] for i in np.linspace(0, len(kept) - 1, MOMENTS).round().astype(int)]:
        with tempfile.TemporaryDirectory() as place:
            agent = at_epoch(run, epoch, Path(place))
            view = open_view(agent.run, None, None, "rgb_array")
            try:
                below = curves(run, epoch, *agent.spaces.limits.values())
                for above in pictures(agent, view):
                    frame = Image.new("RGB", (SIZE[0], SIZE[1] + below.height), "white")
                    frame.paste(above, (0, 0))
                    frame.paste(below, (0, SIZE[1]))
                    yield frame
            finally:
                view.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("-o", "--out", type=Path, default=Path("learning.webp"))
    parser.add_argument("--quality", type=int, default=36)
    chosen = parser.parse_args()
    first, *rest = frames(chosen.run)
    how = {"duration": round(1000 / FPS), "loop": 0, "quality": chosen.quality, "method": 4}
    first.save(chosen.out, save_all=True, append_images=rest, **how)
    print(f"{chosen.out}: {len(rest) + 1} frames, {chosen.out.stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
