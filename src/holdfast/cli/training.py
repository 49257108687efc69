# SPDX-License-Identifier: Apache-2.0
"""Commands that train: train, resume, demo. Each is parsed by its signature."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import tyro
from rich.console import Console

from holdfast import process

if TYPE_CHECKING:
    from holdfast.envs.base import VecEnv
    from holdfast.run import Run
    from holdfast.runs.folder import Folder
    from holdfast.runs.sinks import Sink
    from holdfast.train.state import State


def fail(message: str, code: int) -> NoReturn:
    Console(stderr=True).print(f"[bold red]holdfast:[/] {message}", highlight=False, soft_wrap=True)
    raise SystemExit(code)


def use_compilation_cache() -> None:
    """Compiled functions are kept between runs: the second start is quick."""
    import jax

    from holdfast.process import compilation_cache

    jax.config.update("jax_compilation_cache_dir", compilation_cache())
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)


def train_command(args: list[str]) -> None:
    """holdfast train ALGO ENV [options]"""
    from holdfast.cli.options import parse_run

    names = [a for a in args[:2] if not a.startswith("-")]
    if len(names) < 2:
        if "-h" in args or "--help" in args:
            parse_run(names[0] if names else "c-trpo", "ENV", ["--help"])
        raise ValueError(
            "train needs an algorithm and an environment: `holdfast train c-trpo ENV`."
        )
    run, chosen = parse_run(names[0], names[1], args[2:])
    from holdfast.runs.folder import create
    from holdfast.train.environment import open_env

    use_compilation_cache()
    env = open_env(run, run.env)
    folder = create(chosen.out or default_out(run), run, env)
    follow(folder, env, None, chosen.quiet, chosen.tensorboard, chosen.wandb)


def default_out(run: Run) -> Path:
    stamp = time.strftime("%Y%m%d-%H%M%S")
    task = run.env.replace("/", "-")
    return Path("runs") / f"{run.name}_{task}_seed{run.seed}_{stamp}"


def follow(
    folder: Folder,
    env: VecEnv,
    state: State | None,
    quiet: bool,
    tensorboard: bool,
    wandb: str | None,
) -> None:
    """Train in a folder with the chosen displays; say where everything is."""
    from holdfast.bars import training_bar
    from holdfast.run import to_json
    from holdfast.runs.sinks import TensorBoard, WandB
    from holdfast.runs.training import train_in_folder

    run = folder.run
    done = state.epoch * run.epoch_steps if state else 0
    extra: list[Sink] = []
    if tensorboard:
        extra.append(TensorBoard(folder.path / "tensorboard", done))
    if wandb:
        extra.append(WandB(wandb, folder.path, to_json(run)))
    bar = None
    if not quiet:
        bar = training_bar(run, env, folder.spaces.limits, done)
        extra.append(bar)
    try:
        with resumable(folder.path):
            for _ in train_in_folder(folder, env, extra, state, bar.advance if bar else None):
                pass
    finally:
        if bar is not None:
            bar.close()
        env.close()
    if not quiet:
        console = Console()
        console.print(f"Run folder: {folder.path}", highlight=False, soft_wrap=True)
        console.print(
            f"Verdict:    holdfast evaluate {folder.path}", highlight=False, soft_wrap=True
        )
        console.print(f"Picture:    holdfast plot {folder.path}", highlight=False, soft_wrap=True)


@contextmanager
def resumable(path: Path) -> Generator[None]:
    """Ctrl-C and SIGTERM say what is saved and how to go on."""
    try:
        yield
    except KeyboardInterrupt as stop:
        from holdfast.runs import checkpoint

        saved = checkpoint.epochs(path)
        kept = f"epoch {saved[-1]} is saved" if saved else "no epoch is finished yet"
        what, code = process.describe(stop)
        fail(f"{what}; {kept}, `holdfast resume {path}` continues.", code)


def resume_command(
    run: tyro.conf.Positional[Path],
    steps: float | None = None,
    quiet: bool = False,
    tensorboard: bool = False,
    wandb: str | None = None,
) -> None:
    """Continue a run from its newest whole checkpoint.

    Args:
        run: The run folder.
        steps: A new total of environment steps, to train a finished run further.
        quiet: No progress display.
        tensorboard: Write TensorBoard events too.
        wandb: Weights & Biases project to log to.
    """
    from holdfast.runs.folder import load_state, open_folder
    from holdfast.runs.training import extended
    from holdfast.train.environment import open_env

    use_compilation_cache()
    folder = open_folder(run)
    state, complaints = load_state(folder)
    folder = extended(folder, state, None if steps is None else int(steps))
    for complaint in complaints:
        Console(stderr=True).print(f"[yellow]skipped:[/] {complaint}", highlight=False)
    env = open_env(folder.run, folder.run.env)
    follow(folder, env, state, quiet, tensorboard, wandb)


DEMO_EPISODES = 800
"""At most: they prove safety where the mean cost is about 20 or less (docs/verdict.md)."""


def demo_run(seed: int = 0) -> Run:
    """What the demo trains; `benchmarks/demo_seeds.py` asks other seeds."""
    from holdfast.run import make_run

    return make_run("c-trpo", env="SafetyHalfCheetahVelocity-v1", steps=1_000_000, seed=seed)


def demo_command(seconds: float = 90.0, out: Path = Path("runs/demo")) -> None:
    """Train C-TRPO on a native task, evaluate it and draw a picture.

    Args:
        seconds: How long to train.
        out: The run folder; an earlier demo there is replaced.
    """
    import shutil

    from holdfast.agent import Agent
    from holdfast.bars import EvaluationBar, training_bar
    from holdfast.runs.folder import create
    from holdfast.runs.plot import plot_run
    from holdfast.runs.training import train_in_folder
    from holdfast.train.environment import open_env

    console = Console()
    use_compilation_cache()
    run = demo_run()
    console.print(
        "[bold]C-TRPO[/] learns to run ([bold]HalfCheetah[/]) but may exceed a speed of 3.21 in at "
        f"most {run.cost_limit:g} of the 1000 steps of an episode.\nWatch the return "
        "rise and the cost approach its limit; an update above the limit only reduces the cost.\n"
        f"About {seconds:.0f} s.\n",
        highlight=False,
    )
    if (out / "run.json").exists():
        shutil.rmtree(out)
    env = open_env(run, run.env)
    folder = create(out, run, env)
    bar = training_bar(run, env, folder.spaces.limits)
    started = time.monotonic()
    try:
        with resumable(out):
            for _ in train_in_folder(folder, env, [bar], on_progress=bar.advance):
                if time.monotonic() - started > seconds:
                    break
    finally:
        bar.close()
        env.close()
    console.print()
    with EvaluationBar(20) as progress:
        result = Agent.load(out).evaluate(
            episodes=20, until_decided=True, max_episodes=DEMO_EPISODES, on_progress=progress.update
        )
    result.print(console)
    if result.verdict.safe == "undecided":
        console.print(f"Decide:     holdfast evaluate {out} --until-decided", highlight=False)
    picture = plot_run(folder, out / "progress.png")
    console.print(f"\nPicture:    {picture}\nRun folder: {out}", highlight=False)
    console.print(f"Go on:      holdfast resume {out}", highlight=False)
