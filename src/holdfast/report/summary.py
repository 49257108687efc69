# SPDX-License-Identifier: Apache-2.0
"""All results of a report as values: computed once, shown by the page, figures and tables."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np

from holdfast.records import statistics as stats
from holdfast.records.find import suite, withdrawn
from holdfast.records.log import RunLog
from holdfast.records.statistics import Array, Estimate, Profile
from holdfast.report.finals import (
    Final,
    Pair,
    Units,
    UnitsName,
    ends,
    finals,
    horizons,
    marks,
    missing_units,
    units,
)
from holdfast.report.holding import LimitMeasures, limit_measures, predicted_vs_realised

LayoutName = Literal["holdfast", "paper"]
"""Layout of figures and tables: three groups by the interval of the final cost, or as in the
paper.
"""
METRICS = ("excess", "reward", "regret")
TABLE = ("reward", "cost", "regret")
"""Of each pair; pages and groups also use the excess."""


@dataclass(frozen=True)
class Timing:
    """Medians over the runs of a pair: seconds per epoch, steps per second, hours per run."""

    rollout: float
    update: float
    speed: float
    hours: float


@dataclass(frozen=True)
class End:
    """Values of longer runs at their own end."""

    finals: Mapping[Pair, Final]
    estimates: Mapping[Pair, Mapping[str, Estimate]]
    bold: frozenset[Pair]
    boxed: frozenset[Pair]


@dataclass(frozen=True)
class Summary:
    labels: tuple[str, ...]
    tasks: tuple[str, ...]
    runs: tuple[RunLog, ...]
    horizon: Mapping[str, int]
    finals: Mapping[Pair, Final]
    units: Mapping[str, Units]
    estimates: Mapping[Pair, Mapping[str, Estimate]]
    """Per pair the IQM over seeds of reward, cost, regret, with 95 % bootstrap intervals."""
    ends: Mapping[int, End]
    """Steps beyond the horizon → values of runs of that length; marks are within it."""
    aggregate: Mapping[str, Mapping[str, Estimate]]
    """Per label with results on all tasks: IQM of normalised excess, reward, regret."""
    limit_at: float
    """The limit in printed normalised costs: 0 (cost / limit − 1), 1 (cost / limit)."""
    safe: tuple[str, ...]
    partly: Mapping[str, tuple[str, ...]]
    """Label whose aggregate is safe → the tasks on which its final cost is above the limit."""
    undecided: tuple[str, ...]
    unsafe: tuple[str, ...]
    partial: tuple[str, ...]
    """Labels left out of the aggregates: they lack results on some task, or were withdrawn."""
    withdrawn: tuple[str, ...]
    """Labels of runs that their authors withdrew: listed, but not compared."""
    bold: frozenset[Pair]
    boxed: frozenset[Pair]
    profiles: Mapping[str, Mapping[str, Profile]]
    limit_measures: Mapping[Pair, LimitMeasures]
    """Measures of how each pair kept its limit while learning, and of its worst seed."""
    predicted_vs_realised: Mapping[Pair, Sequence[tuple[float, float]]]
    """Predicted and realised cost changes, of pairs that predict."""
    timing: Mapping[Pair, Timing]
    incomplete: tuple[str, ...]
    skipped: tuple[str, ...]
    """Files and folders that were not used, and why."""
    waiting: tuple[str, ...]
    """Cells of suites that have not been started."""
    layout: LayoutName = "holdfast"
    """How figures and tables group methods."""

    @property
    def missing_units(self) -> tuple[str, ...]:
        """A message for each missing normaliser of the paper."""
        return missing_units({task: self.units[task] for task in self.compared})

    @property
    def compared(self) -> tuple[str, ...]:
        """Tasks with a complete run."""
        return tuple(task for task in self.tasks if any(task == t for _, t in self.finals))

    @property
    def without_history(self) -> list[str]:
        """Runs with a policy but no epoch of its training."""
        return [_spelt(run) for run in self.runs if _empty(run) and _has_policy(run)]

    @property
    def without_epoch(self) -> list[str]:
        """Runs that stopped, or are still running, before the end of their first epoch."""
        return [_spelt(run) for run in self.runs if _empty(run) and not _has_policy(run)]

    @property
    def groups(self) -> dict[str, tuple[str, ...]]:
        """Title → methods, grouped by their final costs; safest first.

        In the paper's layout there are two groups, by the sign of the final cost, each sorted by
        return.
        """
        if self.layout == "paper":
            found = sorted(self.aggregate, key=lambda n: -self.aggregate[n]["reward"].value)
            safe = tuple(n for n in found if self.aggregate[n]["excess"].value <= 0.0)
            return {"safe": safe, "unsafe": tuple(n for n in found if n not in safe)}
        return {
            "probably safe": self.safe,
            "safe on some tasks": tuple(self.partly),
            "undecided": self.undecided,
            "probably unsafe": self.unsafe,
        }


def summarise(
    runs: Sequence[RunLog],
    skipped: Sequence[str] = (),
    waiting: Sequence[str] = (),
    *,
    steps: int | None = None,
    resamples: int = 50_000,
    of: UnitsName = "paper",
    layout: LayoutName = "holdfast",
) -> Summary:
    """Compare `runs` at equal steps; `finals` documents the selection of runs."""
    if not runs:
        raise ValueError("no runs found: pass folders with run.json or progress.csv files.")
    labels, tasks = _ordered(runs), tuple(sorted({run.task for run in runs}))
    horizon = horizons(runs, steps)
    final = finals(runs, horizon)
    gone = {run.label for run in runs if withdrawn(run)}
    stands = {pair: values for pair, values in final.items() if pair[0] not in gone}
    unit = {task: units(stands, task, of) for task in tasks}
    whole = [label for label in labels if all((label, task) in stands for task in tasks)]
    scores = {label: normalised(final, unit, label, tasks) for label in whole}
    aggregate = {
        label: {m: stats.bootstrap(scores[label][m], resamples=resamples) for m in METRICS}
        for label in whole
    }
    seeds = {label: min(len(final[label, task].seeds) for task in tasks) for label in whole}
    excess = {label: aggregate[label]["excess"] for label in whole}
    within, undecided, unsafe = stats.group_by_safety(excess, seeds)
    above = {label: above_limit(final, label, tasks) for label in within}
    bold, boxed = marks(stands, tasks)
    return Summary(
        labels=labels,
        tasks=tasks,
        runs=tuple(runs),
        horizon=horizon,
        finals=final,
        units=unit,
        estimates={pair: _estimates(values) for pair, values in final.items()},
        ends={steps: _end(values, tasks, gone) for steps, values in ends(runs, horizon).items()},
        aggregate=aggregate,
        limit_at=1.0 if of == "ablation" else 0.0,
        safe=tuple(label for label in within if not above[label]),
        partly={label: where for label, where in above.items() if where},
        undecided=tuple(undecided),
        unsafe=tuple(unsafe),
        partial=tuple(label for label in labels if label not in whole),
        withdrawn=tuple(label for label in labels if label in gone),
        bold=frozenset(bold),
        boxed=frozenset(boxed),
        profiles={m: _profiles(scores, m) for m in ("reward", "regret")},
        limit_measures=limit_measures(runs, horizon, final),
        predicted_vs_realised=predicted_vs_realised(runs, horizon),
        timing=_timings(runs),
        incomplete=_incomplete(runs, horizon, final),
        skipped=tuple(skipped),
        waiting=tuple(waiting),
        layout=layout,
    )


def printed(summary: Summary, label: str, metric: str) -> Estimate:
    """An aggregate for figures and tables: costs centred or not, by the units."""
    e, shift = summary.aggregate[label][metric], summary.limit_at if metric == "excess" else 0.0
    return replace(e, value=e.value + shift, low=e.low + shift, high=e.high + shift)


def normalised(
    final: Mapping[Pair, Final], unit: Mapping[str, Units], label: str, tasks: Sequence[str]
) -> dict[str, list[Array]]:
    """Per metric one array of normalised run scores for each task."""
    both = [(final[label, task], unit[task]) for task in tasks]
    return {
        "excess": [values.excess for values, _ in both],
        "reward": [stats.normalise(values.reward, by.reward) for values, by in both],
        "regret": [stats.normalise(values.regret, by.regret) for values, by in both],
    }


def above_limit(final: Mapping[Pair, Final], label: str, tasks: Sequence[str]) -> tuple[str, ...]:
    """Tasks on which the IQM of the final cost is above the limit."""
    return tuple(task for task in tasks if stats.iqm(final[label, task].excess) > 0)


def _empty(run: RunLog) -> bool:
    return not run.columns["env_steps"].size


def _has_policy(run: RunLog) -> bool:
    return run.done or (Path(run.path) / "checkpoint").exists()


def _spelt(run: RunLog) -> str:
    return f"{run.label} on {run.task}, seed {run.seed}"


def _ordered(runs: Sequence[RunLog]) -> tuple[str, ...]:
    """C-TRPO and its variants first, the others by name, unconstrained PPO last."""
    plain = lambda label: label.lower().replace("-", "").replace("_", "")
    rank = lambda label: (plain(label).split(" ")[0] == "ppo", not plain(label).startswith("ctrpo"))
    return tuple(sorted({run.label for run in runs}, key=lambda label: (*rank(label), label)))


def _end(values: Mapping[Pair, Final], tasks: Sequence[str], gone: set[str]) -> End:
    estimates = {pair: _estimates(final) for pair, final in values.items()}
    stands = {pair: final for pair, final in values.items() if pair[0] not in gone}
    return End(values, estimates, *map(frozenset, marks(stands, tasks)))


def short_steps(steps: int) -> str:
    """10000000 -> 10M"""
    size, unit = (1e6, "M") if steps >= 1_000_000 else (1e3, "k") if steps >= 10_000 else (1, "")
    return f"{steps / size:g}{unit}"


def _estimates(final: Final) -> dict[str, Estimate]:
    return {m: stats.bootstrap([getattr(final, m)], resamples=10_000) for m in (*TABLE, "excess")}


def _profiles(scores: Mapping[str, Mapping[str, list[Array]]], metric: str) -> dict[str, Profile]:
    pooled = [np.concatenate(each[metric]) for each in scores.values()]
    if not pooled:
        return {}
    # Thresholds up to what nine of ten runs reach: single wild runs must not squeeze the axis.
    top = float(np.percentile(np.concatenate(pooled), 90 if metric == "reward" else 80))
    low = min(0.0, float(np.percentile(np.concatenate(pooled), 2)))
    taus = np.linspace(low, max(top, low + 1e-6) * 1.1, 81)
    return {label: stats.performance_profile(each[metric], taus) for label, each in scores.items()}


def _timings(runs: Sequence[RunLog]) -> dict[Pair, Timing]:
    rows: dict[Pair, list[tuple[float, float, float, float]]] = {}
    for run in runs:
        columns, nothing = run.columns, np.full(run.columns["env_steps"].size, np.nan)
        if not nothing.size:
            continue
        rollout = columns.get("time_rollout", nothing)
        update = columns.get("time_update", nothing)
        total = columns.get("time_total", rollout + update)
        taken = np.diff(columns["env_steps"], prepend=0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            speed = columns.get("steps_per_second", taken / total)
        # Start-up (compilation) is part of the hours, not of the typical epoch.
        row = (_median(rollout), _median(update), _median(speed), float(np.nansum(total)) / 3600)
        rows.setdefault((run.label, run.task), []).append(row)
    return {pair: Timing(*map(_median, map(np.array, zip(*r)))) for pair, r in rows.items()}  # noqa: B905


def _median(values: Array) -> float:
    """The median of finite values: a speed over no time is not a measurement."""
    finite = values[np.isfinite(values)]
    return float(np.median(finite)) if finite.size else float("nan")


def _incomplete(
    runs: Sequence[RunLog], horizon: Mapping[str, int], final: Mapping[Pair, Final]
) -> tuple[str, ...]:
    """A message for each run that is missing, unfinished or not finite."""
    lines: list[str] = []
    have: dict[tuple[str, str, int], RunLog] = {(r.label, r.task, r.seed): r for r in runs}
    for (label, task, seed), run in sorted(have.items(), key=lambda item: item[0]):
        counted = (label, task) in final and seed in final[label, task].seeds
        name = f"{label} / {task} / seed {seed}"
        if _empty(run) and _has_policy(run):
            lines.append(f"{name}: without history, so it cannot be drawn or compared")
        elif _empty(run):
            lines.append(f"{name}: stopped or still running before its first epoch was complete")
        elif not run.done:
            of = f" of {run.budget:,}" if run.budget else ""
            lines.append(f"{name}: unfinished, {run.steps:,}{of} steps")
        elif not counted and run.steps < horizon[task]:
            lines.append(f"{name}: {run.steps:,} steps, compared are {horizon[task]:,}")
        elif not counted:
            lines.append(f"{name}: its final values are not finite")
    # A suite names its cells: those that are missing are known, and need not be guessed from seeds.
    alone = [run for run in runs if not suite(run)]
    for source in sorted({run.source for run in alone}):
        members = [run for run in alone if run.source == source]
        seeds = sorted({run.seed for run in members})
        for label, task in sorted({(run.label, run.task) for run in members}):
            missing = [str(s) for s in seeds if (label, task, s) not in have]
            if missing:
                lines.append(f"{label} / {task}: no run with seed {', '.join(missing)}")
    return tuple(lines)
