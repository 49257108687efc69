# SPDX-License-Identifier: Apache-2.0
"""Suites as data: algorithms × tasks × seeds in a TOML file, expanded into cells.

    steps = 1_000_000
    seeds = 3                                      # 0, 1, 2; a list names them
    tasks = ["SafetyHopperVelocity-v1"]
    algorithms = ["cpo", { name = "c-trpo", sweep = { beta = [0.2, 1.0] } }]

A cell is one run: a folder name and a `Run`. Everything is checked before anything starts, and a
word that is not known is an error with the nearest one that is.
"""

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.resources import files
from itertools import product
from pathlib import Path
from typing import Any, cast

from holdfast.register import PRESETS
from holdfast.run import Run, make_run
from holdfast.settings import nearest

KEYS = ("description", "steps", "seeds", "tasks", "algorithms", "preset", "settings")
ENTRY_KEYS = ("name", "settings", "sweep", "preset", "tasks")
FIXED = ("env", "seed", "steps", "preset", "name", "algorithm")


@dataclass(frozen=True)
class Entry:
    """One line of `algorithms`: a name, its settings, and values to sweep over."""

    name: str
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    sweep: Mapping[str, Sequence[Any]] = field(default_factory=dict[str, Sequence[Any]])
    preset: str | None = None
    tasks: tuple[str, ...] | None = None
    """Only on these tasks; None: on all of the suite."""


@dataclass(frozen=True)
class Suite:
    name: str
    steps: int
    seeds: tuple[int, ...]
    tasks: tuple[str, ...]
    algorithms: tuple[Entry, ...]
    preset: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    description: str = ""


@dataclass(frozen=True)
class Cell:
    """One run of a grid."""

    name: str
    """Its folder, unique within the suite."""
    run: Run

    def __str__(self) -> str:
        return self.name


def shipped() -> dict[str, str]:
    """Name → description of the suites that come with the library."""
    folder = files("holdfast.bench") / "suites"
    found = sorted(f.name.removesuffix(".toml") for f in folder.iterdir() if f.name[-5:] == ".toml")
    return {name: load_suite(name).description for name in found}


def load_suite(name: str | Path) -> Suite:
    """A suite by name, or from the path of a TOML file."""
    path = Path(name)
    if path.suffix == ".toml":
        if not path.is_file():
            raise ValueError(f"there is no suite file '{path}'; check the path.")
        text = path.read_text("utf-8")
    else:
        source = files("holdfast.bench") / "suites" / f"{name}.toml"
        if not source.is_file():
            folder = files("holdfast.bench") / "suites"
            known = sorted(f.name[:-5] for f in folder.iterdir() if f.name.endswith(".toml"))
            raise ValueError(
                f"unknown suite '{name}'{nearest(str(name), known)} A file of your own must end in "
                ".toml."
            )
        text = source.read_text("utf-8")
    try:
        return parse_suite(path.stem, tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"suite '{name}' is not valid TOML ({error}); mend that line.") from None


def parse_suite(name: str, data: Mapping[str, Any]) -> Suite:
    """Plain data, every key and type checked."""
    _known(data, KEYS, f"suite '{name}'")
    for key in ("steps", "tasks", "algorithms"):
        if key not in data:
            raise ValueError(f"suite '{name}' lacks '{key}'; it needs steps, tasks, algorithms.")
    return Suite(
        name=name,
        steps=_whole(data["steps"], "steps"),
        seeds=parse_seeds(data.get("seeds", 5)),
        tasks=_texts(data["tasks"], "tasks"),
        algorithms=tuple(_entry(entry) for entry in _list(data["algorithms"], "algorithms")),
        preset=_preset(data.get("preset")),
        settings=_settings(data.get("settings", {}), "settings"),
        description=str(data.get("description", "")),
    )


def cells(suite: Suite, only: Iterable[str] = ()) -> tuple[Cell, ...]:
    """The runs of a suite, seeds outermost: the first results cover the whole grid.

    `only` keeps cells whose ALGORITHM/TASK contains one of the given pairs (either part may be
    empty: `c-trpo/`, `/Hopper`).
    """
    wanted = [_pattern(text) for text in only]
    found: dict[str, Cell] = {}
    for seed in suite.seeds:
        for task, entry in product(suite.tasks, suite.algorithms):
            if entry.tasks is not None and task not in entry.tasks:
                continue
            for swept in _variants(entry.sweep):
                own = {**suite.settings, **entry.settings, **swept}
                preset = cast(Any, entry.preset or suite.preset)
                fixed = {"env": task, "seed": seed, "steps": suite.steps}
                run = _checked_run(suite.name, entry.name, preset, {**fixed, **own})
                label = [
                    run.name,
                    *(f"{k}={_word(v)}" for k, v in {**entry.settings, **swept}.items()),
                ]
                cell = Cell("_".join([*label, task, f"seed{seed}"]).replace("/", "-"), run)
                if found.setdefault(cell.name, cell) != cell:
                    raise ValueError(
                        f"suite '{suite.name}' has two different runs called '{cell.name}'; give "
                        "their differing settings under the algorithm, not under the suite."
                    )
    kept = [c for c in found.values() if not wanted or any(_matches(c.run, w) for w in wanted)]
    if not kept:
        names = sorted({cell.run.name for cell in found.values()})
        raise ValueError(
            f"no cell of suite '{suite.name}' matches --only {' '.join(only)}; it has "
            f"{', '.join(names)} on {', '.join(suite.tasks)}."
        )
    return tuple(kept)


def _checked_run(suite: str, name: str, preset: Any, settings: dict[str, Any]) -> Run:
    try:
        return make_run(name, preset, **settings)
    except ValueError as error:
        raise ValueError(f"suite '{suite}', {name}: {error}") from None


def with_options(suite: Suite, steps: int | None, seeds: Sequence[int] | None) -> Suite:
    """The suite, shorter or longer."""
    if steps is not None:
        suite = replace(suite, steps=_whole(steps, "steps"))
    return replace(suite, seeds=parse_seeds(list(seeds))) if seeds else suite


def parse_seeds(value: Any) -> tuple[int, ...]:
    """A number of seeds (0, 1, ...) or the seeds themselves."""
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return tuple(range(value))
    if isinstance(value, list):
        seeds = tuple(_whole(seed, "seeds", least=0) for seed in cast(list[Any], value))
        if seeds and len(set(seeds)) == len(seeds):
            return seeds
    raise ValueError(f"seeds={value!r} must be a positive number or a list of distinct seeds.")


def _entry(data: Any) -> Entry:
    if isinstance(data, str):
        return Entry(data)
    if not isinstance(data, dict) or "name" not in data:
        raise ValueError(f"algorithm {data!r} must be a name or a table with a name.")
    table = cast(dict[str, Any], data)
    _known(table, ENTRY_KEYS, f"algorithm '{table['name']}'")
    tasks = table.get("tasks")
    return Entry(
        name=str(table["name"]),
        settings=_settings(table.get("settings", {}), "settings"),
        sweep={
            k: _list(v, f"sweep.{k}") for k, v in _settings(table.get("sweep", {}), "sweep").items()
        },
        preset=_preset(table.get("preset")),
        tasks=None if tasks is None else _texts(tasks, "tasks"),
    )


def _variants(sweep: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    return [dict(zip(sweep, values, strict=True)) for values in product(*sweep.values())]


def _pattern(text: str) -> tuple[str, str]:
    algorithm, slash, task = text.partition("/")
    if not slash:
        raise ValueError(f"--only {text} is not ALGORITHM/TASK; write `{text}/` or `/{text}`.")
    return algorithm.lower(), task.lower()


def _matches(run: Run, wanted: tuple[str, str]) -> bool:
    name, task = wanted
    return (not name or run.name.lower() == name) and task in run.env.lower()


def _known(data: Mapping[str, Any], keys: Sequence[str], where: str) -> None:
    for key in data:
        if key not in keys:
            raise ValueError(f"{where} has an unknown key '{key}'{nearest(key, sorted(keys))}")


def _settings(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{where}={value!r} must be a table of settings.")
    table = cast(dict[str, Any], value)
    for key in table:
        if key in FIXED:
            raise ValueError(f"'{key}' does not belong under {where}; it has a place of its own.")
    return {
        k: tuple(v) if isinstance(v, list) and where == "settings" else v for k, v in table.items()
    }


def _list(value: Any, where: str) -> list[Any]:
    if not isinstance(value, list) or not value:
        raise ValueError(f"{where}={value!r} must be a list with at least one entry.")
    return cast(list[Any], value)


def _texts(value: Any, where: str) -> tuple[str, ...]:
    found = _list(value, where)
    if not all(isinstance(text, str) for text in found) or len(set(found)) < len(found):
        raise ValueError(f"{where}={value!r} must be distinct names.")
    return tuple(found)


def _whole(value: Any, where: str, least: int = 1) -> int:
    whole = isinstance(value, int | float) and not isinstance(value, bool) and value == int(value)
    if not whole or value < least:
        raise ValueError(f"{where}={value!r} must be a whole number of at least {least}.")
    return int(value)


def _preset(value: Any) -> str | None:
    if value is not None and value not in PRESETS:
        raise ValueError(f"unknown preset {value!r}{nearest(str(value), sorted(PRESETS))}")
    return value


def _word(value: Any) -> str:
    return re.sub(
        r"[^A-Za-z0-9.+-]+", "-", f"{value:g}" if isinstance(value, float) else str(value)
    )
