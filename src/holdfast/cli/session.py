# SPDX-License-Identifier: Apache-2.0
"""Shared by train, resume and demo: training in a folder, with displays and logs."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from holdfast import process
from holdfast.cli.words import fail, for_shell
from holdfast.console import plain_console

if TYPE_CHECKING:
    from holdfast.envs.base import VecEnv
    from holdfast.runs.folder import Folder
    from holdfast.runs.sinks import Sink
    from holdfast.train.state import State


def sinks(folder: Folder, done: int, tensorboard: bool, wandb: str | None) -> list[Sink]:
    """The other sinks of the metrics, after `done` steps."""
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
    """Train in a folder and print the paths of its files."""
    train_shown(folder, env, state, extra, quiet)
    if not quiet:
        from holdfast.ship.film.views import film_name

        lines = {
            "Run folder": str(folder.path),
            "Verdict": folder.command("evaluate"),
            "Picture": folder.command("plot", code=False),
            "Film": f"{folder.command('watch')} -o {film_name(folder.run)}",
            "Deploy": folder.command("export", code=False) + " -o policy.onnx",
        }
        for what, how in lines.items():
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
    """Train in a folder with the chosen displays, then close all of them."""
    from holdfast.bars.training_bar import training_bar
    from holdfast.cluster.storage import sync_back
    from holdfast.runs.sinks import closed_after
    from holdfast.runs.training import train_in_folder

    run = folder.run
    done = state.epoch * run.epoch_steps if state else 0
    bar = None
    if not quiet:
        bar = training_bar(run, env, folder.spaces.limits, done, about, for_shell)
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
    """On Ctrl-C and SIGTERM print the last saved epoch and the command that resumes."""
    try:
        yield
    except KeyboardInterrupt as stop:
        from holdfast.runs.checkpoint import newest

        what, code = process.describe(stop)
        fail(f"{what}; {newest(folder.path)}, `{folder.command('resume')}` continues.", code)
