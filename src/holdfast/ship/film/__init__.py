# SPDX-License-Identifier: Apache-2.0
"""Films of a policy: videos of chosen episodes, a window, or a plot."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from holdfast.envs.acting import Actor
from holdfast.envs.base import VecEnv
from holdfast.envs.rollout import Round, play
from holdfast.judge.evaluate import evaluate
from holdfast.ship.film.episode import Address, Episode, Instant, choose, episode_of
from holdfast.ship.film.episode_plot import plot_episodes
from holdfast.ship.film.panel import WIDTH, Panel
from holdfast.ship.film.views import NotDrawn, View
from holdfast.ship.film.writers import KINDS, write_video

__all__ = ["PLOTS", "Address", "Episode", "Film", "NotDrawn", "choose"]

PLOTS = (".png", ".svg", ".pdf")
OnFrame = Callable[[int, int], None]
"""(frames so far, of how many)"""


@dataclass(frozen=True)
class Film:
    """Settings of a film."""

    actor: Actor
    limits: Mapping[str, float]
    title: str
    deterministic: bool = False
    discount: float = 1.0
    """Discount of the costs."""
    frames: int = 250
    """Largest number of frames of an episode; several steps may lie between two frames."""
    fps: int = 25

    def play(self, env: VecEnv, address: Address) -> Iterator[Instant]:
        """Run one episode in a batch of one."""
        first = Round(address.seed, address.index, self.deterministic)
        for played in play(env, self.actor, first):
            step = played.step
            yield Instant(
                float(step.reward[0]),
                self.discount**played.time * np.asarray(step.cost[0], np.float64),
                np.atleast_1d(np.asarray(played.action[0], np.float64)),
                bool(step.terminated[0] or step.truncated[0]),
            )

    def episode(self, view: View, address: Address) -> Episode:
        """Run an episode without drawing."""
        return episode_of(address, list(self.play(view.env, address)))

    def by_cost(self, view: View, count: int, seed: int) -> list[Address]:
        """`count` episodes, the costliest first (against its limits; then of least return)."""
        result = evaluate(
            self.actor,
            view.env,
            dict(self.limits),
            episodes=count,
            seed=seed,
            deterministic=self.deterministic,
            discount=self.discount,
        )
        wanted = np.array(list(self.limits.values()))
        share = (result.costs / np.where(wanted > 0, wanted, 1.0)).max(1)
        return [Address(seed, int(i)) for i in np.lexsort((result.returns, -share))]

    def write(
        self, view: View, addresses: Sequence[Address], target: Path, on_frame: OnFrame
    ) -> Path:
        """Write a video, or a plot by its suffix or for an environment without pictures; returns
        its path.
        """
        if target.suffix not in (*KINDS, *PLOTS):
            raise ValueError(
                f"'{target}' must end in .gif or .mp4 for a video, .png, .svg or .pdf for a plot."
            )
        episodes = [self.episode(view, address) for address in addresses]
        if target.suffix in PLOTS or view.picture is None:
            target = target if target.suffix in PLOTS else target.with_suffix(".png")
            plot_episodes(episodes, self.limits, self.title, target)
        else:
            write_video(target, self.images(view, episodes, on_frame), self.fps)
        return target

    def images(
        self, view: View, episodes: Sequence[Episode], on_frame: OnFrame
    ) -> Iterator[Image.Image]:
        """Run each episode again, with drawing."""
        strides = [-(-episode.length // self.frames) for episode in episodes]
        total = sum(
            -(-episode.length // stride) for episode, stride in zip(episodes, strides, strict=True)
        )
        done = 0
        for number, (episode, stride) in enumerate(zip(episodes, strides, strict=True), 1):
            many = f"episode {number} of {len(episodes)}, " if len(episodes) > 1 else ""
            panel = Panel(
                self.title,
                f"{many}{episode.address}",
                self.limits,
                episode.length,
                episode.costs.sum(0),
            )
            for frame in self._episode(view, episode.address, panel, stride):
                done = min(done + 1, total)
                on_frame(done, total)
                yield frame

    def _episode(
        self, view: View, address: Address, panel: Panel, stride: int
    ) -> Iterator[Image.Image]:
        """A frame every `stride` steps; the last one is shown for a second."""
        assert view.picture is not None
        played: list[Instant] = []
        picture = np.zeros((480, WIDTH, 3), np.uint8)
        for instant in self.play(view.env, address):
            played.append(instant)
            if instant.last:
                break
            if len(played) % stride == 0 or len(played) == 1:
                picture = view.picture()
                yield panel.frame(picture, episode_of(address, played), stride)
        end = panel.frame(picture, episode_of(address, played), stride)
        yield from [end] * self.fps

    def show(self, view: View, addresses: Sequence[Address], report: Callable[[str], None]) -> None:
        """Show the episodes in a window, with a line of text at every step."""
        if view.show is None:
            raise RuntimeError(
                "this environment has no window: write a video or plot instead (-o episode.gif)."
            )
        for address in addresses:
            played: list[Instant] = []
            for instant in self.play(view.env, address):
                played.append(instant)
                now = episode_of(address, played)
                spent = zip(self.limits.items(), now.costs.sum(0), strict=True)
                costs = ", ".join(f"{name} {cost:.4g} of {b:g}" for (name, b), cost in spent)
                report(f"{address}, step {now.length}: return {now.rewards.sum():.1f}, {costs}")
                if not instant.last:
                    view.show()
