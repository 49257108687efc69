# SPDX-License-Identifier: Apache-2.0
"""Checkpoints: arrays in safetensors, structure in JSON, nothing executable, atomic.

    RUN/run.json                         config, versions, preset, spaces
    RUN/progress.csv                     one row for each epoch
    RUN/checkpoint/epoch-000012/         state.safetensors + state.json (epoch, digest)
    RUN/best/epoch-000008/               the best safe policy, the same files
    RUN/done.json                        written last
    RUN/.lock                            held by the process that trains here

A checkpoint is written beside its place and renamed into it, so a kill at any instant leaves the
old ones whole. A digest detects a damaged checkpoint; the one before it is used instead.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load as load_arrays
from safetensors.numpy import save as save_arrays

from holdfast.files import (
    MB,
    CheckpointError,
    content,
    no_epoch,
    read_json,
    refuse_links,
    write_atomic,
)

FORMAT = 1
PLACE, BEST = "checkpoint", "best"
"""The folders of a run's checkpoints, and of its best safe policy."""
Which = Literal["newest", "best"] | int
"""A policy of a run: of the newest checkpoint, the best safe one, or that of an epoch."""
LARGEST = 4096 * MB
"""Largest size of its arrays in bytes; they are not compressed, so they need no more memory."""


def save(
    folder: Path,
    epoch: int,
    arrays: Mapping[str, NDArray[Any]],
    keep: int,
    place: str = PLACE,
) -> None:
    """Write the checkpoint of an epoch and keep it with the newest `keep` − 1 others."""
    root = folder / place
    target = root / f"epoch-{epoch:06d}"
    draft = root / f".draft-{epoch:06d}-{os.getpid()}"
    try:
        root.mkdir(exist_ok=True)
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir()
        data = save_arrays({k: np.array(v, order="C") for k, v in arrays.items()})
        write_atomic(draft / "state.safetensors", data)
        digest = hashlib.sha256(data).hexdigest()
        meta = {"format": FORMAT, "epoch": epoch, "sha256": digest}
        write_atomic(draft / "state.json", json.dumps(meta).encode())
        if target.exists():
            shutil.rmtree(target)
        os.replace(draft, target)
    except OSError as error:
        shutil.rmtree(draft, ignore_errors=True)
        raise CheckpointError(
            f"the checkpoint of epoch {epoch} could not be saved in '{root}' ({error.strerror}); "
            f"{newest(folder)}: free space and run "
            f"`holdfast resume {shlex.quote(str(folder))}`."
        ) from error
    others = [saved for saved in saved_epochs(folder, place) if saved != epoch]
    for stale in others[: max(0, len(others) + 1 - keep)]:
        shutil.rmtree(root / f"epoch-{stale:06d}", ignore_errors=True)
    for leftover in root.glob(".draft-*"):
        shutil.rmtree(leftover, ignore_errors=True)


def saved_epochs(folder: Path, place: str = PLACE) -> list[int]:
    """Epochs with a checkpoint, oldest first; a checkpoint without its state.json is not
    complete.
    """
    found = (file.parent.name for file in (folder / place).glob("epoch-*/state.json"))
    return sorted(int(name[6:]) for name in found if re.fullmatch("epoch-[0-9]{6,12}", name))


def newest(folder: Path) -> str:
    """The newest saved epoch, as a part of a sentence."""
    saved = saved_epochs(folder)
    return f"epoch {saved[-1]} is saved" if saved else "no epoch is saved yet"


def load(
    folder: Path, place: str = PLACE, wanted: int | None = None
) -> tuple[int, dict[str, NDArray[Any]], list[str]]:
    """(epoch, arrays, warnings) of the newest whole checkpoint, or of the `wanted` epoch's."""
    complaints: list[str] = []
    saved = saved_epochs(folder, place)
    if wanted is not None and wanted not in saved:
        raise no_epoch(folder, wanted, saved)
    for epoch in reversed(saved if wanted is None else [wanted]):
        try:
            arrays = _read(folder / place / f"epoch-{epoch:06d}", epoch)
        except CheckpointError as error:
            complaints.append(str(error))
        else:
            return epoch, arrays, complaints
    if complaints:
        raise CheckpointError(
            f"no checkpoint in '{folder}' is whole: {complaints[0]}; train anew with "
            "`holdfast train`."
        )
    raise CheckpointError(f"'{folder}' has no checkpoint yet; start it with `holdfast train`.")


def _read(place: Path, epoch: int) -> dict[str, NDArray[Any]]:
    meta = read_json(place / "state.json")
    if meta.get("format") != FORMAT or meta.get("epoch") != epoch:
        raise CheckpointError(f"'{place}' is not a checkpoint of this version (format {FORMAT})")
    try:
        refuse_links(place.parent, (place.name, f"{place.name}/state.safetensors"))
        data = content(place / "state.safetensors", LARGEST)
    except OSError as error:
        raise CheckpointError(f"'{place}' cannot be read ({error.strerror})") from None
    except ValueError as error:
        raise CheckpointError(str(error)) from None
    if hashlib.sha256(data).hexdigest() != meta.get("sha256"):
        raise CheckpointError(f"'{place}' is truncated or altered (its digest differs)")
    try:
        return load_arrays(data)
    except (SafetensorError, ValueError, TypeError, KeyError) as error:
        raise CheckpointError(f"'{place}' is not a valid safetensors file ({error})") from None
