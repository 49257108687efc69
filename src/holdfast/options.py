# SPDX-License-Identifier: Apache-2.0
"""Command-line options generated from the typed settings: one place for each fact.

A default lives in its dataclass field and its help text in the docstring under it; from those come
the flags of `holdfast train`, the tables of `holdfast list ALGO` and those in the docs.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import inspect
import itertools
import textwrap
import typing
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import tyro

from holdfast.run import PRESETS, Run, make_run, with_preset

HIDDEN = ("env", "algorithm", "name", "limits", "preset")
"""Fields of `Run` that are given in another way than by a flag of their name."""


@dataclass(frozen=True)
class Option:
    """A setting: where it lives, its type, its default and its help."""

    path: tuple[str, ...]
    type: Any
    default: Any
    help: str

    @property
    def name(self) -> str:
        return self.path[-1]

    @property
    def flag(self) -> str:
        return "--" + self.name.replace("_", "-")


@functools.cache
def field_help(kind: type) -> dict[str, str]:
    """Field → the docstring that stands under it in the class."""
    body = typing.cast(
        ast.ClassDef, ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0]
    ).body
    found: dict[str, str] = {}
    for field, text in itertools.pairwise(body):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant):
                found[field.target.id] = " ".join(str(text.value.value).split())
    return found


def options(run: Run) -> list[Option]:
    """All settings of a run: the algorithm's first, then those that every algorithm shares."""
    return [*_walk(run.algorithm, ("algorithm",)), *_walk(run, ())]


def _walk(value: Any, path: tuple[str, ...]) -> Iterator[Option]:
    hints = typing.get_type_hints(type(value))
    for field in dataclasses.fields(value):
        current = getattr(value, field.name)
        if not path and field.name in HIDDEN:
            continue
        if dataclasses.is_dataclass(current):
            yield from _walk(current, (*path, field.name))
        else:
            text = field_help(type(value)).get(field.name, "")
            yield Option((*path, field.name), hints[field.name], current, text)


def whole(text: str) -> int:
    """An integer, also written as 1e6 or 20_000."""
    number = float(text.replace("_", ""))
    if number != int(number):
        raise ValueError(f"{text} is not a whole number")
    return int(number)


def parse_run(algorithm: str, env: str, args: Sequence[str], prog: str) -> tuple[Run, list[str]]:
    """The run that a command line describes, and the arguments that are not settings of it.

    The preset applies first, then the flags, so an explicit flag always wins.
    """
    args, limits = take(list(args), "--limit")
    args, presets = take(args, "--preset")
    preset = presets[-1] if presets else None
    if preset is not None and preset not in PRESETS:
        raise ValueError(f"unknown preset '{preset}'; choose one of {', '.join(PRESETS)}.")
    base = with_preset(make_run(algorithm, env=env), preset)
    found = options(base)
    flat = dataclasses.make_dataclass(
        "Settings",
        [
            (
                o.name,
                Annotated[_cli_type(o.type), tyro.conf.arg(help=o.help or None)],
                dataclasses.field(default=o.default),
            )
            for o in found
        ],
    )
    given, rest = tyro.cli(
        flat,
        args=args,
        prog=prog,
        return_unknown_args=True,
        description=describe(base),
    )
    changed = {o.name: getattr(given, o.name) for o in found}
    values = {o.name: o.default for o in found} | changed
    run = _rebuild(base, found, values | {"limits": parse_limits(limits)})
    return run, list(rest)


def _rebuild(base: Run, found: Sequence[Option], values: dict[str, Any]) -> Run:
    tree: dict[str, Any] = {"limits": values["limits"]}
    for option in found:
        node = tree
        for part in option.path[:-1]:
            node = node.setdefault(part, {})
        node[option.name] = values[option.name]
    return _replace(base, tree)


def _replace(value: Any, tree: dict[str, Any]) -> Any:
    nested = lambda name, v: (
        _replace(getattr(value, name), v)
        if (isinstance(v, dict) and dataclasses.is_dataclass(getattr(value, name)))
        else v
    )
    return dataclasses.replace(value, **{name: nested(name, v) for name, v in tree.items()})


def _cli_type(kind: Any) -> Any:
    """Whole numbers may be written as 1e6."""
    if kind is not int:
        return kind
    return Annotated[
        int,
        tyro.constructors.PrimitiveConstructorSpec(
            nargs=1,
            metavar="INT",
            instance_from_str=lambda parts: whole(parts[0]),
            is_instance=lambda value: isinstance(value, int),
            str_from_instance=lambda value: [str(value)],
        ),
    ]


def take(args: list[str], flag: str) -> tuple[list[str], list[str]]:
    """Remove every `flag VALUE` or `flag=VALUE`; (the rest, the values)."""
    rest: list[str] = []
    values: list[str] = []
    queue = iter(args)
    for arg in queue:
        if arg == flag:
            value = next(queue, None)
            if value is None:
                raise ValueError(f"{flag} needs a value.")
            values.append(value)
        elif arg.startswith(flag + "="):
            values.append(arg[len(flag) + 1 :])
        else:
            rest.append(arg)
    return rest, values


def parse_limits(pairs: Sequence[str]) -> dict[str, float]:
    """--limit hazards=25 --limit vases=10"""
    limits: dict[str, float] = {}
    for pair in pairs:
        name, equals, number = pair.partition("=")
        try:
            limits[name] = float(number)
        except ValueError:
            equals = ""
        if not name or not equals:
            raise ValueError(f"--limit {pair} is not NAME=NUMBER; write --limit hazards=25.")
    return limits


def describe(run: Run) -> str:
    preset = f", preset {run.preset}" if run.preset else ""
    return (
        f"Train {run.name}{preset}. Also: --limit NAME=VALUE (a constraint of its own; repeat it), "
        f"--preset {{{','.join(PRESETS)}}}, --out FOLDER, --tensorboard, --wandb PROJECT, --quiet."
    )
