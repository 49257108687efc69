# SPDX-License-Identifier: Apache-2.0
"""Settings as nested frozen dataclasses: list them, change some, make them from plain data.

A default is in its field and its help text in the docstring under it; the command line, the tables
of `holdfast list ALGO`, suites and `run.json` are generated from there. A leaf has a dotted path,
such as `algorithm.region.radius`, and a short name, the path's last part.
"""

from __future__ import annotations

import ast
import dataclasses
import difflib
import functools
import inspect
import itertools
import numbers
import textwrap
import types
import typing
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, Protocol, TypeVar, cast


class Settings(Protocol):
    """Any dataclass."""

    __dataclass_fields__: ClassVar[dict[str, dataclasses.Field[Any]]]


S = TypeVar("S", bound=Settings)
MOST = 10**18
"""Whole numbers of this size or larger are refused."""


@dataclass(frozen=True)
class Setting:
    """A leaf: its path, type and value."""

    path: str
    kind: object
    """The annotation, resolved."""
    value: object
    owner: type[Settings]
    """The class whose field it is."""

    @property
    def name(self) -> str:
        return self.path.rpartition(".")[2]

    @property
    def help(self) -> str:
        return field_help(self.owner).get(self.name, "")


def leaves(value: Settings, prefix: str = "") -> Iterator[Setting]:
    """All settings of nested dataclasses, in the order of their fields."""
    kind = type(value)
    hints = _hints(kind)
    for field in dataclasses.fields(value):
        inner: object = getattr(value, field.name)
        if dataclasses.is_dataclass(inner) and not isinstance(inner, type):
            yield from leaves(inner, f"{prefix}{field.name}.")
        else:
            yield Setting(prefix + field.name, hints.get(field.name, object), inner, kind)


def changed(value: S, changes: Mapping[str, object]) -> S:
    """A copy with other values at these paths, changed at once: some are only valid together."""
    own: dict[str, object] = {}
    below: dict[str, dict[str, object]] = {}
    for path, new in changes.items():
        head, dot, rest = path.partition(".")
        if dot:
            below.setdefault(head, {})[rest] = new
        else:
            own[head] = new
    for head, inner in below.items():
        own[head] = changed(cast(Settings, own.get(head, getattr(value, head))), inner)
    return dataclasses.replace(value, **own)


def built(kind: type[S], data: Mapping[str, object], where: str, **made: object) -> S:
    """A value from plain data, every key and type checked; `made` holds fields that are built."""
    known = {field.name for field in dataclasses.fields(kind)}
    for key in data:
        if key not in known or key in made:
            raise ValueError(f"unknown key '{key}' in {where}{nearest(key, sorted(known - {key}))}")
    hints = _hints(kind)
    given = {k: converted(v, hints[k], f"{where}.{k}") for k, v in data.items()}
    return kind(**given, **made)


def converted(value: object, kind: object, where: str) -> object:
    """Plain data as a value of an annotated type: a list as a tuple, 1 as 1.0, 1e6 as 1000000."""
    if kind is object or kind is Any:
        return value
    options, origin, args = choices(kind), typing.get_origin(kind), typing.get_args(kind)
    if options is not None:
        if value in options:
            return value
    elif suggested(kind) is not None:
        return converted(value, args[0], where)
    elif isinstance(kind, type) and origin is None:
        found = _plain(value, kind, where)
        if found is not None or kind is type(None) is type(value):
            return found
    elif origin in (typing.Union, types.UnionType):
        for option in args:
            try:
                return converted(value, option, where)
            except ValueError:
                continue
    elif origin is tuple and isinstance(value, list | tuple):
        return tuple(converted(v, args[0], where) for v in cast(list[object], value))
    elif origin is dict and isinstance(value, Mapping):
        pairs = cast(Mapping[object, object], value).items()
        return {str(k): converted(v, args[1], f"{where}.{k}") for k, v in pairs}
    raise ValueError(f"{where}={shown(value)} must be {spelt(kind)}.")


def shown(value: object) -> str:
    """repr of a value for an error message, truncated to 200 characters."""
    words = repr(value)
    return words if len(words) <= 200 else f"{words[:200]}..."


WORDS: dict[object, str] = {
    int: "a whole number",
    float: "a number",
    str: "a text",
    bool: "true or false",
    type(None): "none",
}


def spelt(kind: object) -> str:
    """A type in words."""
    options, args = choices(kind), typing.get_args(kind)
    if options is not None:
        return f"one of {', '.join(map(str, options))}"
    if typing.get_origin(kind) is tuple:
        return f"a list, each {spelt(args[0])}"
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        return " or ".join(map(spelt, args))
    return WORDS.get(kind, "a table")


def _plain(value: object, kind: type, where: str) -> object:
    """The value converted to a plain class; None if that is not possible."""
    if dataclasses.is_dataclass(kind) and isinstance(value, Mapping):
        return built(cast(type[Settings], kind), cast(Mapping[str, object], value), where)
    if kind in (int, float):
        if isinstance(value, bool) or not isinstance(value, numbers.Real):
            return None
        if isinstance(value, numbers.Integral):
            return kind(value) if abs(int(value)) < MOST else None
        number = float(value)
        return number if kind is float else int(number) if number.is_integer() else None
    return value if isinstance(value, kind) else None


@dataclass(frozen=True, eq=False)
class Suggested:
    """Note of `Annotated[str, Suggested(TABLE, ...)]`: the keys are the usual values; others are
    allowed."""

    table: Mapping[str, object]
    other: str
    """A word for the other values."""


def suggested(kind: object) -> Suggested | None:
    notes = typing.get_args(kind)[1:] if typing.get_origin(kind) is Annotated else ()
    return next((note for note in notes if isinstance(note, Suggested)), None)


def choices(kind: object) -> Collection[object] | None:
    """The allowed values of a `Literal`, or the keys of `Annotated[str, TABLE]`; else None."""
    if typing.get_origin(kind) is Literal:
        return typing.get_args(kind)
    if typing.get_origin(kind) is Annotated:
        for note in typing.get_args(kind)[1:]:
            if isinstance(note, Mapping):
                return tuple(cast(Mapping[object, object], note))
    return None


def near_miss(word: str, known: Iterable[str]) -> str | None:
    """The known name closest to a mistyped word; None if none is close."""
    names = {name.lower(): name for name in known}
    close = difflib.get_close_matches(word.lower()[:200], names, n=1, cutoff=0.75)
    return names[close[0]] if close else None


def nearest(word: str, known: Iterable[str], otherwise: str = "") -> str:
    """The end of an error about an unknown word: the closest known name, or all known names."""
    names = list(known)
    close = near_miss(word, names)
    if close is not None:
        return f"; did you mean '{close}'?"
    return f"; {otherwise or 'known are ' + ', '.join(names) + '.'}"


@functools.cache
def field_help(kind: type[Settings]) -> dict[str, str]:
    """Field → the docstring that stands under it in the class."""
    body = cast(ast.ClassDef, ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0]).body
    found: dict[str, str] = {}
    for field, text in itertools.pairwise(body):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant):
                found[field.target.id] = " ".join(str(text.value.value).split())
    return found


@functools.cache
def _hints(kind: type[Settings]) -> dict[str, object]:
    """Field → type; empty for a class with annotations that cannot be resolved."""
    try:
        return typing.get_type_hints(kind, include_extras=True)
    except NameError:
        return {}
