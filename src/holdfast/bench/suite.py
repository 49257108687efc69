# SPDX-License-Identifier: Apache-2.0
"""Suites as data: algorithms × tasks × seeds in a TOML file, expanded into cells.

    steps = 1_000_000
    seeds = 3                                      # 0, 1, 2; a list names them
    tasks = ["SafetyHopperVelocity-v1"]
    algorithms = ["cpo", { name = "c-trpo", sweep = { beta = [0.2, 1.0] } }]
    limits = { "SafetyHopperVelocity-v1" = 10 }    # else what the task declares

A cell is one run: a folder name and a `Run`. Everything is checked before the first run starts; the
error for an unknown word suggests the nearest known one.
"""

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.resources import files
from itertools import product
from math import prod
from pathlib import Path
from typing import cast

from holdfast.files import MB, shallow, text
from holdfast.register import PresetName
from holdfast.run import Run, make_run
from holdfast.runs.folder import plain_word
from holdfast.settings import built, converted, nearest, shown

LARGEST = MB
"""Largest size of a suite file in bytes."""
MOST_CELLS, MOST_LISTED, LONGEST_NAME = 100_000, 1000, 200
FIXED = ("env", "seed", "steps", "preset", "name", "algorithm")
"""Settings of a run that have keys of their own in a suite."""


@dataclass(frozen=True)
class Entry:
    """One line of `algorithms`: a name, its settings, and values to sweep over."""

    name: str
    settings: dict[str, object] = field(default_factory=dict[str, object])
    sweep: dict[str, tuple[object, ...]] = field(default_factory=dict[str, tuple[object, ...]])
    preset: PresetName | None = None
    tasks: tuple[str, ...] | None = None
    """Only on these tasks; None: on all tasks of the suite."""
    seeds: tuple[int, ...] | None = None
    """Only with these of the suite's seeds; None: with all."""

    def __post_init__(self) -> None:
        _check_free(self.settings, "settings")
        _check_free(self.sweep, "sweep")
        for name, values in self.sweep.items():
            _check_distinct(values, f"sweep.{name}")


@dataclass(frozen=True)
class Suite:
    name: str
    steps: int
    tasks: tuple[str, ...]
    algorithms: tuple[Entry, ...]
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    preset: PresetName | None = None
    settings: dict[str, object] = field(default_factory=dict[str, object])
    limits: dict[str, object] = field(default_factory=dict[str, object])
    """Task → its limit, or a table of its constraints' limits; other tasks have their declared
    limits.
    """
    description: str = ""

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise ValueError(f"steps={self.steps} must be a whole number of at least 1.")
        _check_distinct(self.tasks, "tasks")
        _check_distinct(self.algorithms, "algorithms")
        _check_free(self.settings, "settings")
        for task, limit in self.limits.items():
            if task not in self.tasks:
                raise ValueError(f"limits names '{task}'{nearest(task, self.tasks)}")
            converted(limit, float | dict[str, float | str], f"limits.{task}")

    def limits_of(self, task: str) -> dict[str, object]:
        """Settings with a task's limit."""
        if task not in self.limits:
            return {}
        limit = self.limits[task]
        return {"limits" if isinstance(limit, Mapping) else "cost_limit": limit}


@dataclass(frozen=True)
class Cell:
    """One run of a grid."""

    name: str
    """Its folder, unique within the suite."""
    run: Run

    def __str__(self) -> str:
        return self.name

    @property
    def label(self) -> str:
        """The algorithm and its changed settings."""
        return label_of(self.name, self.run.env, self.run.seed)


def shipped() -> list[str]:
    """The names of the suites that come with the library."""
    folder = files("holdfast.bench") / "suites"
    return sorted(f.name.removesuffix(".toml") for f in folder.iterdir() if f.name[-5:] == ".toml")


def load_suite(name: str | Path) -> Suite:
    """A suite by name, or from the path of a TOML file."""
    path = Path(name)
    if path.suffix == ".toml":
        if not path.exists():
            raise ValueError(f"there is no suite file '{path}'; check the path.")
        words = text(path, LARGEST)
    else:
        source = files("holdfast.bench") / "suites" / f"{name}.toml"
        if not source.is_file():
            raise ValueError(
                f"unknown suite '{name}'{nearest(str(name), shipped())} A file of your own must "
                "end in .toml."
            )
        words = source.read_text("utf-8")
    try:
        data = shallow(tomllib.loads(words), name)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(
            f"suite '{name}' is not valid TOML ({error}); correct that line."
        ) from None
    except RecursionError:
        raise ValueError(f"suite '{name}' is nested too deeply; write it flat.") from None
    return parse_suite(path.stem, data)


def parse_suite(name: str, data: Mapping[str, object]) -> Suite:
    """Plain data, every key and type checked."""
    for key in ("steps", "tasks", "algorithms"):
        if key not in data:
            raise ValueError(f"suite '{name}' lacks '{key}'; it needs steps, tasks, algorithms.")
    lines = converted(data["algorithms"], tuple[object, ...], "algorithms")
    entries = tuple(map(_entry, cast(tuple[object, ...], lines)))
    made: dict[str, object] = {"name": name, "algorithms": entries}
    if "seeds" in data:
        made["seeds"] = parse_seeds(data["seeds"])
    rest = {key: value for key, value in data.items() if key not in ("seeds", "algorithms")}
    suite = built(Suite, rest, f"suite '{name}'", **made)
    for entry in entries:
        _check_within(entry.tasks, suite.tasks, entry, "tasks")
        _check_within(entry.seeds, suite.seeds, entry, "seeds")
    return suite


def _check_within(
    chosen: tuple[object, ...] | None, of: tuple[object, ...], entry: Entry, key: str
) -> None:
    """An entry chooses from the suite's tasks and seeds; another one would never run."""
    for value in chosen or ():
        if value not in of:
            raise ValueError(
                f"algorithm '{entry.name}' has {shown(value)} under {key}, but the suite's {key} "
                "lack it; add it there."
            )


def cells(suite: Suite, only: Iterable[str] = ()) -> tuple[Cell, ...]:
    """The runs of a suite, seeds outermost: the first results cover the whole grid.

    `only` keeps cells that match one of the pairs ALGORITHM/TASK. ALGORITHM is a name or a label
    with settings, TASK a part of the task's name; either may be empty (`c-trpo/`,
    `c-trpo_beta=0.1/Hopper`, `/Hopper`).
    """
    wanted = [_pattern(words) for words in only]
    found: dict[str, Cell] = {}
    variants = sum(prod(map(len, entry.sweep.values())) for entry in suite.algorithms)
    if len(suite.seeds) * len(suite.tasks) * variants > MOST_CELLS:
        raise ValueError(f"suite '{suite.name}' has more than {MOST_CELLS:,} runs; divide it.")
    for seed in suite.seeds:
        for task, entry in product(suite.tasks, suite.algorithms):
            if entry.tasks is not None and task not in entry.tasks:
                continue
            if entry.seeds is not None and seed not in entry.seeds:
                continue
            for swept in _variants(entry.sweep):
                own = {**suite.settings, **suite.limits_of(task), **entry.settings, **swept}
                fixed = {"env": task, "seed": seed, "steps": suite.steps}
                run = _checked_run(
                    suite.name, entry.name, entry.preset or suite.preset, {**fixed, **own}
                )
                differing = {**entry.settings, **swept}
                if entry.preset is not None:
                    differing["preset"] = entry.preset
                label = [run.name, *(f"{k}={plain_word(v)}" for k, v in differing.items())]
                cell = Cell("_".join([*label, plain_word(task), f"seed{seed}"]), run)
                if len(cell.name) > LONGEST_NAME:
                    raise ValueError(
                        f"suite '{suite.name}' has a run called '{cell.name[:60]}...', too long "
                        "for a folder: give long settings under the suite."
                    )
                if found.setdefault(cell.name, cell) != cell:
                    raise ValueError(
                        f"suite '{suite.name}' has two different runs called '{cell.name}'; give "
                        "their differing settings under the algorithm, not under the suite."
                    )
    kept = [c for c in found.values() if not wanted or any(_matches(c, w) for w in wanted)]
    if not kept:
        names = sorted({cell.label for cell in found.values()})
        raise ValueError(
            f"no cell of suite '{suite.name}' matches --only {' '.join(only)}; it has "
            f"{', '.join(names)} on {', '.join(suite.tasks)}."
        )
    return tuple(kept)


def _checked_run(
    suite: str, name: str, preset: PresetName | None, settings: dict[str, object]
) -> Run:
    try:
        return make_run(name, preset, **settings)
    except ValueError as error:
        raise ValueError(f"suite '{suite}', {name}: {error}") from None


def with_options(
    suite: Suite,
    steps: int | None,
    seeds: Sequence[int] | None,
    tasks: Sequence[str] = (),
) -> Suite:
    """The suite, shorter or longer, with all its algorithms on other seeds or tasks."""
    if steps is not None:
        suite = replace(suite, steps=steps)
    if tasks:
        limits = {task: limit for task, limit in suite.limits.items() if task in tasks}
        entries = _distinct(replace(entry, tasks=None) for entry in suite.algorithms)
        suite = replace(suite, tasks=tuple(tasks), limits=limits, algorithms=entries)
    if seeds:
        entries = _distinct(replace(entry, seeds=None) for entry in suite.algorithms)
        suite = replace(suite, seeds=parse_seeds(seeds), algorithms=entries)
    return suite


def _distinct(entries: Iterable[Entry]) -> tuple[Entry, ...]:
    """The entries without repetitions; they hold dicts, so a set cannot hold them."""
    kept: list[Entry] = []
    for entry in entries:
        if entry not in kept:
            kept.append(entry)
    return tuple(kept)


def parse_seeds(value: object) -> tuple[int, ...]:
    """A number of seeds (0, 1, ...) or the seeds themselves."""
    try:
        given = converted(value, int | tuple[int, ...], "seeds")
    except ValueError:
        given = ()
    count = given if isinstance(given, int) else len(cast(tuple[int, ...], given))
    if 0 < count <= MOST_CELLS:
        seeds = tuple(range(count)) if isinstance(given, int) else cast(tuple[int, ...], given)
        if min(seeds) >= 0 and len(set(seeds)) == count:
            return seeds
    raise ValueError(
        f"seeds={shown(value)} must be a positive number, or a list of distinct seeds, of at most "
        f"{MOST_CELLS:,}."
    )


def _entry(data: object) -> Entry:
    if isinstance(data, str):
        return Entry(data)
    if not isinstance(data, dict) or "name" not in data:
        raise ValueError(f"algorithm {shown(data)} must be a name or a table with a name.")
    table = cast(dict[str, object], data)
    return built(Entry, table, f"algorithm '{table['name']}'")


def _variants(sweep: Mapping[str, Sequence[object]]) -> list[dict[str, object]]:
    return [dict(zip(sweep, values, strict=True)) for values in product(*sweep.values())]


def _pattern(words: str) -> tuple[str, str]:
    algorithm, slash, task = words.partition("/")
    if not slash:
        raise ValueError(f"--only {words} is not ALGORITHM/TASK; write `{words}/` or `/{words}`.")
    return algorithm.lower(), task.lower()


def _matches(cell: Cell, wanted: tuple[str, str]) -> bool:
    name, task = wanted
    names = (cell.run.name.lower(), cell.label.lower())
    return (not name or name in names) and task in cell.run.env.lower()


def _check_free(settings: Iterable[str], where: str) -> None:
    for key in settings:
        if key in FIXED:
            raise ValueError(
                f"'{key}' does not belong under {where}; it has its own key in the suite."
            )


def _check_distinct(values: Sequence[object], where: str) -> None:
    if not 0 < len(values) <= MOST_LISTED or any(v in values[:i] for i, v in enumerate(values)):
        raise ValueError(
            f"{where} must be a list of at least one and at most {MOST_LISTED}, all distinct."
        )


def label_of(name: str, env: str, seed: int) -> str:
    """A cell's name without its task and seed."""
    return name.removesuffix(f"_{plain_word(env)}_seed{seed}")
