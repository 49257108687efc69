# SPDX-License-Identifier: Apache-2.0
"""Further outputs of an epoch's metrics beside progress.csv. They are only written, never read.

TensorBoard  events with environment steps on the x-axis
WandB        Weights & Biases (extra `wandb`)
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from holdfast.files import read_json, write_json
from holdfast.process import optional
from holdfast.records.rows import Row


class Sink(Protocol):
    """Receives the metrics of each epoch."""

    def write(self, env_steps: int, metrics: Row) -> None: ...

    def close(self) -> None: ...


@contextmanager
def closed_after(sinks: Sequence[Sink]) -> Generator[None]:
    """Close all sinks that were opened in the block, however it ends."""
    try:
        yield
    finally:
        for sink in sinks:
            sink.close()


class TensorBoard:
    """Event files under RUN/tensorboard."""

    def __init__(self, folder: Path, env_steps: int = 0) -> None:
        from tensorboardX import SummaryWriter

        # Steps after the resume point are void: they will be written again.
        self.writer = SummaryWriter(str(folder), purge_step=env_steps + 1 if env_steps else None)

    def write(self, env_steps: int, metrics: Row) -> None:
        for name, value in metrics.items():
            if math.isfinite(value):  # what was not measured has no point, and raises no warning
                self.writer.add_scalar(name, value, env_steps)
        self.writer.flush()

    def close(self) -> None:
        self.writer.close()


class WandB:
    """A Weights & Biases run; resuming continues it under the same id."""

    def __init__(self, project: str, folder: Path, config: Mapping[str, Any]) -> None:
        self.run = optional("wandb", "wandb", "--wandb").init(
            project=project,
            dir=str(folder),
            config=dict(config),
            id=wandb_id(folder),
            name=folder.resolve().name,
            resume="allow",
        )

    def write(self, env_steps: int, metrics: Row) -> None:
        self.run.log(dict(metrics), step=env_steps)

    def close(self) -> None:
        self.run.finish()


def wandb_id(folder: Path) -> str:
    """A unique id of the folder, made once, because names of folders are not unique."""
    file = folder / "wandb.json"
    if not file.exists():
        write_json(file, {"id": secrets.token_hex(8)})
    return str(read_json(file)["id"])
