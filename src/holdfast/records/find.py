# SPDX-License-Identifier: Apache-2.0
"""Finding runs: ours, the published ones, and those of other libraries.

Training and reporting exchange data only by files. `load` walks folders and recognises each format
by its files (`run.json`, `config.json` beside `progress.csv`, a Parquet table). It returns plain
values: one `RunLog` for each run, its progress as named columns. It writes nothing.

Each label stands for one configuration. If two runs of one algorithm differ in a setting on the
same task (a sweep over β), the setting becomes part of their label. A setting that differs only
between tasks (a batch size for each task) does not. Nor does a value that most runs have (an
ablation changes one setting at a time). The name of a preset replaces all its settings; the folder
of a suite can be part of a label, too. Beside runs of other libraries the label of ours contains
our name. Runs that their authors withdrew are marked.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from holdfast.files import MALFORMED, read_json, reason
from holdfast.records.formats import read_foreign, read_parquet, read_run
from holdfast.records.log import PUBLISHED_LIMIT, RunLog, Scalar, complete

# Logging and placement settings: they do not change what was run.
UNNAMED = frozenset(
    "seed env task epochs total_steps env_steps threads device folder path log_dir out "
    "save_every keep workers vectorise evaluate_every evaluate_episodes sinks wandb "
    "write_terminal use_eval experiment variant".split()
)
TABLES = ("versions.", "limits.", "env_args.")
"""Settings with free keys and no defaults."""
LENGTH = "steps"
"""Part of a label within a suite only: the final phase and the decay of learning rates depend on
the length of a run. Single runs are compared at their common steps, and for each seed the longest
is used.
"""


Defaults = Callable[[str], Mapping[str, Scalar]]
"""Algorithm → defaults of settings that runs of earlier versions do not record."""


def load(
    paths: Iterable[str | Path],
    cost_limit: float = PUBLISHED_LIMIT,
    defaults: Defaults = lambda algorithm: {},
) -> tuple[tuple[RunLog, ...], tuple[str, ...]]:
    """All runs under `paths` with labels, and a message for each folder without a readable run.

    `cost_limit` is used for files without a limit (tables of published results). `defaults` are
    used only for runs of several versions; `holdfast.report.load_runs` passes them.
    """
    runs: list[RunLog] = []
    skipped: list[str] = []
    for path in map(Path, paths):
        if not path.exists():
            raise ValueError(f"'{path}' does not exist: pass run folders, their parents or tables.")
        skipped.extend(not_started(path))
        for found in _discover(path):
            try:
                runs.extend(_read(found, cost_limit))
            except (OSError, *MALFORMED) as error:
                skipped.append(f"{found}: {reason(error)}")
    runs = _without_duplicates(_with_defaults(runs, defaults), skipped)
    return labelled(runs), tuple(skipped)


def _with_defaults(runs: Sequence[RunLog], defaults: Defaults) -> list[RunLog]:
    """Our runs; those of earlier versions get the settings that other runs of the algorithm
    record.
    """
    named: dict[str, set[str]] = {}
    for run in runs:
        if run.source == "holdfast":
            settings = {key for key in run.config if not key.startswith(TABLES)}
            named.setdefault(run.algorithm, set()).update(settings)
    known: dict[str, Mapping[str, Scalar]] = {}
    result: list[RunLog] = []
    for run in runs:
        lacks = named.get(run.algorithm, set()) - run.config.keys()
        if run.source == "holdfast" and lacks:
            if run.algorithm not in known:
                known[run.algorithm] = defaults(run.algorithm)
            since = {k: v for k, v in known[run.algorithm].items() if k in lacks}
            run = replace(run, config=since | dict(run.config))
        result.append(run)
    return result


def labelled(runs: Sequence[RunLog]) -> tuple[RunLog, ...]:
    """Give each run the shortest label that distinguishes all settings, suites and sources."""
    names: dict[str, list[RunLog]] = {}
    for run in runs:
        names.setdefault(run.algorithm, []).append(run)
    mixed = len({run.source for run in runs}) > 1
    result: list[RunLog] = []
    for name, members in names.items():
        sources = {run.source for run in members}
        presets = {(run.source, run.config.get("preset")) for run in members}
        alike: dict[tuple[str, Scalar, str, bool], list[RunLog]] = {}
        for run in members:
            origin = run.source, run.config.get("preset"), suite(run), withdrawn(run)
            alike.setdefault(origin, []).append(run)
        parted: dict[tuple[str, ...], list[RunLog]] = {}
        for (source, preset, _, gone), few in alike.items():
            parts = [source] if len(sources) > 1 and source != "holdfast" else []
            parts += ["Holdfast"] if mixed and source == "holdfast" else []
            parts += ["withdrawn"] if gone else []
            # The name of a preset replaces its settings.
            parts += [str(preset)] if preset and len(presets) > len(sources) else []
            varying = [key for key in _varying(few) if key != LENGTH or suite(few[0])]
            usual = _usual(few, varying)
            for run in few:
                values = [
                    _named(key, run.config.get(key))
                    for key in varying
                    if (key, run.config.get(key)) not in usual
                ]
                parted.setdefault((*parts, *values), []).append(run)
        for parts, few in parted.items():
            several = len({suite(run) for run in few}) > 1
            for run in few:
                words = [*parts, *([suite(run)] if several and suite(run) else [])]
                result.append(replace(run, label=f"{name} ({', '.join(words)})" if words else name))
    return tuple(result)


def suite(run: RunLog) -> str:
    """Folder name of a run's suite; empty for a single run."""
    folder = Path(run.path).parent
    return folder.name if run.source == "holdfast" and (folder / "suite.json").is_file() else ""


def withdrawn(run: RunLog) -> bool:
    """Whether its authors withdrew it: marked in the column `experiment` of a published table."""
    return run.config.get("experiment") == "withdrawn"


def _varying(runs: Sequence[RunLog]) -> list[str]:
    """Settings with several values on the same task."""
    seen: dict[tuple[str, str], set[Scalar]] = {}
    keys = sorted({key for run in runs for key in run.config if _names_a_setting(key)})
    for run in runs:
        for key in keys:
            seen.setdefault((run.task, key), set()).add(run.config.get(key))
    return [key for key in keys if any(len(seen[t, key]) > 1 for t in {run.task for run in runs})]


def _usual(runs: Sequence[RunLog], keys: Sequence[str]) -> set[tuple[str, Scalar]]:
    """Settings with the value of more than half of all combinations, if there are at least
    three.
    """
    combinations = {tuple((key, run.config.get(key)) for key in keys) for run in runs}
    count = Counter(pair for combination in combinations for pair in combination)
    return {pair for pair, n in count.items() if 2 * n > len(combinations) > 2}


def _names_a_setting(key: str) -> bool:
    return key.rsplit(".", 1)[-1] not in UNNAMED and not key.startswith(
        ("logger_cfgs.", "versions.")
    )


def _named(key: str, value: Scalar) -> str:
    """A setting in a label; a missing limit is "not limited" instead of None."""
    name = key.rsplit(".", 1)[-1]
    missing = value is None and "limits" in key.split(".")[:-1]
    return f"{name} not limited" if missing else f"{name}={_short(value)}"


def _short(value: Scalar) -> str:
    if isinstance(value, int) and value >= 100_000 and value % 100_000 == 0:
        return f"{value / 1e6:g}M"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _without_duplicates(runs: Sequence[RunLog], skipped: list[str]) -> list[RunLog]:
    """Keep the longest of a suite's runs with equal settings and seed; list the others in
    `skipped`. Equal runs of two suites are all kept: their labels differ.
    """
    best: dict[tuple[object, ...], RunLog] = {}
    for run in runs:
        settings = {k: v for k, v in run.config.items() if _names_a_setting(k)}
        if not suite(run):
            settings.pop(LENGTH, None)
        settings |= {"withdrawn": withdrawn(run)}
        spelt = json.dumps(settings, sort_keys=True)
        key = (run.source, suite(run), run.algorithm, run.task, run.seed, spelt)
        rival = best.get(key)
        if rival is None or (run.done, run.steps) > (rival.done, rival.steps):
            run, rival = rival, run
            best[key] = rival
        if run is not None:
            skipped.append(
                f"{run.path}: same settings and seed as {best[key].path}, which got further"
            )
    return list(best.values())


def _discover(path: Path) -> Iterator[Path]:
    if path.is_file() or any((path / name).exists() for name in ("run.json", "progress.csv")):
        yield path
    else:
        for child in sorted(path.iterdir()):
            if child.is_dir() and not child.name.startswith("."):
                yield from _discover(child)
            elif child.suffix == ".parquet":
                yield child


def not_started(path: Path) -> list[str]:
    """Cells of the suites here that have no files yet."""
    if not path.is_dir() or (path / "run.json").exists():
        return []
    file, found = path / "suite.json", list[str]()
    if file.is_file():
        names: Any = read_json(file).get("cells", ())
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise ValueError(
                f"'{file}' does not list cells; remove it, and `holdfast bench` writes it again."
            )
        # A name is one of a folder here: no path leads elsewhere.
        inside = [n for n in names if Path(n).name == n and len(n) < 250 and n.isprintable()]
        found = [f"{n}: not started" for n in inside if not (path / n / "run.json").exists()]
    for child in sorted(path.iterdir()):
        if child.is_dir() and not child.name.startswith("."):
            found += not_started(child)
    return found


def _read(path: Path, cost_limit: float) -> list[RunLog]:
    if path.suffix == ".parquet":
        return [complete(run) for run in read_parquet(path, cost_limit)]
    if path.is_file():
        raise ValueError("not a run folder and not a .parquet table")
    return [complete(read_run(path) if (path / "run.json").exists() else read_foreign(path))]
