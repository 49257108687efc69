# SPDX-License-Identifier: Apache-2.0
"""`holdfast resume`: continue a run from its newest whole checkpoint."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import tyro

from holdfast import process
from holdfast.cli.arguments import EnvironmentOptions, RunFolder, WholeOrNone
from holdfast.cli.session import follow, sinks
from holdfast.console import plain_console, styled

if TYPE_CHECKING:
    from holdfast.run import Run


def command(
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
        environment: The environment's new name, if its file has moved or it had no name.
        cluster: A Ray cluster whose machines the workers run on: an address, auto or local.
    """
    from holdfast.cluster.storage import refuse_zoo
    from holdfast.runs.consent import is_remembered
    from holdfast.runs.folder import load_state, open_folder
    from holdfast.runs.training import extended
    from holdfast.train.environment import open_env

    refuse_zoo(run, "begin a new run with its policy by `holdfast train --from`")
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


def renamed(run: Run, place: EnvironmentOptions) -> Run:
    """The run with the environment and cost function of the command line."""
    given = place.given()
    if place.env is not None:
        run = replace(run, env=place.env, env_args=given["env_args"])
    return run if place.cost is None else replace(run, cost=place.cost)
