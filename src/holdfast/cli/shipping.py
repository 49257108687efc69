# SPDX-License-Identifier: Apache-2.0
"""Commands that show a policy: export, watch, certify. Each is parsed by its signature."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import tyro

from holdfast.cli.arguments import (
    EnvironmentOptions,
    Judging,
    Out,
    OutOrNone,
    RunFolder,
    WhichPolicy,
    Whole,
    judging_limits,
)
from holdfast.console import plain_console
from holdfast.runs.checkpoint import Which


def export_command(
    run: tyro.conf.Positional[RunFolder],
    out: Out = Path("policy.onnx"),
    which: WhichPolicy = "newest",
    double: bool = False,
    noise: bool = False,
) -> None:
    """Write a trained policy for use without Holdfast, checked against its actions here.

    Args:
        run: The run folder.
        out: policy.onnx, or policy.npz for NumPy alone (with policy.py beside it, which reads it).
        which: The newest policy, the best one that was safe by its own fresh episodes (train with
            --evaluate-every), or that of an epoch whose checkpoint is kept.
        double: ONNX takes and returns float64 instead of float32.
        noise: ONNX has a second output, `sampled`, drawn with the noise that it is given.
    """
    from holdfast.agent import Agent
    from holdfast.runs.storage import called

    agreement = Agent.load(run, which=which).export(out, double=double, noise=noise)
    console = plain_console()
    for file in agreement.files:
        console.print(f"Wrote:   {file}", soft_wrap=True)
    console.print(f"Checked: {agreement}", soft_wrap=True)
    console.print(
        "Judge:   it acts by the most likely action unless it is given noise, at other costs than "
        f"with sampled ones: holdfast evaluate {called(run)}{_which(which)} --greedy",
        soft_wrap=True,
    )


def _which(which: Which) -> str:
    return "" if which == "newest" else f" --which {which}"


def watch_command(
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
        which: The newest policy, the best one that was safe by its own fresh episodes (train with
            --evaluate-every), or that of an epoch whose checkpoint is kept.
        episodes: How many episodes.
        seeds: Show the episodes of these seeds.
        worst_of: Play so many episodes and show the costliest of them.
        seed: Seed of the episodes, as for evaluate: it judges the same ones.
        greedy: Take the most likely action instead of sampling.
        frames: The most frames of an episode; between two of them several steps may pass.
        fps: Frames per second.
        environment: Film it elsewhere.
    """
    from holdfast.agent import Agent
    from holdfast.film import NotDrawn

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


def certify_command(
    run: tyro.conf.Positional[RunFolder],
    out: OutOrNone = None,
    judging: tyro.conf.OmitArgPrefixes[Judging] = Judging(episodes=200),
    environment: tyro.conf.OmitArgPrefixes[EnvironmentOptions] = EnvironmentOptions(),
    limit: tyro.conf.UseAppendAction[tuple[str, ...]] = (),
    film: bool = True,
    perturb: tuple[str, ...] = (),
    describe: str = "",
) -> None:
    """Write a model card: a page and a JSON file on what is known of a policy's safety.

    Args:
        run: The run folder.
        judging: Which episodes, and how many.
        environment: Judge it elsewhere.
        out: A folder for card.html and card.json; by default RUN/card.
        limit: Judge by another limit, NUMBER or NAME=NUMBER; repeat it for several.
        film: Add a video of the costliest of 20 episodes.
        perturb: Judge it under other conditions too, as in evaluate: mass=-20%,+20%.
        describe: What the task is, for the card; by default what its environment states.
    """
    from holdfast.bars import EvaluationBar
    from holdfast.certify import certify
    from holdfast.runs.storage import sync_back

    given: dict[str, Any] = judging.given() | environment.given()
    given["limits"] = judging_limits(limit)
    with EvaluationBar(judging.episodes) as bar:
        given |= {"film": film, "perturb": perturb, "describe": describe}
        page, data = certify(run, out, **given, on_progress=bar.update)
    sync_back(run)
    console = plain_console()
    console.print(f"Page: {page}", soft_wrap=True)
    console.print(f"Data: {data}", soft_wrap=True)
