# SPDX-License-Identifier: Apache-2.0
"""Commands for a policy that leaves: watch, export. Each is parsed by its signature."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console

from holdfast.cli.folders import RunFolder

Out = Annotated[Path, tyro.conf.arg(aliases=["-o"])]


def export_command(run: tyro.conf.Positional[RunFolder], out: Out = Path("policy.onnx")) -> None:
    """Write a trained policy for use without Holdfast, checked against its actions here.

    Args:
        run: The run folder.
        out: policy.onnx, or policy.npz for NumPy alone (with policy.py beside it, which reads it).
    """
    from holdfast.agent import Agent

    agreement = Agent.load(run).export(out)
    console = Console(highlight=False)
    for file in agreement.files:
        console.print(f"Wrote:   {file}", soft_wrap=True, markup=False)
    console.print(f"Checked: {agreement}", soft_wrap=True)


def watch_command(
    run: tyro.conf.Positional[RunFolder],
    out: Annotated[Path | None, tyro.conf.arg(aliases=["-o"])] = None,
    episodes: int = 1,
    seeds: tuple[int, ...] = (),
    worst_of: int = 0,
    seed: int = 1_000_000,
    greedy: bool = False,
    frames: int = 250,
    fps: int = 25,
    trust_env: bool = False,
    env: str | None = None,
    env_arg: tyro.conf.UseAppendAction[tuple[str, ...]] = (),
    cost: str | None = None,
) -> None:
    """Film a trained policy, with return, costs against limits and every cost event.

    Args:
        run: The run folder.
        out: FILE.gif or FILE.mp4; FILE.png, .svg or .pdf for a plot. Without it a window opens.
        episodes: How many episodes.
        seeds: Show the episodes of these seeds.
        worst_of: Play so many episodes and show the costliest of them.
        seed: Seed of the episodes, as for evaluate: it judges the same ones.
        greedy: Take the most likely action instead of sampling.
        frames: The most frames of an episode; between two of them several steps may pass.
        fps: Frames per second.
        trust_env: Import the environment that the run folder names, if it is not one of ours.
        env: Film in this environment instead: an id, module:Class or path/to/file.py:Class.
        env_arg: An argument to make it with, NAME=VALUE; repeat it for several.
        cost: A cost function's name, module:function or file.py:function.
    """
    from holdfast.agent import Agent
    from holdfast.cli.options import args_of

    made = Agent.load(run).watch(
        out,
        env,
        episodes=episodes,
        seeds=seeds,
        worst_of=worst_of,
        seed=seed,
        deterministic=greedy,
        frames=frames,
        fps=fps,
        cost=cost,
        env_args=args_of(env, env_arg),
        trust_env=trust_env,
    )
    console = Console(highlight=False)
    if made is not None:
        if made != out:
            console.print("This environment cannot be drawn, so here is a plot.")
        console.print(f"Wrote: {made}", soft_wrap=True, markup=False)


def certify_command(
    run: tyro.conf.Positional[RunFolder],
    out: Annotated[Path | None, tyro.conf.arg(aliases=["-o"])] = None,
    episodes: int = 200,
    until_decided: bool = False,
    max_episodes: int = 10_000,
    cost_bound: float | None = None,
    seed: int = 1_000_000,
    greedy: bool = False,
    film: bool = True,
    perturb: tuple[str, ...] = (),
    trust_env: bool = False,
    env: str | None = None,
    env_arg: tyro.conf.UseAppendAction[tuple[str, ...]] = (),
    cost: str | None = None,
) -> None:
    """Write a model card: a page and a JSON file on what is known of a policy's safety.

    Args:
        run: The run folder.
        out: A folder for card.html and card.json; by default RUN/card.
        episodes: How many fresh episodes to judge by.
        until_decided: Run more until the policy is proved safe or unsafe.
        max_episodes: Stop there even if nothing is proved.
        cost_bound: The most that one episode can cost; native tasks and probes know it.
        seed: Seed of the episodes; differs from the training seeds.
        greedy: Judge the most likely actions instead of sampled ones.
        film: Add a video of the costliest of 20 episodes.
        perturb: Judge it under other conditions too, as in evaluate: mass=-20%,+20%.
        trust_env: Import the environment that the run folder names, if it is not one of ours.
        env: Judge in this environment instead: an id, module:Class or path/to/file.py:Class.
        env_arg: An argument to make it with, NAME=VALUE; repeat it for several.
        cost: A cost function's name, module:function or file.py:function.
    """
    from holdfast.bars import EvaluationBar
    from holdfast.certify import certify
    from holdfast.cli.options import args_of
    from holdfast.runs.storage import give_back

    with EvaluationBar(episodes) as bar:
        page, data = certify(
            run,
            out,
            episodes=episodes,
            until_decided=until_decided,
            max_episodes=max_episodes,
            cost_bound=cost_bound,
            seed=seed,
            deterministic=greedy,
            film=film,
            perturb=perturb,
            trust_env=trust_env,
            env=env,
            env_args=args_of(env, env_arg),
            cost=cost,
            on_progress=bar.update,
        )
    give_back(run)
    console = Console(highlight=False)
    console.print(f"Page: {page}", soft_wrap=True, markup=False)
    console.print(f"Data: {data}", soft_wrap=True, markup=False)
