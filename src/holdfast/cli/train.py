# SPDX-License-Identifier: Apache-2.0
"""`holdfast train`: a new run, also from the policy or the settings of another."""

from __future__ import annotations

import shutil
import sys
import time
from dataclasses import replace
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, cast

from holdfast import process
from holdfast.cli.session import follow, sinks

if TYPE_CHECKING:
    from holdfast.cli.options import Options
    from holdfast.run import Run
    from holdfast.train.state import State


def command(args: list[str]) -> None:
    """holdfast train ALGO ENV [options], or with --from RUN or --config RUN/run.json instead"""
    from holdfast.cli.options import HELP, gives_epochs, parse_first, parse_run

    # In two steps: the options are the settings of the algorithm, which ALGO, --from or --config
    # has to name before they can be parsed.
    names = list(takewhile(lambda arg: not arg.startswith("-"), args[:2]))
    first = parse_first(args)
    given = [
        flag for flag, value in (("--from", first.origin), ("--config", first.config)) if value
    ]
    if len(names) == 2 and not given:
        run, chosen = parse_run(names[0], names[1], args[2:])
        fit = run.preset is None and not gives_epochs(args)
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
    """A new run that begins with the policy of another run, with other settings."""
    from holdfast.cli.options import parse_run
    from holdfast.cluster.places import is_uri
    from holdfast.cluster.storage import local_copy
    from holdfast.records.zoo import is_zoo
    from holdfast.runs.consent import is_remembered
    from holdfast.runs.folder import load_state, open_folder

    before = open_folder(local_copy(origin))
    state, _ = load_state(before)
    if state is None:
        raise ValueError(f"'{origin}' has no checkpoint to begin with; train it first.")
    run, chosen = parse_run("", "", args, before.run)
    named = is_uri(origin) or is_zoo(origin)
    run = replace(run, origin=f"{origin if named else before.path}@{state.epoch}")
    begin(run, chosen, chosen.more.trust_env or is_remembered(before.path), state)


def train_again(config: str, args: list[str]) -> None:
    """Repeat the run of a run.json in a new folder; flags change settings."""
    from holdfast.cli.options import parse_run
    from holdfast.cluster.places import is_uri
    from holdfast.cluster.storage import local_copy
    from holdfast.files import read_json
    from holdfast.records.zoo import is_zoo
    from holdfast.run import from_json
    from holdfast.runs.consent import is_remembered
    from holdfast.runs.folder import load_state, open_folder

    named = config.removesuffix("/run.json")
    file = local_copy(named, small=True) if is_uri(named) or is_zoo(named) else Path(config)
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
    earlier = cast(list[object], before) if isinstance(before, list) else [before]
    totals = ", ".join(map(str, earlier))
    return (
        f"'{file}' was extended from {totals} steps by `holdfast resume --steps`, so its "
        "schedules (the final phase, the decay of rates) first used the earlier total: a new run "
        f"of {steps} steps has other numbers."
    )


def begin(
    run: Run, chosen: Options, trusted: bool, state: State | None = None, fit: bool = False
) -> None:
    """Train in a new folder, from the state of another run; a failed start leaves no folder.

    `fit`: choose the length of epochs by the environment, because it was not given.
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
