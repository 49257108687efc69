# SPDX-License-Identifier: Apache-2.0
"""`holdfast bench`: a whole comparison by one command, on one machine or many."""

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.console import Console
from rich.table import Table

from holdfast.bench.board import Board
from holdfast.bench.duration import effort
from holdfast.bench.scheduler import Local, train_cells
from holdfast.bench.suite import Cell, Suite, cells, load_suite, parse_seeds, shipped, with_options
from holdfast.cli.arguments import WholeOrNone
from holdfast.cluster.cells import Ray
from holdfast.cluster.places import here
from holdfast.cluster.storage import fetch, runs_under
from holdfast.console import plain_console, styled
from holdfast.envs.foreign.references import refuse_untrusted
from holdfast.files import read_json, write_json
from holdfast.own_barrier import barrier_name
from holdfast.process import cores
from holdfast.run import from_json
from holdfast.runs.checkpoint import saved_epochs
from holdfast.settings import leaves

SUITES = f"A shipped suite ({', '.join(shipped())}) or your own TOML file."


SEEDS = "Number of seeds, or the seeds (0,1000,2000; a single seed as 20,) instead of the suite's."
ONLY = (
    "ALGORITHM/TASK pairs to run. ALGORITHM is a name, or a label with settings as in --dry-run; "
    "TASK is a part of a task's name. Either may be empty."
)
CLUSTER = (
    "Ray cluster to train on: its address (10.0.0.1:6379), auto for the cluster of this machine, "
    "or local for a new one on this machine alone."
)
STORAGE = (
    "URI where the cluster keeps run folders, instead of --out here: s3://..., gs://... or any "
    "other URI of fsspec."
)


def command(
    suite: tyro.conf.Positional[Annotated[str, tyro.conf.arg(help=SUITES)]],
    *,
    steps: WholeOrNone = None,
    seeds: Annotated[str | None, tyro.conf.arg(help=SEEDS)] = None,
    tasks: tuple[str, ...] = (),
    only: Annotated[tuple[str, ...], tyro.conf.arg(help=ONLY)] = (),
    jobs: int | None = None,
    cluster: Annotated[str | None, tyro.conf.arg(help=CLUSTER)] = None,
    storage: Annotated[str | None, tyro.conf.arg(help=STORAGE)] = None,
    out: Path | None = None,
    retries: int = 2,
    threads: int = 1,
    dry_run: bool = False,
    trust_env: bool = False,
) -> None:
    """Run a suite of algorithms, tasks and seeds; to continue after a stop, repeat the command.

    Args:
        steps: Environment steps of each run, instead of the suite's.
        tasks: Tasks for all algorithms instead of the suite's; any environment, as in train.
        jobs: Runs at a time; by default one for each core.
        out: Folder of the runs; by default runs/SUITE.
        retries: How often a run that died is restarted from its last checkpoint.
        threads: Cores of each run.
        dry_run: Print the runs and the estimated time without running them.
        trust_env: Import the environments that the suite names, if they are not built in.
    """
    for name, value, least in (("jobs", jobs, 1), ("threads", threads, 1), ("retries", retries, 0)):
        if value is not None and value < least:
            raise ValueError(f"--{name} {value} must be at least {least}.")
    chosen = with_options(load_suite(suite), steps, _seeds(seeds), tasks)
    grid = cells(chosen, only)
    for cell in grid:
        names = (cell.run.env, cell.run.cost, barrier_name(cell.run.algorithm))
        refuse_untrusted(names, cell.run.env_args, trust_env)
    folder = Path("runs") / chosen.name if out is None else here(out)
    if storage:
        look_up(grid, storage, folder, cluster)
    at_once = jobs if jobs is not None else max(1, cores() // threads)
    console = plain_console(stderr=True)
    refuse_other_settings(grid, folder)
    announce(console, chosen, grid, folder, at_once)
    if dry_run:
        for cell in grid:
            print(cell.name)
        return
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "suite.json", {"suite": chosen.name, "cells": begun_cells(folder, grid)})
    board = Board(grid, folder, console)
    try:
        if cluster:
            ray = Ray(folder, jobs, threads, cluster, storage)
            failed = train_cells(grid, folder, ray, board, retries)
        else:
            failed = train_cells(grid, folder, Local(folder, at_once, threads), board, retries)
    except KeyboardInterrupt as stop:
        stop.add_note(f"the runs are kept in '{folder}', and the same command continues")
        raise
    finally:
        board.close()
    conclude(console, grid, folder, failed)


def begun_cells(folder: Path, grid: Sequence[Cell]) -> list[str]:
    """Names of the runs of a grid and of all runs begun earlier in its folder."""
    file = folder / "suite.json"
    earlier: Any = read_json(file).get("cells") if file.exists() else None
    names = [name for name in earlier or () if isinstance(name, str)]
    return list(dict.fromkeys([*names, *(cell.name for cell in grid)]))


def look_up(grid: Sequence[Cell], storage: str, out: Path, cluster: str | None) -> None:
    """Copy the grid's runs, without checkpoints, from the storage to this machine."""
    if not cluster:
        raise ValueError("--storage is where a cluster keeps its runs: name it with --cluster.")
    known = set(runs_under(storage))
    for cell in grid:
        if cell.name in known and not saved_epochs(out / cell.name):  # else it has more
            fetch(f"{storage.rstrip('/')}/{cell.name}", out / cell.name, small=True)


def refuse_other_settings(grid: Sequence[Cell], out: Path) -> None:
    """Refuse a folder with a run of other settings, before anything starts."""
    for cell in grid:
        file = out / cell.name / "run.json"
        if not file.exists():
            continue
        # A setting that did not exist when it was begun has its default.
        both = from_json(read_json(file).get("run", {})), cell.run
        begun, wanted = ({setting.path: setting.value for setting in leaves(run)} for run in both)
        for name in sorted(begun.keys() | wanted.keys()):
            if begun.get(name) != wanted.get(name):
                raise ValueError(
                    f"'{file.parent}' was begun with {name}={begun.get(name)}, and {name}="
                    f"{wanted.get(name)} is requested; choose another --out or remove that folder."
                )


def announce(console: Console, suite: Suite, grid: Sequence[Cell], out: Path, jobs: int) -> None:
    """Print the grid, its finished runs and the estimated time of the rest."""
    done = [cell for cell in grid if (out / cell.name / "done.json").exists()]
    rows: dict[str, list[Cell]] = {}
    for cell in grid:
        rows.setdefault(cell.label, []).append(cell)
    console.print(styled((suite.name, "bold"), f" {suite.description}"))
    table = Table("algorithm", "tasks", "seeds", "done", box=None)
    for label, members in rows.items():
        tasks, seeds = {c.run.env for c in members}, {c.run.seed for c in members}
        finished = sum(c in done for c in members)
        table.add_row(label, str(len(tasks)), str(len(seeds)), f"{finished} of {len(members)}")
    console.print(table)
    console.print(f"on {', '.join(sorted({c.run.env for c in grid}))}")
    steps = grid[0].run.epochs * grid[0].run.epoch_steps
    console.print(
        f"{len(grid)} runs of {steps:,} steps, {len(done)} done, {jobs} at a time, in {out}"
    )
    if len(done) < len(grid):
        console.print(f"Time: {effort(grid, out, jobs)}")


def conclude(console: Console, grid: Sequence[Cell], out: Path, failed: dict[str, str]) -> None:
    """Print failed runs with their logs, and the command that shows the results."""
    console.print(f"{len(grid) - len(failed)} of {len(grid)} runs are done.")
    for name, reason in failed.items():
        console.print(f"  {name}: {reason} (see {out / 'logs' / name}.log)")
    command = shlex.join(["holdfast", "report", str(out), "-o", str(out / "report")])
    console.print(f"Report: {command}", soft_wrap=True)
    if failed:
        raise RuntimeError(f"{len(failed)} runs failed; correct the cause and repeat the command.")


def _seeds(text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    try:
        numbers = [int(part) for part in text.removesuffix(",").split(",")]
    except ValueError:
        raise ValueError(
            f"--seeds {text} must be a number of seeds, or seeds such as 0,1000 or 20, (one seed)."
        ) from None
    return parse_seeds(numbers if "," in text else numbers[0])
