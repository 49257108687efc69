# SPDX-License-Identifier: Apache-2.0
"""Stores of files by name: a folder of this machine, or a URI that fsspec supports."""

from __future__ import annotations

import os
import posixpath
import re
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from holdfast.files import CheckpointError, confined, write_atomic
from holdfast.process import pip_install

TRIES, PAUSE = 4, 1.0
"""Number of attempts at a remote storage, and seconds before the second, doubled each time."""


class StorageError(CheckpointError):
    """A storage cannot be read or written after several attempts; local files are kept."""


class MissingFile(StorageError):
    """A file that does not exist, or was removed."""


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
            raise MissingFile(f"'{self.path}' lacks a file that it listed ({name}).") from error

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
    """A URI that fsspec supports; failed operations are repeated a few times."""

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

    def _tried(self, action: Any, what: str) -> Any:
        pause = PAUSE
        for attempt in range(1, TRIES + 1):
            try:
                return action(*_filesystem(self.uri))
            except StorageError:
                raise
            except Exception as error:  # clients of storages have errors of their own
                kind = MissingFile if isinstance(error, FileNotFoundError) else StorageError
                if attempt == TRIES or isinstance(error, PermissionError | FileNotFoundError):
                    raise kind(
                        f"'{self.uri}' cannot be {what} ({type(error).__name__}: {error}), after "
                        f"{attempt} attempt(s): check the address, the credentials and the space "
                        "there; local files are kept, and the same command continues."
                    ) from error
                time.sleep(pause)
                pause *= 2
        raise AssertionError


Place = Disk | Remote
"""A store of files by name; each is written atomically."""


def _filesystem(uri: str) -> tuple[Any, str]:
    try:
        from fsspec.core import url_to_fs
    except ImportError:
        raise StorageError(
            f"'{uri}' needs fsspec, which is not installed: `{pip_install('storage')}`."
        ) from None
    try:
        fs, root = url_to_fs(uri)
    except ImportError as error:  # the message names the missing package
        raise StorageError(f"'{uri}' cannot be opened: {error}") from None
    except ValueError as error:
        raise StorageError(
            f"'{uri}' is not a storage that fsspec supports ({error}); check the address."
        ) from None
    return fs, str(root).rstrip("/")


def is_uri(where: str | os.PathLike[str]) -> bool:
    return "://" in os.fspath(where)


def here(where: str | os.PathLike[str]) -> Path:
    """A folder of this machine to write into."""
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]+:/", os.fspath(where)):  # a Path has one slash of the two
        raise ValueError(
            f"'{os.fspath(where)}' is a URI, and the output is written to a folder of this "
            "machine: name a folder; only `bench --storage` and `resume` write to URIs."
        )
    return Path(where)


def place_of(where: str | os.PathLike[str]) -> Place:
    return Remote(os.fspath(where)) if is_uri(where) else Disk(Path(where))


def hidden(name: str) -> bool:
    """Whether a file is copied: not locks and drafts."""
    return any(part.startswith(".") for part in PurePosixPath(name).parts)
