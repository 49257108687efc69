# SPDX-License-Identifier: Apache-2.0
"""Remote run folders: on a driver's disk, or under a URI (`s3://bucket/runs`).

A training process uses a local disk. After a checkpoint, changed files are sent as named bytes, in
an order that is consistent for readers. A checkpoint is complete once its state.json exists, a run
once its done.json exists, so these are sent last. Training on from a fetched copy gives the same
bits as without the move.
"""

from __future__ import annotations

import atexit
import os
import posixpath
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from holdfast.cluster.places import (
    TRIES,
    Disk,
    MissingFile,
    Place,
    Remote,
    StorageError,
    is_uri,
    place_of,
)
from holdfast.files import no_epoch
from holdfast.records.zoo import checked, is_zoo

Files = dict[str, bytes | None]
"""Relative name → content, in the order of writing; None: the file was removed."""
RANK = {"run.json": -1, "state.safetensors": 1, "state.json": 2, "done.json": 3}
"""Files that are written before and after all others."""


def in_order(names: Iterable[str]) -> list[str]:
    """The order of writing: run.json first, state.json after its arrays, done.json last."""
    return sorted(names, key=lambda name: (RANK.get(PurePosixPath(name).name, 0), name))


Stamp = tuple[int, int] | None
"""Size and time of a file; None: it does not exist."""


@dataclass
class Outbox:
    """The files of a folder that the other side has."""

    folder: Path
    arrived: dict[str, Stamp] = field(default_factory=dict[str, Stamp])

    @classmethod
    def up_to_date(cls, folder: Path) -> Outbox:
        """Record that the other side has the current files."""
        box = cls(folder)
        box.take()
        return box

    def take(self) -> Files:
        """The changed files, which the caller sends."""
        changed = self._changed()
        self.arrived |= changed
        return {name: self._content(name, stamp) for name, stamp in changed.items()}

    def send(self, place: Place) -> Files:
        """Send changed files to a store; those that fail are sent again the next time."""
        files: Files = {}
        for name, stamp in self._changed().items():
            files[name] = self._content(name, stamp)
            deliver(place, {name: files[name]})
            self.arrived[name] = stamp
        return files

    def _changed(self) -> dict[str, Stamp]:
        """The changes in the order of writing; removals are last, those of state.json before its
        arrays.
        """
        names = in_order(Disk(self.folder).names())
        stats = {name: (self.folder / name).stat() for name in names}
        stamps = {name: (stat.st_size, stat.st_mtime_ns) for name, stat in stats.items()}
        gone = [n for n, stamp in self.arrived.items() if stamp is not None and n not in stamps]
        now: dict[str, Stamp] = stamps | dict.fromkeys(reversed(in_order(gone)))
        return {name: stamp for name, stamp in now.items() if self.arrived.get(name) != stamp}

    def _content(self, name: str, stamp: Stamp) -> bytes | None:
        return None if stamp is None else Disk(self.folder).read(name)


def deliver(place: Place, files: Mapping[str, bytes | None]) -> int:
    """Write received files, in their order; returns the number of bytes."""
    for name, content in files.items():
        if content is None:
            place.remove(name)
        else:
            place.write(name, content)
    return sum(len(content or b"") for content in files.values())


def contents(place: Place, small: bool = False, epoch: int | None = None) -> Files:
    """A run folder as bytes with its newest checkpoint; `small`: folders without checkpoints.

    With `epoch` that checkpoint comes too; a place that lacks it is refused.

    If its writer replaces the checkpoint meanwhile, the newer one is read.
    """
    for _ in range(TRIES):
        try:
            return {n: place.read(n) for n in in_order(_wanted(place.names(), small, epoch))}
        except MissingFile:
            continue
    return {n: place.read(n) for n in in_order(_wanted(place.names(), small, epoch))}


def _wanted(names: Iterable[str], small: bool, epoch: int | None = None) -> list[str]:
    names = list(names)
    parts = {name: set(PurePosixPath(name).parts) for name in names}
    left_out = {"checkpoint", "best"} if small else {"checkpoint"}
    wanted = [name for name in names if not parts[name] & left_out]
    saved = [name for name in names if "checkpoint" in parts[name]]
    states = sorted(posixpath.dirname(name) for name in saved if name.endswith("/state.json"))
    own = [state for state in states if state.endswith(f"/epoch-{epoch or 0:06d}")]
    if epoch is not None and not own:
        raise NoEpoch([int(state.rpartition("-")[2]) for state in states])
    if states and not small:
        wanted += [name for name in names if posixpath.dirname(name) in {states[-1], *own}]
    return wanted


class NoEpoch(LookupError):
    """A place has no checkpoint of an epoch; `args[0]` are the epochs that it has."""


def fetch(
    where: str | os.PathLike[str], folder: Path, small: bool = False, epoch: int | None = None
) -> Path:
    """Fetch a remote run folder into a local one."""
    folder.mkdir(parents=True, exist_ok=True)
    deliver(Disk(folder), contents(place_of(where), small, epoch))
    return folder


def runs_under(where: str) -> Iterator[str]:
    """The names of run folders under a URI."""
    for name in sorted(Remote(where).names()):
        if name.endswith("run.json"):
            yield name.removesuffix("run.json").rstrip("/")


@dataclass(frozen=True)
class Copy:
    """A local copy of a URI, kept until this process ends."""

    uri: str
    small: bool
    box: Outbox


COPIES: dict[Path, Copy] = {}
"""Copies of this process, by their folder."""


NAMES: dict[Path, str] = {}
"""Copies of policies of the zoo, by their folder."""


def called(folder: Path) -> str:
    """The name of a folder in commands: the URI or zoo name of a copy, or its own path."""
    copied = COPIES.get(folder)
    return NAMES.get(folder, str(folder)) if copied is None else copied.uri


def refuse_zoo(folder: Path, remedy: str) -> None:
    """Refuse to write into a policy of the zoo, whose copy is removed when this process ends."""
    if folder in NAMES:
        raise ValueError(
            f"'{NAMES[folder]}' comes with the library and is never written to: {remedy}."
        )


def local_copy(where: str | os.PathLike[str], small: bool = False) -> Path:
    """A path unchanged; for a URI or a policy of the zoo a copy, kept until this process ends."""
    if is_zoo(where):
        name, files = checked(where)
        folder = Path(tempfile.mkdtemp(prefix="holdfast-")) / name
        atexit.register(shutil.rmtree, folder.parent, True)
        deliver(Disk(folder), files)
        NAMES[folder] = os.fspath(where)
        return folder
    if not is_uri(where):
        return Path(where)
    uri = os.fspath(where).rstrip("/")
    folder = Path(tempfile.mkdtemp(prefix="holdfast-")) / posixpath.basename(uri)
    COPIES[folder] = Copy(uri, small, Outbox(folder))
    atexit.register(_forget, folder)
    fetch(uri, folder, small)
    if not COPIES[folder].box.take():
        raise StorageError(f"'{uri}' has no files: check the address.")
    return folder


def _forget(folder: Path) -> None:
    if COPIES.pop(folder, None):
        shutil.rmtree(folder.parent, ignore_errors=True)


def add_epoch(folder: Path, epoch: int) -> None:
    """A copy gets the checkpoint of an epoch too; any other folder is as it is."""
    if folder not in COPIES:
        return
    copied = COPIES[folder]
    try:
        fetch(copied.uri, folder, epoch=epoch)
    except NoEpoch as error:
        raise no_epoch(copied.uri, epoch, error.args[0]) from None
    copied.box.take()


def renew(folder: Path) -> None:
    """Fetch a copy again; other folders are unchanged."""
    if folder in COPIES:
        fetch(COPIES[folder].uri, folder, COPIES[folder].small)


def sync_back(folder: Path) -> None:
    """Send the changes of a copy to its origin; if that fails, the copy is kept."""
    if folder not in COPIES:
        return
    try:
        COPIES[folder].box.send(Remote(COPIES[folder].uri))
    except StorageError as error:
        del COPIES[folder]
        lacking = f"; what it lacks is kept in '{folder}'."
        raise StorageError(str(error).removesuffix(".") + lacking) from error
