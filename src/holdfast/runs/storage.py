# SPDX-License-Identifier: Apache-2.0
"""Run folders that are kept elsewhere: on a driver's disk, or under a URI (`s3://bucket/runs`).

Whoever trains works on a disk of its own. After a checkpoint what is new in the folder is handed
over as named bytes, in an order in which a reader never sees half of it: a checkpoint counts once
its state.json is there, a run is done once its done.json is, so these come last. Fetching a folder
into an empty one and training on gives the same bits as never having moved.
"""

from __future__ import annotations

import atexit
import os
import posixpath
import re
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Protocol

from holdfast.runs.checkpoint import CheckpointError, write_atomic

Files = dict[str, bytes | None]
"""Relative name → content, in the order of writing; None: it is gone."""
TRIES, PAUSE = 4, 1.0
"""How often a remote storage is asked, and seconds before the second time; doubled each time."""
RANK = {"run.json": -1, "state.safetensors": 1, "state.json": 2, "done.json": 3}
"""What is written before and after all else."""


class StorageError(CheckpointError):
    """A storage that cannot be read or written, after several tries; nothing is lost here."""


class Gone(StorageError):
    """A file that is not there, or not any more."""


class Place(Protocol):
    """Somewhere that keeps files by name."""

    def names(self) -> list[str]: ...

    def read(self, name: str) -> bytes: ...

    def write(self, name: str, content: bytes) -> None:
        """All of it or nothing."""
        ...

    def remove(self, name: str) -> None: ...


@dataclass(frozen=True)
class Disk:
    """A folder of this machine."""

    path: Path

    def names(self) -> list[str]:
        found = (p for p in self.path.rglob("*") if p.is_file())
        names = (p.relative_to(self.path).as_posix() for p in found)
        return [name for name in names if not hidden(name)]

    def read(self, name: str) -> bytes:
        try:
            return (self.path / name).read_bytes()
        except FileNotFoundError as error:
            raise Gone(f"'{self.path}' lacks a file that it listed ({name}).") from error

    def write(self, name: str, content: bytes) -> None:
        target = self.path / confined(name)
        target.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(target, content)

    def remove(self, name: str) -> None:
        target = self.path / confined(name)
        target.unlink(missing_ok=True)
        with suppress(OSError):  # folders that are still needed, or gone as well
            for folder in target.relative_to(self.path).parents[:-1]:
                (self.path / folder).rmdir()


@dataclass(frozen=True)
class Remote:
    """A URI that fsspec understands; what fails is asked again, with a limit."""

    uri: str

    def names(self) -> list[str]:
        def find(fs: Any, root: str) -> list[str]:
            fs.invalidate_cache()
            found = fs.find(root) if fs.exists(root) else []
            return [name.removeprefix(root).lstrip("/") for name in found]

        return [name for name in self._tried(find, "read") if not hidden(name)]

    def read(self, name: str) -> bytes:
        return self._tried(lambda fs, root: fs.cat_file(f"{root}/{confined(name)}"), "read")

    def write(self, name: str, content: bytes) -> None:
        def put(fs: Any, root: str) -> None:
            target = f"{root}/{confined(name)}"
            fs.makedirs(posixpath.dirname(target), exist_ok=True)
            if "file" in fs.protocol:  # an object store replaces as a whole, a disk does not
                write_atomic(Path(target), content)
            else:
                fs.pipe_file(target, content)

        self._tried(put, "written")

    def remove(self, name: str) -> None:
        def drop(fs: Any, root: str) -> None:
            target = f"{root}/{confined(name)}"
            if fs.exists(target):
                fs.rm_file(target)

        self._tried(drop, "written")

    def __truediv__(self, name: str) -> Remote:
        return Remote(f"{self.uri.rstrip('/')}/{name}")

    def _tried(self, action: Any, what: str) -> Any:
        pause = PAUSE
        for attempt in range(1, TRIES + 1):
            try:
                return action(*_filesystem(self.uri))
            except StorageError:
                raise
            except Exception as error:  # clients of storages have errors of their own
                kind = Gone if isinstance(error, FileNotFoundError) else StorageError
                if attempt == TRIES or isinstance(error, PermissionError | FileNotFoundError):
                    raise kind(
                        f"'{self.uri}' cannot be {what} ({type(error).__name__}: {error}), asked "
                        f"{attempt} time(s): check the address, the credentials and the space "
                        "there; nothing on this machine is lost, and the same command goes on."
                    ) from error
                time.sleep(pause)
                pause *= 2
        raise AssertionError


def _filesystem(uri: str) -> tuple[Any, str]:
    try:
        from fsspec.core import url_to_fs
    except ImportError:
        raise StorageError(
            f"'{uri}' needs fsspec, which is not installed: `pip install 'holdfast[storage]'`."
        ) from None
    try:
        fs, root = url_to_fs(uri)
    except ImportError as error:  # a protocol whose package is missing says which
        raise StorageError(f"'{uri}' cannot be opened: {error}") from None
    except ValueError as error:
        raise StorageError(f"'{uri}' is no storage that fsspec knows ({error}).") from None
    return fs, str(root).rstrip("/")


def is_uri(where: str | os.PathLike[str]) -> bool:
    return "://" in os.fspath(where)


def here(where: str | os.PathLike[str]) -> Path:
    """A folder of this machine to write into."""
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]+:/", os.fspath(where)):  # a Path has one slash of the two
        raise ValueError(
            f"'{os.fspath(where)}' is a URI, and what is asked for is written to a folder of this "
            "machine: name one; `bench --storage` and `resume` are what keeps runs under URIs."
        )
    return Path(where)


def place_of(where: str | os.PathLike[str]) -> Disk | Remote:
    return Remote(os.fspath(where)) if is_uri(where) else Disk(Path(where))


def confined(name: str) -> str:
    """The name, if it stays inside its folder."""
    parts = PurePosixPath(name).parts
    if not parts or name.startswith("/") or "\\" in name or ".." in parts or ":" in name:
        raise StorageError(f"'{name}' is no name inside a run folder; the sender is damaged.")
    return name


def hidden(name: str) -> bool:
    """Locks and drafts stay where they are."""
    return any(part.startswith(".") for part in PurePosixPath(name).parts)


def in_order(names: Iterable[str]) -> list[str]:
    """As a reader may meet them: run.json first, state.json after its arrays, done.json last."""
    return sorted(names, key=lambda name: (RANK.get(PurePosixPath(name).name, 0), name))


Stamp = tuple[int, int] | None
"""Size and time of a file; None: there is none."""


@dataclass
class Outbox:
    """What of a folder has arrived elsewhere."""

    folder: Path
    arrived: dict[str, Stamp] = field(default_factory=dict[str, Stamp])

    @classmethod
    def up_to_date(cls, folder: Path) -> Outbox:
        """The other side has what lies here now."""
        box = cls(folder)
        box.take()
        return box

    def take(self) -> Files:
        """What has changed since; the caller brings it there."""
        changed = self._changed()
        self.arrived |= changed
        return {name: self._content(name, stamp) for name, stamp in changed.items()}

    def send(self, place: Place) -> Files:
        """What has changed since goes to a place; what fails is still new the next time."""
        files: Files = {}
        for name, stamp in self._changed().items():
            files[name] = self._content(name, stamp)
            deliver(place, {name: files[name]})
            self.arrived[name] = stamp
        return files

    def _changed(self) -> dict[str, Stamp]:
        """In the order of writing; what is gone comes last, what makes it count first."""
        names = in_order(Disk(self.folder).names())
        told = {name: (self.folder / name).stat() for name in names}
        stamps = {name: (stat.st_size, stat.st_mtime_ns) for name, stat in told.items()}
        gone = [n for n, stamp in self.arrived.items() if stamp is not None and n not in stamps]
        now: dict[str, Stamp] = stamps | dict.fromkeys(reversed(in_order(gone)))
        return {name: stamp for name, stamp in now.items() if self.arrived.get(name) != stamp}

    def _content(self, name: str, stamp: Stamp) -> bytes | None:
        return None if stamp is None else Disk(self.folder).read(name)


def deliver(place: Place, files: Mapping[str, bytes | None]) -> int:
    """Write what was handed over, in its order; the bytes written."""
    for name, content in files.items():
        if content is None:
            place.remove(name)
        else:
            place.write(name, content)
    return sum(len(content or b"") for content in files.values())


def contents(place: Place, small: bool = False) -> Files:
    """A run folder as bytes with its newest checkpoint; `small`: one or many, without any.

    A checkpoint that its writer replaces meanwhile is gone; then a newer one is there.
    """
    for _ in range(TRIES):
        try:
            return {name: place.read(name) for name in in_order(_wanted(place.names(), small))}
        except Gone:
            continue
    return {name: place.read(name) for name in in_order(_wanted(place.names(), small))}


def _wanted(names: Iterable[str], small: bool) -> list[str]:
    names = list(names)
    wanted = [name for name in names if "checkpoint" not in PurePosixPath(name).parts]
    states = sorted(posixpath.dirname(name) for name in names if name.endswith("/state.json"))
    if states and not small:
        wanted += [name for name in names if posixpath.dirname(name) == states[-1]]
    return wanted


def fetch(where: str | os.PathLike[str], folder: Path, small: bool = False) -> Path:
    """A run folder from elsewhere, in a folder here."""
    folder.mkdir(parents=True, exist_ok=True)
    deliver(Disk(folder), contents(place_of(where), small))
    return folder


def runs_under(where: str) -> Iterator[str]:
    """The names of run folders under a URI."""
    for name in sorted(Remote(where).names()):
        if name.endswith("run.json"):
            yield name.removesuffix("run.json").rstrip("/")


@dataclass(frozen=True)
class Copy:
    """What lies under a URI, on this machine for as long as this process lives."""

    uri: str
    small: bool
    box: Outbox


COPIES: dict[Path, Copy] = {}
"""Of this process, by their folder."""


def at_hand(where: str | os.PathLike[str], small: bool = False) -> Path:
    """A path as it is; a URI as a copy that lasts as long as this process."""
    if not is_uri(where):
        return Path(where)
    uri = os.fspath(where).rstrip("/")
    folder = Path(tempfile.mkdtemp(prefix="holdfast-")) / posixpath.basename(uri)
    COPIES[folder] = Copy(uri, small, Outbox(folder))
    atexit.register(_forget, folder)
    fetch(uri, folder, small)
    if not COPIES[folder].box.take():
        raise StorageError(f"'{uri}' holds no files: check the address.")
    return folder


def _forget(folder: Path) -> None:
    if COPIES.pop(folder, None):
        shutil.rmtree(folder.parent, ignore_errors=True)


def renew(folder: Path) -> None:
    """A copy is made anew; any other folder is as it is."""
    if folder in COPIES:
        fetch(COPIES[folder].uri, folder, COPIES[folder].small)


def give_back(folder: Path) -> None:
    """What is new in a copy goes to where it came from; if it cannot, the copy stays for good."""
    if folder not in COPIES:
        return
    try:
        COPIES[folder].box.send(Remote(COPIES[folder].uri))
    except StorageError as error:
        del COPIES[folder]
        lacking = f"; what it lacks is kept in '{folder}'."
        raise StorageError(str(error).removesuffix(".") + lacking) from error
