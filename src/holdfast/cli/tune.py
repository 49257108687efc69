# SPDX-License-Identifier: Apache-2.0
"""`holdfast tune`: search for settings with a high return that keep the limit."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console

from holdfast.bench.board import Board
from holdfast.bench.scheduler import Local
from holdfast.bench.suite import Cell
from holdfast.cli.arguments import Whole, WholeOrNone
from holdfast.cli.options import HELP, parse_run
from holdfast.cluster.cells import Ray
from holdfast.cluster.places import here
from holdfast.console import plain_console
from holdfast.files import locked, write_atomic
from holdfast.process import cores
from holdfast.runs.folder import plain_word
from holdfast.train.environment import Spaces, open_env
from holdfast.tune.search import search
from holdfast.tune.space import parse_space, tuned
from holdfast.tune.study import (
    MOST,
    Constraint,
    Study,
    Trial,
    begin,
    load_optuna,
    read_trials,
    winner,
)
from holdfast.tune.study_page import command_of, suite_of, write_page

USAGE = "tune needs an algorithm and an environment: `holdfast tune c-trpo ENV --steps 1e5`."
SEEDS = 5
"""Seeds of the suite that tests the winner."""


@dataclass(frozen=True)
class Tuning:
    """Search for settings by trials; to continue after a stop, repeat the command.

    Each trial is an ordinary run. Options of `holdfast train` may follow, for all trials.
    """

    trials: Whole = 20
    """Number of trials; a larger number later continues the study."""
    search: tuple[str, ...] = ()
    """Settings to search: NAME (its default range), NAME=LOW..HIGH, NAME=ONE,OTHER."""
    constraint: Constraint = "regret"
    """The constraint of a trial: its raw regret, or the cost of its last quarter."""
    allow: float = 0.01
    """Largest accepted value of the constraint, as a share of the limit."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="FOLDER")] = None
    """Folder of the study; by default runs/tune_ALGO_ENV."""
    jobs: WholeOrNone = None
    """Trials at a time; by default one for each core, of the cluster if one is given."""
    threads: Whole = 1
    """Cores of each trial."""
    cluster: Annotated[str | None, tyro.conf.arg(metavar="ADDRESS")] = None
    """Ray cluster to train on: an address, auto or local."""
    retries: Whole = 2
    """How often a trial that died is restarted from its last checkpoint."""
    dry_run: bool = False
    """Print the search space and the trials so far without running more."""


def command(args: list[str]) -> None:
    """holdfast tune ALGO ENV [options of the search] [options of train]"""
    names = list(takewhile(lambda arg: not arg.startswith("-"), args[:2]))
    if len(names) < 2 and HELP.isdisjoint(args):
        raise ValueError(USAGE)
    given, rest = tyro.cli(
        Tuning,
        args=args[len(names) :],
        prog="holdfast tune ALGO ENV",
        return_unknown_args=True,
    )
    checked(given)
    load_optuna()
    run, options = parse_run(names[0], names[1], rest)
    space = parse_space(run, given.search)
    folder = here(given.out or Path("runs") / f"tune_{run.name}_{plain_word(run.env).strip('-.')}")
    jobs = given.jobs or max(1, cores() // given.threads)
    study = Study(run, space, given.constraint, given.allow, jobs)
    study, asked = begin(folder, study)
    console = plain_console(stderr=True)
    console.print(f"{run.name} on {run.env}: {'; '.join(map(str, space))}")
    if given.dry_run:
        for trial in read_trials(folder, study, asked):
            console.print(_line(study, trial))
        return
    env = open_env(run, trusted=True)  # the user named it; what cannot be trained fails here
    limits = Spaces.of(run, env).limits
    env.close()
    console.print(f"limits: {', '.join(f'{n} {b:g}' for n, b in limits.items())}; in {folder}")
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder / ".lock") as mine:
        if not mine:
            raise ValueError(f"'{folder}' is being searched by another process; wait for it.")
        board = lambda cells: _board(cells, folder, console, options.quiet)
        on_trial = lambda trial: console.print(_line(study, trial), soft_wrap=True)
        shared = folder, given.trials, board, on_trial, given.retries
        try:
            if given.cluster:
                ray = Ray(folder, given.jobs, given.threads, given.cluster)
                study = study if asked else replace(study, wave=ray.slots())
                trials, failed = search(study, asked, *shared, ray)
            else:
                local = Local(folder, jobs, given.threads)
                trials, failed = search(study, asked, *shared, local)
        except KeyboardInterrupt as stop:
            stop.add_note(
                f"all trials so far are kept in '{folder}', and the same command continues"
            )
            raise
        conclude(study, trials, folder, failed)


def checked(given: Tuning) -> None:
    for name, value, least in (
        ("trials", given.trials, 1),
        ("jobs", 1 if given.jobs is None else given.jobs, 1),
        ("threads", given.threads, 1),
        ("retries", given.retries, 0),
    ):
        if not least <= value <= MOST:
            raise ValueError(f"--{name} {value} must be at least {least} and at most {MOST}.")
    if not 0 <= given.allow < float("inf"):
        raise ValueError(f"--allow {given.allow} must be a share of the limit, such as 0.01.")


def _board(cells: Sequence[Cell], folder: Path, console: Console, quiet: bool) -> Board:
    return Board(cells, folder, plain_console(quiet=True) if quiet else console)


def _line(study: Study, trial: Trial) -> str:
    if trial.state == "waiting":
        return f"{trial.name}: to be trained"
    if trial.state == "stopped":
        return f"{trial.name}: stopped at epoch {trial.curve.size}, behind the safe ones before"
    excess = trial.excess + study.allow
    return (
        f"{trial.name}: return {trial.value:.4g}, {study.constraint} {excess:.4g} of the limit "
        f"({'safe' if trial.safe else 'unsafe'})"
    )


def conclude(study: Study, trials: Sequence[Trial], out: Path, failed: dict[str, str]) -> None:
    """Print the page, the winner's command line, and the suite that tests it on other seeds."""
    best, console = winner(trials), plain_console()
    proof: list[str] = []
    if best is not None:
        run = tuned(study.run, study.space, best.params)
        seeds = range(run.seed + 1, run.seed + 1 + SEEDS)
        write_atomic(out / "winner.toml", suite_of(study, best, seeds).encode())
        proof = [command_of(run), f"holdfast bench {shlex.quote(str(out / 'winner.toml'))}"]
    page = write_page(out, study, trials, proof)
    for name, reason in failed.items():
        console.print(f"{name}: {reason} (see {out / 'logs' / name}.log)")
    if best is None:
        raise RuntimeError(f"no trial of '{out}' is complete; correct the cause and repeat.")
    if not best.safe:
        console.print("No trial is safe; this is the one nearest to its limit.")
    lines = {"Winner": _line(study, best), "Train": proof[0], "Prove": proof[1], "Page": str(page)}
    for what, how in lines.items():
        console.print(f"{what + ':':<8}{how}", soft_wrap=True)
    if failed:
        raise RuntimeError(
            f"{len(failed)} trials failed; correct the cause and repeat the command."
        )
    if not best.safe:
        raise SystemExit(1)
