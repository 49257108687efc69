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
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
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
        return (self.path / name).read_bytes()

    def write(self, name: str, content: bytes) -> None:
        target = self.path / confined(name)
        target.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(target, content)

    def remove(self, name: str) -> None:
        target = self.path / confined(name)
        target.unlink(missing_ok=True)
        if target.parent != self.path and not any(target.parent.iterdir()):
            target.parent.rmdir()


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
            except (OSError, TimeoutError, ConnectionError) as error:
                if attempt == TRIES or isinstance(error, PermissionError | FileNotFoundError):
                    raise StorageError(
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


@dataclass
class Outbox:
    """What of a folder has been handed over."""

    folder: Path
    sent: dict[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])

    @classmethod
    def up_to_date(cls, folder: Path) -> Outbox:
        """The other side has what lies here now."""
        box = cls(folder)
        box.new()
        return box

    def new(self) -> Files:
        """What has changed since the last time."""
        files: Files = {}
        disk, seen = Disk(self.folder), dict[str, tuple[int, int]]()
        for name in in_order(disk.names()):
            told = (self.folder / name).stat()
            seen[name] = told.st_size, told.st_mtime_ns
            if self.sent.get(name) != seen[name]:
                files[name] = disk.read(name)
        for name in reversed(in_order(self.sent.keys() - seen.keys())):
            files[name] = None
        self.sent = seen
        return files


def deliver(place: Place, files: Mapping[str, bytes | None]) -> int:
    """Write what was handed over, in its order; the bytes written."""
    for name, content in files.items():
        if content is None:
            place.remove(name)
        else:
            place.write(name, content)
    return sum(len(content or b"") for content in files.values())


def contents(place: Place, small: bool = False) -> Files:
    """A run folder as bytes with its newest checkpoint; `small`: one or many, without any."""
    names = place.names()
    wanted = [name for name in names if "checkpoint" not in PurePosixPath(name).parts]
    states = sorted(posixpath.dirname(name) for name in names if name.endswith("/state.json"))
    if states and not small:
        wanted += [name for name in names if posixpath.dirname(name) == states[-1]]
    return {name: place.read(name) for name in in_order(wanted)}


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


BORROWED: dict[Path, tuple[str, Outbox]] = {}
"""Copies of this process → the URI they came from, and what lies there."""


def at_hand(where: str | os.PathLike[str], small: bool = False) -> Path:
    """A path as it is; a URI as a copy that lasts as long as this process."""
    if not is_uri(where):
        return Path(where)
    uri = os.fspath(where).rstrip("/")
    home = Path(tempfile.mkdtemp(prefix="holdfast-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    folder = fetch(uri, home / posixpath.basename(uri), small)
    if not Disk(folder).names():
        raise StorageError(f"'{uri}' holds no files: check the address.")
    BORROWED[folder] = uri, Outbox.up_to_date(folder)
    return folder


def give_back(folder: Path) -> None:
    """What is new in such a copy goes to where it came from."""
    if folder in BORROWED:
        uri, box = BORROWED[folder]
        deliver(Remote(uri), box.new())
