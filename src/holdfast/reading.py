# SPDX-License-Identifier: Apache-2.0
"""Files of strangers: plain files inside their folder, no larger or deeper than expected.

Every reader of a run folder, a suite or a CMDP begins here, so that a file can neither name another
one, nor never end, nor fill the memory before anybody has looked at it.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from stat import S_ISREG
from typing import Any, cast

MB = 1 << 20
DEEPEST = 100
"""Levels of nested lists and tables; settings and spaces have a dozen."""
MALFORMED = (LookupError, TypeError, AttributeError, ValueError, ArithmeticError, AssertionError)
"""What taking apart data of another form than expected may raise."""


def reason(error: Exception) -> str:
    """What was wrong, for the end of a sentence."""
    if isinstance(error, KeyError):
        return f"it lacks {error}"
    return str(error)[:300] or type(error).__name__


def content(file: Path, largest: int) -> bytes:
    """The bytes of a plain file of at most `largest`; a pipe or device would never end."""
    found = file.stat()
    if not S_ISREG(found.st_mode):
        raise ValueError(f"'{file}' is not a plain file; replace it by one.")
    if found.st_size > largest:
        raise ValueError(f"'{file}' is larger than {largest // MB} MB: it holds something else.")
    with file.open("rb") as stream:
        return stream.read(found.st_size)


def text(file: Path, largest: int) -> str:
    """The same as text."""
    try:
        return content(file, largest).decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"'{file}' is not UTF-8 text ({error}).") from None


def json_value(source: str | bytes, name: object) -> Any:
    """What JSON text says."""
    try:
        return shallow(json.loads(source), name)
    except RecursionError:
        raise ValueError(f"'{name}' is nested too deeply.") from None
    except ValueError as error:
        raise ValueError(f"'{name}' is not valid JSON ({error}).") from None


def shallow(data: Any, name: object) -> Any:
    """The data themselves, if they are not nested so deeply that walking them could fail."""
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
    """What lies in a folder must lie there: a link could lead a reader, or a writer, elsewhere."""
    home = folder.resolve()
    for name in names:
        place = folder / name
        if place.is_symlink() and not place.resolve().is_relative_to(home):
            raise ValueError(
                f"'{place}' is a link to '{place.resolve()}', outside of its folder: put there "
                "what it points to."
            )
