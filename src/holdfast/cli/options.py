# SPDX-License-Identifier: Apache-2.0
"""The options of `holdfast train`, generated from the settings."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, cast

import tyro
from tyro.conf import OmitArgPrefixes, UseAppendAction

from holdfast.cli.arguments import Whole, one_word, parse_args, parse_limits, whole
from holdfast.register import PRESETS, PresetName
from holdfast.run import ELSEWHERE, Run, divisible, make_run, with_preset
from holdfast.settings import Setting, changed, choices, leaves, nearest, suggested

HELP = frozenset({"-h", "--help"})
METAVARS = {
    "<class 'float'>": "NUMBER",
    "float | None": "NUMBER",
    "float | tuple[float, ...]": "NUMBER ...",
    "tuple[int, ...]": "INT ...",
}
"""Type → metavar, where tyro's own would be hard to read."""
HIDDEN = ("env", "env_args", "cost", "name", "origin", "limits", "preset")
"""Settings of `Run` without a flag of the same name."""

LIMIT = (
    "A separate constraint with its limit: hazards=25 (the mean), 'hazards=25 worst 5%' (the tail) "
    "or 'hazards=25 in 95%' (the chance); repeat it for several."
)
PRESET = (
    "published: as in the paper's code; corrected: as the mathematics requires; text: as in the "
    "paper's text; none: Holdfast's default. Flags override the preset."
)


@dataclass(frozen=True)
class More:
    """Options for start, cluster and logs."""

    origin: Annotated[Path | None, tyro.conf.arg(name="from", metavar="RUN")] = None
    """Begin a new run with policy and settings of another run; without ALGO and ENV."""
    config: Annotated[Path | None, tyro.conf.arg(metavar="RUN/run.json")] = None
    """Repeat the run of this file in a new folder, without ALGO and ENV; flags change settings."""
    trust_env: bool = False
    """With --from and --config: import the environment of the run, if it is not built in."""
    cluster: Annotated[str | None, tyro.conf.arg(metavar="ADDRESS")] = None
    """A Ray cluster whose machines the workers run on: an address, auto or local."""
    tensorboard: bool = False
    """Write TensorBoard events too."""
    wandb: Annotated[str | None, tyro.conf.arg(metavar="PROJECT")] = None
    """Weights & Biases project to log to."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """The ten most important options, first in the help; settings of `Run` have its defaults."""

    steps: int
    cost_limit: float | None
    limit: Annotated[
        UseAppendAction[tuple[str, ...]], tyro.conf.arg(metavar="NAME=LIMIT", help=LIMIT)
    ] = ()
    seed: int
    out: Annotated[Path | None, tyro.conf.arg(metavar="FOLDER", aliases=["-o"])] = None
    """The run folder; by default runs/ALGO_ENV_seedN_TIME."""
    preset: Annotated[
        PresetName | None, tyro.conf.arg(metavar=f"{{{','.join(PRESETS)}}}", help=PRESET)
    ] = None
    env_arg: Annotated[UseAppendAction[tuple[str, ...]], tyro.conf.arg(metavar="NAME=VALUE")] = ()
    """An argument of your environment, such as size=5; repeat it for several."""
    cost: Annotated[str, tyro.conf.arg(metavar="MODULE:FUNCTION")] = ""
    """A cost function of (obs, action, next_obs), by name; none: the environment's own cost."""
    workers: int
    quiet: bool = False
    """No progress display."""
    more: OmitArgPrefixes[More] = More()


def grouped(run: Run) -> dict[str, list[Setting]]:
    """Title → settings: the most important, the algorithm's, the run's, then those of its parts."""
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


def default_of(setting: Setting) -> str:
    """The default in the spelling of the command line."""
    return str(spell_workers(setting.value) if setting.name == "workers" else setting.value)


def spell_workers(count: object) -> str:
    return str(count or "auto")


Workers = Annotated[
    int,
    one_word("INT|auto", int, lambda text: 0 if text == "auto" else whole(text), spell_workers),
]
"""A number of workers; 0 is written auto."""


def parse_run(
    algorithm: str, env: str, args: Sequence[str], before: Run | None = None
) -> tuple[Run, Options]:
    """The run that a command line describes, and the options beside it.

    The preset applies first, then the flags, so an explicit flag always wins. With `before` the
    defaults are those of that run.
    """
    preset = cast(PresetName | None, parse_first(args).preset)
    base = before or make_run(algorithm, preset, env=env)
    if before is not None and preset is not None:
        base = with_preset(before, preset)
    groups = grouped(base)
    words = f", preset {base.preset}" if base.preset else ""
    given, unknown = tyro.cli(
        _options(groups),
        args=args,
        prog="holdfast train ALGO ENV",
        description=f"The options of {base.name}{words}. "
        "`holdfast list` names the algorithms, `holdfast envs` the tasks.",
        return_unknown_args=True,
    )
    found = [setting for settings in groups.values() for setting in settings]
    if unknown:
        fields = (*dataclasses.fields(Options), *dataclasses.fields(More))
        known = {field.name for field in fields} | {s.name for s in found}
        word = unknown[0].strip("-").replace("-", "_").partition("=")[0]
        right = next((name for name in names_here(word) if name in known), None)
        hint = nearest(flag(word), map(flag, known), "--help shows all.")
        hint = f"; it is {flag(right)} here." if right else hint
        raise ValueError(f"unknown option '{unknown[0]}'{hint}")
    values = {leaf.name: leaf.value for leaf in leaves(given)}
    changes = {setting.path: values[setting.name] for setting in found}
    limits = base.limits | parse_limits(given.limit)
    if limits and given.cost_limit != base.cost_limit:
        raise ValueError(
            f"--cost-limit {given.cost_limit} has no effect, as {', '.join(limits)} have "
            f"their own limits: give {' '.join(f'--limit {name}=NUMBER' for name in limits)}."
        )
    if not gives_epochs(args):
        count = cast(int, changes["num_envs"])
        changes["epoch_steps"] = divisible(base.epoch_steps, count)
    changes |= {"limits": limits, "cost": given.cost or base.cost}
    changes |= {"env_args": base.env_args | parse_args(given.env_arg)}
    return changed(base, changes), given


def gives_epochs(args: Sequence[str]) -> bool:
    """Whether these arguments give the length of epochs."""
    return any(arg.replace("_", "-").startswith("--epoch-steps") for arg in args)


def names_here(theirs: str) -> tuple[str, ...]:
    """Options for a name that another library has."""
    return tuple("steps" if name == "total_steps" else name for name in ELSEWHERE.get(theirs, ()))


@dataclass(frozen=True)
class First:
    """Options on which all others depend."""

    preset: str | None = None
    origin: Annotated[str | None, tyro.conf.arg(name="from")] = None
    config: str | None = None


def parse_first(args: Sequence[str]) -> First:
    """Parse these options alone."""
    rest = [arg for arg in args if arg not in HELP]
    return tyro.cli(First, args=rest, return_unknown_args=True)[0]


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
        kind = Workers if setting.name == "workers" else Whole
    words, usual = setting.help or None, suggested(setting.kind)
    shown = METAVARS.get(str(setting.kind))
    if usual is not None:
        shown = f"{{{','.join(usual.table)}}}|{usual.other}"
    kind = Annotated[kind, tyro.conf.arg(help=words, metavar=shown)]
    return setting.name, kind, dataclasses.field(default=setting.value)
