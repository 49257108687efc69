# SPDX-License-Identifier: Apache-2.0
"""Commands that train: train, resume, demo. Each is parsed by its signature."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Generator
from contextlib import closing, contextmanager
from dataclasses import replace
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import tyro

from holdfast import process
from holdfast.cli.arguments import EnvironmentOptions, RunFolder, Whole, WholeOrNone
from holdfast.console import plain_console, styled

if TYPE_CHECKING:
    from holdfast.cli.options import Options
    from holdfast.envs.base import VecEnv
    from holdfast.run import Run
    from holdfast.runs.folder import Folder
    from holdfast.runs.sinks import Sink
    from holdfast.train.state import State


def fail(message: str, code: int) -> NoReturn:
    """End with a sentence; what it quotes of a file can neither be endless nor steer a terminal."""
    plain = "".join(c if c.isprintable() or c in "\n\t" else "?" for c in message[:4000])
    words = styled(("holdfast:", "bold red"), f" {plain}")
    plain_console(stderr=True).print(words, soft_wrap=True)
    raise SystemExit(code)


def train_command(args: list[str]) -> None:
    """holdfast train ALGO ENV [options], or with --from RUN or --config RUN/run.json instead"""
    from holdfast.cli.options import HELP, first_look, parse_run

    # In two steps: the options are the settings of the algorithm, which ALGO, --from or --config
    # has to name before they can be parsed.
    names = list(takewhile(lambda arg: not arg.startswith("-"), args[:2]))
    first = first_look(args)
    given = [
        flag for flag, value in (("--from", first.origin), ("--config", first.config)) if value
    ]
    if len(names) == 2 and not given:
        run, chosen = parse_run(names[0], names[1], args[2:])
        fit = run.preset is None and not any(arg.startswith("--epoch-steps") for arg in args)
        begin(run, chosen, trusted=True, fit=fit)  # the user named it
    elif not HELP.isdisjoint(args):
        parse_run(names[0] if names else "c-trpo", "ENV", ["--help"])
    elif not given:
        raise ValueError(
            "train needs an algorithm and an environment: `holdfast train c-trpo ENV`."
        )
    elif names or len(given) > 1:
        raise ValueError(
            f"train {given[0]} takes algorithm and environment from the run: leave "
            f"{'ALGO and ENV' if names else given[1]} out."
        )
    elif first.origin:
        train_from(first.origin, args)
    else:
        train_again(str(first.config), args)


def train_from(origin: str, args: list[str]) -> None:
    """A new run that begins with the policy of another, under other settings."""
    from holdfast.cli.options import parse_run
    from holdfast.runs.folder import load_state, open_folder
    from holdfast.runs.places import is_uri
    from holdfast.runs.storage import local_copy
    from holdfast.runs.trust import is_remembered
    from holdfast.runs.zoo import is_zoo

    before = open_folder(local_copy(origin))
    state, _ = load_state(before)
    if state is None:
        raise ValueError(f"'{origin}' holds no checkpoint to begin with; train it first.")
    run, chosen = parse_run("", "", args, before.run)
    named = is_uri(origin) or is_zoo(origin)
    run = replace(run, origin=f"{origin if named else before.path}@{state.epoch}")
    begin(run, chosen, chosen.more.trust_env or is_remembered(before.path), state)


def train_again(config: str, args: list[str]) -> None:
    """The run of a run.json once more, in a new folder; flags change what they name."""
    from holdfast.cli.options import parse_run
    from holdfast.run import from_json
    from holdfast.runs.checkpoint import read_json
    from holdfast.runs.folder import load_state, open_folder
    from holdfast.runs.storage import local_copy
    from holdfast.runs.trust import is_remembered

    file = Path(config)
    file = file / "run.json" if file.is_dir() else file
    data = read_json(file)
    run, chosen = parse_run("", "", args, from_json(data.get("run")))
    if before := data.get("extended_from"):
        print(f"holdfast: {not_the_same(file, before, run.steps)}", file=sys.stderr)
    state = None
    if run.origin:
        place, _, epoch = run.origin.rpartition("@")
        state, _ = load_state(open_folder(local_copy(place)))
        if state is None or str(state.epoch) != epoch:
            raise ValueError(
                f"'{file}' began with epoch {epoch} of '{place}', which is no longer there; "
                "restore that folder first."
            )
    begin(run, chosen, chosen.more.trust_env or is_remembered(file.parent), state)


def not_the_same(file: Path, before: object, steps: int) -> str:
    """Why a run that was extended is not repeated bit for bit."""
    totals = ", ".join(f"{total}" for total in (before if isinstance(before, list) else [before]))
    return (
        f"'{file}' was extended from {totals} steps by `holdfast resume --steps`, and what follows "
        f"the total (the final phase, rates that decay) followed the earlier one at first: a run "
        f"of {steps} steps from its start has other numbers."
    )


def begin(
    run: Run, chosen: Options, trusted: bool, state: State | None = None, fit: bool = False
) -> None:
    """Train in a new folder, with what another run has learned; a start that fails leaves none.

    `fit`: choose the length of epochs by the environment, as nobody gave it.
    """
    from holdfast.runs.folder import create
    from holdfast.runs.training import begin_with
    from holdfast.train.environment import open_env, with_fitting_epochs

    process.use_compilation_cache()
    env = open_env(run, trusted=trusted, cluster=chosen.more.cluster)
    run = with_fitting_epochs(run, env) if fit else run
    folder = create(chosen.out or default_out(run), run, env)
    try:
        begun = begin_with(folder, state) if state else None
        extra = sinks(folder, 0, chosen.more.tensorboard, chosen.more.wandb)
    except BaseException:
        shutil.rmtree(folder.path)
        raise
    follow(folder, env, begun, extra, chosen.quiet)


def default_out(run: Run) -> Path:
    from holdfast.runs.folder import plain_word

    stamp = time.strftime("%Y%m%d-%H%M%S")
    task = plain_word(run.env).strip("-.")
    return Path("runs") / f"{run.name}_{task}_seed{run.seed}_{stamp}"


def sinks(folder: Folder, done: int, tensorboard: bool, wandb: str | None) -> list[Sink]:
    """Where else the metrics go, after `done` steps."""
    from holdfast.run import to_json
    from holdfast.runs.sinks import TensorBoard, WandB

    extra: list[Sink] = []
    if tensorboard:
        extra.append(TensorBoard(folder.path / "tensorboard", done))
    if wandb:
        extra.append(WandB(wandb, folder.path, to_json(folder.run)))
    return extra


def follow(
    folder: Folder, env: VecEnv, state: State | None, extra: list[Sink], quiet: bool
) -> None:
    """Train in a folder; say where everything is."""
    train_shown(folder, env, state, extra, quiet)
    if not quiet:
        from holdfast.film.views import film_name

        said = {
            "Run folder": str(folder.path),
            "Verdict": folder.command("evaluate"),
            "Picture": folder.command("plot", code=False),
            "Film": f"{folder.command('watch')} -o {film_name(folder.run)}",
            "Deploy": folder.command("export", code=False) + " -o policy.onnx",
        }
        for what, how in said.items():
            line = f"{what + ':':<12}{how}"
            plain_console().print(line, soft_wrap=True)


def train_shown(
    folder: Folder,
    env: VecEnv,
    state: State | None,
    extra: list[Sink],
    quiet: bool,
    about: str = "",
) -> None:
    """Train in a folder with the chosen displays; then close all that was opened for it."""
    from holdfast.bars import training_bar
    from holdfast.runs.sinks import closed_after
    from holdfast.runs.storage import sync_back
    from holdfast.runs.training import train_in_folder

    run = folder.run
    done = state.epoch * run.epoch_steps if state else 0
    bar = None
    if not quiet:
        bar = training_bar(run, env, folder.spaces.limits, done, about)
        extra.append(bar)
    try:
        epochs = train_in_folder(folder, env, extra, state, bar.advance if bar else None)
        with resumable(folder), closed_after(extra), closing(epochs):
            for _ in epochs:
                sync_back(folder.path)
    finally:
        sync_back(folder.path)
        env.close()


@contextmanager
def resumable(folder: Folder) -> Generator[None]:
    """Ctrl-C and SIGTERM say what is saved and how to go on."""
    try:
        yield
    except KeyboardInterrupt as stop:
        from holdfast.runs.checkpoint import newest

        what, code = process.describe(stop)
        fail(f"{what}; {newest(folder.path)}, `{folder.command('resume')}` continues.", code)


def renamed(run: Run, place: EnvironmentOptions) -> Run:
    """The run with the names that a command line gives, the environment with its arguments."""
    given = place.given()
    if place.env is not None:
        run = replace(run, env=place.env, env_args=given["env_args"])
    return run if place.cost is None else replace(run, cost=place.cost)


def resume_command(
    run: tyro.conf.Positional[RunFolder],
    steps: WholeOrNone = None,
    quiet: bool = False,
    tensorboard: bool = False,
    wandb: str | None = None,
    environment: tyro.conf.OmitArgPrefixes[EnvironmentOptions] = EnvironmentOptions(),
    cluster: str | None = None,
) -> None:
    """Continue a run from its newest whole checkpoint.

    Args:
        run: The run folder.
        steps: A new total of environment steps, to train a finished run further.
        quiet: No progress display.
        tensorboard: Write TensorBoard events too.
        wandb: Weights & Biases project to log to.
        environment: Its name now, where it moved or had none.
        cluster: A Ray cluster whose machines the workers run on: an address, auto or local.
    """
    from holdfast.runs.folder import load_state, open_folder
    from holdfast.runs.training import extended
    from holdfast.runs.trust import is_remembered
    from holdfast.train.environment import open_env

    process.use_compilation_cache()
    folder = open_folder(run)
    state, complaints = load_state(folder)
    folder = extended(folder, state, steps)
    for complaint in complaints:
        plain_console(stderr=True).print(styled(("skipped:", "yellow"), f" {complaint}"))
    folder = replace(folder, run=renamed(folder.run, environment))
    given = environment.env, environment.cost
    envs = open_env(
        folder.run, *given, trusted=environment.trust_env or is_remembered(run), cluster=cluster
    )
    done = state.epoch * folder.run.epoch_steps if state else 0
    follow(folder, envs, state, sinks(folder, done, tensorboard, wandb), quiet)


DEMO_EPISODES = 800
"""At most: they prove safety where the mean cost is about 20 or less (docs/verdict.md)."""


DEMO_STEPS = 600_000


def demo_run(seed: int = 0, steps: int = DEMO_STEPS) -> Run:
    """What the demo trains; `benchmarks/demo_seeds.py` asks other seeds."""
    from holdfast.run import make_run

    return make_run("c-trpo", env="SafetyHalfCheetahVelocity-v1", steps=steps, seed=seed)


def demo_command(seed: int = 0, steps: Whole = DEMO_STEPS, out: Path = Path("runs/demo")) -> None:
    """Train C-TRPO on a native task, evaluate it and draw a picture.

    Args:
        seed: Everything random follows from it.
        steps: Environment steps; the default takes less than a minute on two cores.
        out: The run folder; an earlier demo there is replaced.
    """
    from holdfast.agent import Agent
    from holdfast.bars import EvaluationBar
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
        console.print(f"Decide:     holdfast evaluate {out} --until-decided")
    picture = plot_run(folder, out / "progress.png")
    console.print(f"\nPicture:    {picture}\nRun folder: {out}")
    console.print(
        f"See it:     holdfast watch {out} -o film.gif\n"
        f"Go on:      holdfast resume {out} --steps 1e6"
    )
