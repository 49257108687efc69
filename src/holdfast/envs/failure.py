# SPDX-License-Identifier: Apache-2.0
"""Errors of a user's environment, in one form for this process and for workers."""

import sysconfig
import traceback
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

OURS = Path(__file__).parents[1]
INSTALLED = tuple({sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")})
"""Folders of Python and installed packages; a user's own code is elsewhere."""


class EnvFailure(RuntimeError):
    """An environment raised an error; the message contains it and its line in the user's code."""


def describe_error(error: BaseException) -> str:
    """KeyError: 'valve' (tank.py, line 12, in step)"""
    kind, words = type(error).__name__, " ".join(str(error).split())
    text = f"{kind}: {words}" if words else f"{kind} without a message"
    frame = _frame(error)
    if frame is None:
        return text
    return f"{text} ({_near(frame.filename)}, line {frame.lineno}, in {frame.name})"


@contextmanager
def named(place: Callable[[], str], noted: bool = True) -> Generator[None]:
    """In the block an error of the environment becomes an `EnvFailure` with the `place`.

    Errors of Holdfast itself (wrong shapes, time-outs) get the place as a note, if `noted`.
    """
    try:
        yield
    except EnvFailure:
        raise
    except Exception as error:
        if _frame(error) is None:
            if noted:
                error.add_note(f"(raised in {place()})")
            raise
        raise EnvFailure(f"{describe_error(error)}, in {place()}.") from error


def _frame(error: BaseException) -> traceback.FrameSummary | None:
    """The innermost frame of the user's code, else of the package that raised; None: Holdfast
    raised.
    """
    frames = traceback.extract_tb(error.__traceback__)
    if not frames or _is_ours(frames[-1].filename):
        return None
    theirs = [frame for frame in frames if not _is_ours(frame.filename)]
    own = [frame for frame in theirs if not frame.filename.startswith((*INSTALLED, "<frozen"))]
    return (own or theirs)[-1]


def _is_ours(file: str) -> bool:
    return Path(file).is_relative_to(OURS)


def _near(file: str) -> str:
    """The path, relative to the current folder if it is inside."""
    path = Path(file)
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)
