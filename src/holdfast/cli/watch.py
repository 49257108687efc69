# SPDX-License-Identifier: Apache-2.0
"""`holdfast watch`: a film of a trained policy."""

from __future__ import annotations

from functools import partial

import tyro

from holdfast.cli.arguments import EnvironmentOptions, OutOrNone, RunFolder, WhichPolicy, Whole
from holdfast.console import plain_console


def command(
    run: tyro.conf.Positional[RunFolder],
    out: OutOrNone = None,
    which: WhichPolicy = "newest",
    episodes: Whole = 1,
    seeds: tuple[int, ...] = (),
    worst_of: Whole = 0,
    seed: int = 1_000_000,
    greedy: bool = False,
    frames: int = 250,
    fps: int = 25,
    environment: tyro.conf.OmitArgPrefixes[EnvironmentOptions] = EnvironmentOptions(),
) -> None:
    """Film a trained policy, with return, costs against limits and every cost event.

    Args:
        run: The run folder.
        out: FILE.gif or FILE.mp4; FILE.png, .svg or .pdf for a plot. Without it a window opens.
        episodes: Number of episodes.
        seeds: Show the episodes of these seeds.
        worst_of: Play this many episodes and show the costliest of them.
        seed: Seed of the episodes; `evaluate` with this seed plays the same ones.
        greedy: Take the most likely action instead of sampling.
        frames: Largest number of frames of an episode; several steps may pass between two frames.
        fps: Frames per second.
        environment: Film in another environment.
    """
    from holdfast.agent import Agent
    from holdfast.ship.film import NotDrawn

    film = partial(
        Agent.load(run, which=which).watch,
        **environment.given(),
        episodes=episodes,
        seeds=seeds,
        worst_of=worst_of,
        seed=seed,
        deterministic=greedy,
        frames=frames,
        fps=fps,
    )
    why = "This environment has no pictures."
    try:
        made = film(out)
    except NotDrawn as error:
        if out is None:
            raise
        why = f"No film: {error}"
        made = film(out.with_suffix(".png"))
    console = plain_console()
    if made is not None:
        if made != out:
            console.print(f"{why} Here is a plot instead.", soft_wrap=True)
        console.print(f"Wrote: {made}", soft_wrap=True)
