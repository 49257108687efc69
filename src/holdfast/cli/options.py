# SPDX-License-Identifier: Apache-2.0
"""The options of `holdfast train`, generated from the settings: one place for each fact."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, cast

import tyro
from tyro.conf import OmitArgPrefixes, UseAppendAction

from holdfast.register import PRESETS, PresetName
from holdfast.run import Run, make_run
from holdfast.settings import Setting, changed, choices, leaves

HIDDEN = ("env", "name", "limits", "preset")
"""Settings of `Run` that are given in another way than by a flag of their name."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """What matters most, first in the help; defaults and help of settings come from `Run`."""

    steps: int
    cost_limit: float
    limit: Annotated[UseAppendAction[tuple[str, ...]], tyro.conf.arg(metavar="NAME=VALUE")] = ()
    """A constraint of its own with its limit, such as hazards=25; repeat it for several."""
    preset: Annotated[PresetName | None, tyro.conf.arg(metavar=f"{{{','.join(PRESETS)}}}")] = None
    """Published behaviour, corrected, or our own choice; flags win over it."""
    seed: int
    out: Annotated[Path | None, tyro.conf.arg(metavar="FOLDER")] = None
    """The run folder; by default runs/ALGO_ENV_seedN_TIME."""
    workers: int
    num_envs: int
    epoch_steps: int
    quiet: bool = False
    """No progress display."""
    tensorboard: bool = False
    """Write TensorBoard events too."""
    wandb: Annotated[str | None, tyro.conf.arg(metavar="PROJECT")] = None
    """Weights & Biases project to log to."""


def grouped(run: Run) -> dict[str, list[Setting]]:
    """Title → settings: what matters most, the algorithm's own, the run's, then its parts'."""
    first = {field.name for field in dataclasses.fields(Options)}
    groups: dict[str, list[Setting]] = {"": [], run.name: [], "training": []}
    for setting in leaves(run):
        part = setting.path.split(".")
        if part[0] == "algorithm":
            title = run.name if len(part) == 2 else part[1]
        else:
            title = "" if setting.name in first else "training"
        if setting.path not in HIDDEN:
            groups.setdefault(title, []).append(setting)
    return groups


def flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def parse_run(algorithm: str, env: str, args: Sequence[str]) -> tuple[Run, Options]:
    """The run that a command line describes, and the options beside it.

    The preset applies first, then the flags, so an explicit flag always wins.
    """
    base = make_run(algorithm, _preset(args), env=env)
    groups = grouped(base)
    preset = f", preset {base.preset}" if base.preset else ""
    given, unknown = tyro.cli(
        _options(groups),
        args=args,
        prog="holdfast train ALGO ENV",
        description=f"The options of {base.name}{preset}. "
        "`holdfast list` names the algorithms, `holdfast envs` the tasks.",
        return_unknown_args=True,
    )
    found = [setting for settings in groups.values() for setting in settings]
    if unknown:
        known = {field.name for field in dataclasses.fields(Options)} | {s.name for s in found}
        word = unknown[0].strip("-").replace("-", "_").partition("=")[0]
        close = difflib.get_close_matches(word, known, n=1, cutoff=0.75)
        hint = f"did you mean '{flag(close[0])}'?" if close else "--help shows all."
        raise ValueError(f"unknown option '{unknown[0]}'; {hint}")
    values = {leaf.name: leaf.value for leaf in leaves(given)}
    changes = {setting.path: values[setting.name] for setting in found}
    return changed(base, changes | {"limits": parse_limits(given.limit)}), given


def _preset(args: Sequence[str]) -> PresetName | None:
    """The preset alone: the defaults of all else depend on it."""

    @dataclass
    class First:
        preset: str | None = None

    rest = [arg for arg in args if arg not in ("-h", "--help")]
    return cast(PresetName | None, tyro.cli(First, args=rest, return_unknown_args=True)[0].preset)


Field = tuple[str, Any, Any]


def _options(groups: Mapping[str, Sequence[Setting]]) -> type[Options]:
    """`Options` with the fields of these settings; each titled group is a box of the help."""
    boxes: list[Field] = []
    for title, settings in groups.items():
        if title and settings:
            kind = dataclasses.make_dataclass("Group", map(_field, settings), frozen=True)
            kind.__doc__ = " "
            boxes.append((title.replace("-", "_"), OmitArgPrefixes[kind], kind()))
    fields = [*map(_field, groups[""]), *boxes]
    made = dataclasses.make_dataclass("Train", fields, bases=(Options,), frozen=True, kw_only=True)
    return cast(type[Options], made)


def _field(setting: Setting) -> Field:
    kind: Any = setting.kind
    names = choices(kind)
    if names is not None:
        kind = Literal[tuple(names)]
    elif kind is int:
        kind = WHOLE
    kind = Annotated[kind, tyro.conf.arg(help=setting.help or None)]
    return setting.name, kind, dataclasses.field(default=setting.value)


def whole(text: str) -> int:
    """An integer, also written as 1e6 or 20_000."""
    number = float(text.replace("_", ""))
    if number != int(number):
        raise ValueError(f"{text} is not a whole number")
    return int(number)


WHOLE = Annotated[
    int,
    tyro.constructors.PrimitiveConstructorSpec(
        nargs=1,
        metavar="INT",
        instance_from_str=lambda parts: whole(parts[0]),
        is_instance=lambda value: isinstance(value, int),
        str_from_instance=lambda value: [str(value)],
    ),
]


def parse_limits(pairs: Iterable[str]) -> dict[str, float]:
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
