# SPDX-License-Identifier: Apache-2.0
"""The epochs of `Agent.learn`: displays, logs and folder are opened, used and closed."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

from holdfast.bars.training_bar import training_bar
from holdfast.envs.base import VecEnv
from holdfast.records.rows import Row
from holdfast.run import Run, to_json
from holdfast.runs.evaluator import open_evaluator
from holdfast.runs.folder import Folder
from holdfast.runs.sinks import Sink, TensorBoard, WandB, closed_after
from holdfast.runs.training import train_in_folder
from holdfast.train import Epoch, train
from holdfast.train.environment import Given, Spaces
from holdfast.train.state import State


@dataclass(frozen=True)
class Outputs:
    """Where the metrics of a training go."""

    progress: bool
    """Whether a bar is shown."""
    about: str
    """A note at the start of the bar."""
    tensorboard: str | Path | None
    wandb: str | None
    open_folder: Callable[[], Folder] | None
    """Makes or opens the run folder; None: the run is only in memory."""


def train_agent(
    run: Run, spaces: Spaces, envs: VecEnv, state: State | None, given: Given, outputs: Outputs
) -> Generator[tuple[Epoch, Row | None]]:
    """Train; yields each epoch, written to all outputs, and in memory the row of its evaluation.

    With a folder, the rows of evaluations are in its file.
    """
    begin = state.epoch * run.epoch_steps if state else 0
    sinks: list[Sink] = []
    with ExitStack() as opened:
        opened.enter_context(closed_after(sinks))
        on_progress = None
        if outputs.progress:
            bar = training_bar(run, envs, spaces.limits, begin, outputs.about)
            on_progress = bar.advance
            sinks.append(bar)
        if outputs.tensorboard is not None:
            sinks.append(TensorBoard(Path(outputs.tensorboard), begin))
        if outputs.open_folder is not None:
            folder = outputs.open_folder()
            if outputs.wandb is not None:
                sinks.append(WandB(outputs.wandb, folder.path, to_json(run)))
            epochs = train_in_folder(folder, envs, sinks, state, on_progress, given)
            for epoch in opened.enter_context(closing(epochs)):
                yield epoch, None
            return
        judge = open_evaluator(run, spaces, given)
        if judge is not None:
            opened.callback(judge.close)
        for epoch in opened.enter_context(closing(train(run, envs, state, on_progress))):
            for sink in sinks:
                sink.write(epoch.env_steps, epoch.metrics)
            judged = judge is not None and judge(epoch) is not None
            yield epoch, judge.rows[-1] if judge is not None and judged else None
