# SPDX-License-Identifier: Apache-2.0
"""Safe reading of files from untrusted sources, and atomic writing.

Every reader of a run folder, a suite or a CMDP starts here. So a file cannot be a link to another
one, an endless device, or larger than memory.
"""

import json
import os
import sys
import tempfile
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from stat import S_ISREG
from typing import IO, Any, cast

MB = 1 << 20
LARGEST = 16 * MB
"""Largest number of bytes of a JSON file of a run."""
DEEPEST = 100
"""Largest depth of nested lists and tables; settings and spaces have a dozen levels."""
MALFORMED = (LookupError, TypeError, AttributeError, ValueError, ArithmeticError, AssertionError)
"""Exceptions that occur when parsed data have an unexpected form."""


def reason(error: Exception) -> str:
    """The cause of an error, for the end of a sentence."""
    if isinstance(error, KeyError):
        return f"it lacks {error}"
    return str(error)[:300] or type(error).__name__


def content(file: Path, largest: int) -> bytes:
    """The bytes of a plain file of at most `largest`; pipes and devices are refused, as they may
    never end.
    """
    found = file.stat()
    if not S_ISREG(found.st_mode):
        raise ValueError(f"'{file}' is not a plain file; replace it by one.")
    if found.st_size > largest:
        raise ValueError(
            f"'{file}' is larger than {largest // MB} MB, so it cannot be what its "
            "name suggests; replace it."
        )
    with file.open("rb") as stream:
        return stream.read(found.st_size)


def text(file: Path, largest: int) -> str:
    """The text of a plain UTF-8 file of at most `largest` bytes."""
    try:
        return content(file, largest).decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"'{file}' is not UTF-8 text ({error}).") from None


def json_value(source: str | bytes, name: object) -> Any:
    """The data of a JSON text."""
    try:
        return shallow(json.loads(source), name)
    except RecursionError:
        raise ValueError(f"'{name}' is nested too deeply.") from None
    except ValueError as error:
        raise ValueError(f"'{name}' is not valid JSON ({error}).") from None


def shallow(data: Any, name: object) -> Any:
    """The data unchanged; ValueError if they are nested too deeply for a recursive walk."""
    layer: list[Any] = [data]
    for _ in range(DEEPEST):
        layer = [inner for value in layer for inner in _inside(value)]
        if not layer:
            return data
    raise ValueError(f"'{name}' is nested more than {DEEPEST} levels deep.")


def _inside(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return cast("dict[str, Any]", value).values()
    return cast("list[Any]", value) if isinstance(value, list) else ()


def refuse_links(folder: Path, names: Iterable[str]) -> None:
    """Refuse links that point out of a folder, where they would be read or written."""
    home = folder.resolve()
    for name in names:
        place = folder / name
        if place.is_symlink() and not place.resolve().is_relative_to(home):
            raise ValueError(
                f"'{place}' is a link to '{place.resolve()}', outside of its folder: replace the "
                "link by a copy of its target."
            )


class CheckpointError(ValueError):
    """A checkpoint that cannot be written or read, with the reason and the remedy."""


def no_epoch(where: object, epoch: int | None, kept: Sequence[int]) -> CheckpointError:
    """The error of a run that has no checkpoint of an epoch."""
    listed = ", ".join(map(str, kept)) or "none"
    return CheckpointError(
        f"'{where}' has no checkpoint of epoch {epoch}, only of {listed}: choose one of these, "
        "or train with a larger --keep."
    )


def confined(name: str) -> str:
    """The name, if it is a path inside its folder."""
    parts = PurePosixPath(name).parts
    if not parts or name.startswith("/") or "\\" in name or ".." in parts or ":" in name:
        raise CheckpointError(
            f"'{name}' is not a path inside a run folder; the sender is "
            "damaged, so get the run from another source."
        )
    return name


class Busy(CheckpointError):
    """Another process writes into the same folder."""


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
    """Take a lock, released when this process ends in any way; False if another process has it."""
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
    """Write a file and flush it to the disk."""
    file.write(content)
    file.flush()
    os.fsync(file.fileno())


def write_atomic(path: Path, content: bytes) -> None:
    """Replace a file atomically."""
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
    """The object in a JSON file; ValueError with a remedy if it is missing or damaged."""
    try:
        data = json_value(content(path, LARGEST), path.name)
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
