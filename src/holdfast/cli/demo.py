# SPDX-License-Identifier: Apache-2.0
"""`holdfast demo`: train C-TRPO on HalfCheetah and judge it, in about a minute."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast import process
from holdfast.cli.arguments import Whole
from holdfast.cli.session import train_shown
from holdfast.console import plain_console

if TYPE_CHECKING:
    from holdfast.run import Run

DEMO_EPISODES = 800
"""Largest number of episodes; it suffices for a proof if the mean cost is about 20 or less
(docs/verdict.md)."""
DEMO_STEPS = 600_000


def command(seed: int = 0, steps: Whole = DEMO_STEPS, out: Path = Path("runs/demo")) -> None:
    """Train C-TRPO on a native task, evaluate it and draw a picture.

    Args:
        seed: Seed of all random numbers.
        steps: Environment steps; the default takes less than a minute on two cores.
        out: The run folder; an earlier demo there is replaced.
    """
    from holdfast.agent import Agent
    from holdfast.bars.episode_bars import EvaluationBar
    from holdfast.runs.folder import create
    from holdfast.runs.plot import plot_run
    from holdfast.train.environment import Spaces, open_env

    console = plain_console()
    process.use_compilation_cache()
    run = demo_run(seed, steps)
    env = open_env(run)
    (limit,) = Spaces.of(run, env).limits.values()
    about = (
        f"It learns to run but may exceed a speed of 3.21 in at most {limit:g} of the 1000 steps "
        "of an episode.\nWatch the return rise and the cost approach its limit; an update above "
        "the limit only reduces the cost.\nThen fresh episodes judge the policy."
    )
    if (out / "run.json").exists():
        shutil.rmtree(out)
    folder = create(out, run, env)
    train_shown(folder, env, None, [], quiet=False, about=about)
    console.print()
    with EvaluationBar(20) as progress:
        result = Agent.load(out).evaluate(
            episodes=20, until_decided=True, max_episodes=DEMO_EPISODES, on_progress=progress.update
        )
    result.print(console)
    if result.verdict.safe == "undecided":
        decide = f"{folder.command('evaluate')} --until-decided"
        console.print(f"Decide:     {decide}", soft_wrap=True)
    picture = plot_run(folder, out / "progress.png")
    console.print(
        f"\nPicture:    {picture}\nRun folder: {out}\n"
        f"See it:     {folder.command('watch')} -o film.gif\n"
        f"Go on:      {folder.command('resume')} --steps 1e6",
        soft_wrap=True,
    )


def demo_run(seed: int = 0, steps: int = DEMO_STEPS) -> Run:
    """The run of the demo; `evidence/demo_seeds.py` trains other seeds."""
    from holdfast.run import make_run

    return make_run("c-trpo", env="SafetyHalfCheetahVelocity-v1", steps=steps, seed=seed)
