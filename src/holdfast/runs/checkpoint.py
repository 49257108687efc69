# SPDX-License-Identifier: Apache-2.0
"""Checkpoints: arrays in safetensors, structure in JSON, nothing executable, atomic.

    RUN/run.json                         config, versions, preset, spaces
    RUN/progress.csv                     one row for each epoch
    RUN/checkpoint/epoch-000012/         state.safetensors + state.json (epoch, digest)
    RUN/best/epoch-000008/               the best safe policy, the same files
    RUN/done.json                        written last
    RUN/.lock                            held by the process that trains here

A checkpoint is written beside its place and renamed into it, so a kill at any instant leaves the
old ones whole. A digest tells a damaged one, and the one before it is used instead.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load as load_arrays
from safetensors.numpy import save as save_arrays

from holdfast.reading import MB, content, json_value, refuse_links

FORMAT = 1
PLACE, BEST = "checkpoint", "best"
"""The folders of a run's checkpoints, and of its best safe policy."""
Which = Literal["newest", "best"] | int
"""A policy of a run: of the newest checkpoint, the best safe one, or that of an epoch."""
LARGEST = {".json": 16 * MB, ".safetensors": 4096 * MB}
"""Bytes that a file of a run can have; arrays are not compressed, so they take no more memory."""


class CheckpointError(ValueError):
    """A checkpoint that cannot be written or read, with the reason and the remedy."""


class Busy(CheckpointError):
    """Another process writes there."""


if sys.platform == "win32":
    import msvcrt

    def _take(handle: int) -> None:
        msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)

else:
    import fcntl

    def _take(handle: int) -> None:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


@contextmanager
def locked(file: Path) -> Generator[bool]:
    """Hold a lock that ends with this process, however it dies; False if another one holds it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("ab") as handle:
        try:
            _take(handle.fileno())
            mine = True
        except (BlockingIOError, PermissionError):
            mine = False
        except OSError:  # a file system without locks: one process at a time is up to the user
            mine = True
        yield mine


def write_durably(file: IO[bytes], content: bytes) -> None:
    """Write it, down to the disk."""
    file.write(content)
    file.flush()
    os.fsync(file.fileno())


def write_atomic(path: Path, content: bytes) -> None:
    """Replace a file as a whole or not at all."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            write_durably(file, content)
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def write_json(path: Path, data: Mapping[str, Any]) -> None:
    write_atomic(path, (json.dumps(data, indent=2) + "\n").encode())


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file; one clear sentence if it is missing or damaged."""
    try:
        data = json_value(content(path, LARGEST[".json"]), path.name)
    except (FileNotFoundError, NotADirectoryError):
        raise CheckpointError(
            f"'{path.parent}' is not a run folder: it has no {path.name}; "
            "`holdfast train` makes one."
        ) from None
    except ValueError as error:
        raise CheckpointError(
            f"'{path}' is damaged ({error}); restore it from a copy or train anew."
        ) from None
    if not isinstance(data, dict):
        raise CheckpointError(f"'{path}' is damaged (not a JSON object); restore it from a copy.")
    return data


def save(
    folder: Path,
    epoch: int,
    arrays: Mapping[str, NDArray[Any]],
    keep: int,
    place: str = PLACE,
) -> None:
    """Write the checkpoint of an epoch and keep it with the last `keep` − 1 others."""
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
            f"{newest(folder)}: free space and run `holdfast resume {folder}`."
        ) from error
    others = [saved for saved in saved_epochs(folder, place) if saved != epoch]
    for stale in others[: max(0, len(others) + 1 - keep)]:
        shutil.rmtree(root / f"epoch-{stale:06d}", ignore_errors=True)
    for leftover in root.glob(".draft-*"):
        shutil.rmtree(leftover, ignore_errors=True)


def saved_epochs(folder: Path, place: str = PLACE) -> list[int]:
    """Epochs with a checkpoint, oldest first; one counts when its state.json is there."""
    found = (file.parent.name for file in (folder / place).glob("epoch-*/state.json"))
    return sorted(int(name[6:]) for name in found if re.fullmatch("epoch-[0-9]{6,12}", name))


def newest(folder: Path) -> str:
    """What is saved, as a part of a sentence."""
    saved = saved_epochs(folder)
    return f"epoch {saved[-1]} is saved" if saved else "no epoch is saved yet"


def load(
    folder: Path, place: str = PLACE, wanted: int | None = None
) -> tuple[int, dict[str, NDArray[Any]], list[str]]:
    """(epoch, arrays, warnings) of the newest whole checkpoint, or of the `wanted` epoch's."""
    complaints: list[str] = []
    saved = saved_epochs(folder, place)
    if wanted is not None and wanted not in saved:
        kept = ", ".join(map(str, saved)) or "none"
        raise CheckpointError(
            f"'{folder}' holds no checkpoint of epoch {wanted}, only of {kept}: choose one of "
            "these, or train with a larger --keep."
        )
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
    raise CheckpointError(f"'{folder}' holds no checkpoint yet; start it with `holdfast train`.")


def _read(place: Path, epoch: int) -> dict[str, NDArray[Any]]:
    meta = read_json(place / "state.json")
    if meta.get("format") != FORMAT or meta.get("epoch") != epoch:
        raise CheckpointError(f"'{place}' is not a checkpoint of this version (format {FORMAT})")
    try:
        refuse_links(place.parent, (place.name, f"{place.name}/state.safetensors"))
        data = content(place / "state.safetensors", LARGEST[".safetensors"])
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
