# SPDX-License-Identifier: Apache-2.0
"""From runs to comparable numbers: final values at equal steps, in common units.

Runs are compared at the same number of environment steps on each task: the largest that every
finished run has reached, or the caller's number. A shorter run is listed as incomplete and left
out. Longer runs have a second final value, at their own end, which is compared with those of the
same length only.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from holdfast.core.limits import Limit, parse_limit
from holdfast.records import statistics as stats
from holdfast.records.log import RunLog
from holdfast.records.statistics import Array

Pair = tuple[str, str]
"""(label, task)"""


@dataclass(frozen=True)
class Final:
    """Values of the complete runs of one pair at the task's horizon; all [runs]."""

    limit: float
    seeds: tuple[int, ...]
    reward: Array
    cost: Array
    excess: Array
    """Worst constraint's quantity / bound − 1, by the kind of its limit; of a mean cost / limit."""
    regret: Array
    by_mean: bool = True
    """Whether all limits are on means."""


@dataclass(frozen=True)
class Units:
    """Divisors of return and regret on one task, and the method they come from."""

    reward: float
    regret: float
    reward_by: str
    regret_by: str


def cost_curve(run: RunLog) -> tuple[Array, float]:
    """(cost per epoch, its limit); for several constraints the largest cost/limit, with limit 1."""
    limits = np.array(list(run.limits.values()))
    if limits.size == 1:
        return run.columns["ep_cost"], float(limits[0])
    costs = run.costs()
    if costs.shape[-1] != limits.size:  # only the sum was logged
        return run.columns["ep_cost"], float(limits.sum())
    return stats.excess_cost(costs, limits) + 1.0, 1.0


def claims(run: RunLog) -> dict[str, Limit]:
    """The limit of each constraint; on the mean where neither tail nor chance was logged."""
    found = {name: Limit(b) for name, b in run.limits.items()}
    for name in found if run.source == "holdfast" else ():
        try:
            claim = parse_limit(run.config.get(f"limits.{name}", found[name]))
        except ValueError:  # the settings of a run that was not written here
            continue
        if _column(run, claim, name) is not None:
            found[name] = claim
    return found


def _column(run: RunLog, claim: Limit, name: str) -> Array | None:
    """The tail or the chance of a constraint; None where the limit is on its mean."""
    column = f"{claim.kind}/{name}" if len(run.limits) > 1 else claim.kind
    return run.columns.get(column) if claim.kind in ("tail", "chance") else None


def limited_curve(run: RunLog) -> tuple[Array, float]:
    """(what is limited, per epoch, and its bound): as `cost_curve`, but by the kinds of the limits.

    It is the tail or the chance where the limit is on that. Several constraints show the worst
    quantity/bound against 1.
    """
    known = claims(run)
    if all(claim.kind == "mean" for claim in known.values()):
        return cost_curve(run)
    each: list[Array] = []
    for name, claim in known.items():
        limited = _column(run, claim, name)
        mean = run.columns.get(f"ep_cost/{name}", run.columns["ep_cost"])
        each.append(mean if limited is None else limited)
    bounds = np.array([claim.bound for claim in known.values()])
    if len(each) == 1:
        return each[0], float(bounds[0])
    return stats.excess_cost(np.stack(each, axis=-1), bounds) + 1.0, 1.0


def regret_column(runs: Sequence[RunLog]) -> str:
    """The column of regret common to all runs: of the raw costs, if every run has logged it.

    Published logs contain smoothed costs only. All runs use the same kind, as the two are not
    comparable.
    """
    raw = all("cost_regret_raw" in run.columns for run in runs if run.steps > 0)
    return "cost_regret_raw" if raw else "cost_regret"


def horizons(runs: Sequence[RunLog], steps: int | None = None) -> dict[str, int]:
    """Steps at which the runs of each task are compared; `steps` replaces them if it is reached."""
    found: dict[str, int] = {}
    for task in {run.task for run in runs}:
        members = [run for run in runs if run.task == task and run.steps > 0]
        finished = [run.steps for run in members if run.done]
        reached = finished or [run.steps for run in members] or [0]
        found[task] = min(reached) if steps is None else min(steps, max(reached))
    return found


def ends(runs: Sequence[RunLog], horizon: Mapping[str, int]) -> dict[int, dict[Pair, Final]]:
    """Steps → final values of the pairs whose finished runs end there, beyond the horizon."""
    further = [run for run in runs if run.done and 0 < horizon[run.task] < run.steps]
    found: dict[int, dict[Pair, Final]] = {}
    regret = regret_column(runs)
    for steps in sorted({run.steps for run in further}):
        there = [run for run in further if run.steps == steps]
        found[steps] = finals(there, {run.task: steps for run in there}, regret)
    return {steps: values for steps, values in found.items() if values}


def finals(
    runs: Sequence[RunLog], horizon: Mapping[str, int], regret: str | None = None
) -> dict[Pair, Final]:
    """Final values of every pair that has a complete run; `regret` is the column to take."""
    rows: dict[Pair, list[tuple[int, float, float, float, float]]] = {}
    limits: dict[Pair, float] = {}
    beyond: set[Pair] = set()
    regret = regret or regret_column(runs)
    for run in sorted(runs, key=lambda run: run.seed):
        if 0 < horizon[run.task] <= run.steps:
            at = int(np.searchsorted(run.columns["env_steps"], horizon[run.task], "right")) - 1
            cost, limit = cost_curve(run)
            limited, bound = limited_curve(run)
            row = (
                float(run.columns["ep_return"][at]),
                float(cost[at]),
                float(stats.excess_cost(limited[at], bound)),
                float(run.columns[regret][at]),
            )
            if np.isfinite(row).all():
                rows.setdefault((run.label, run.task), []).append((run.seed, *row))
                limits[run.label, run.task] = limit
                if any(claim.kind != "mean" for claim in claims(run).values()):
                    beyond.add((run.label, run.task))
    result: dict[Pair, Final] = {}
    for pair, values in rows.items():
        seeds, *columns = zip(*values, strict=True)
        arrays = [np.array(column) for column in columns]
        result[pair] = Final(
            limits[pair], tuple(map(int, seeds)), *arrays, by_mean=pair not in beyond
        )
    return result


UnitsName = Literal["paper", "ablation"]
"""Units of the paper's benchmark figure, or of its ablation figure."""


def units(values: Mapping[Pair, Final], task: str, of: UnitsName = "paper") -> Units:
    """Returns in units of PPO's mean and regrets in units of CPO's IQM, or mean, as in the paper.

    If one is missing or zero, the unit is the largest value on the task among all algorithms.
    """
    here = {label: final for (label, where), final in values.items() if where == task}
    reward = {label: float(abs(final.reward.mean())) for label, final in here.items()}
    middle = stats.iqm if of == "paper" else np.mean
    regret = {label: float(middle(final.regret)) for label, final in here.items()}
    by_reward = _baseline(reward, BASELINES["reward"])
    by_regret = _baseline(regret, BASELINES["regret"])
    return Units(
        reward=reward.get(by_reward) or 1.0,
        regret=regret.get(by_regret) or 1.0,
        reward_by=by_reward,
        regret_by=by_regret,
    )


BASELINES = {"reward": "ppo", "regret": "cpo"}
"""The methods whose return and regret are 1 in the paper."""


def missing_units(unit: Mapping[str, Units]) -> tuple[str, ...]:
    """A message for each normaliser of the paper that is missing on some tasks."""
    lines: list[str] = []
    for metric, words in (("reward", "returns"), ("regret", "regrets")):
        name = BASELINES[metric]
        used = {task: getattr(by, f"{metric}_by") for task, by in unit.items()}
        lacking = {task: by for task, by in used.items() if not _is_of(by, name)}
        if lacking:
            instead = ", ".join(sorted(set(lacking.values()))) or "nothing"
            lines.append(
                f"{name.upper()}, the paper's unit of {words}, has no finished run or only zeros "
                f"on {', '.join(sorted(lacking))}: {words} there are in units of the largest "
                f"({instead}) and cannot be compared with the paper's; add runs of {name}."
            )
    return tuple(lines)


def _is_of(label: str, name: str) -> bool:
    return label.split(" (")[0].lower() == name


def _baseline(sizes: Mapping[str, float], name: str) -> str:
    for label, size in sizes.items():
        if _is_of(label, name) and size > 0:
            return label
    return max(sizes, key=lambda label: sizes[label], default="")


def marks(values: Mapping[Pair, Final], tasks: Sequence[str]) -> tuple[set[Pair], set[Pair]]:
    """(bold, boxed): the highest return and the lowest regret of each task, among safe pairs only.

    Safe: the IQM of the cost, as printed with one decimal, lies below the limit; where the limit is
    on a tail or a chance, the IQM of that does.
    """
    bold: set[Pair] = set()
    boxed: set[Pair] = set()
    for task in tasks:
        safe = {pair: final for pair, final in values.items() if pair[1] == task and _below(final)}
        if not safe:
            continue
        best = max(_printed(final.reward) for final in safe.values())
        least = min(_printed(final.regret) for final in safe.values())
        bold |= {pair for pair, final in safe.items() if _printed(final.reward) == best}
        boxed |= {pair for pair, final in safe.items() if _printed(final.regret) == least}
    return bold, boxed


def _below(final: Final) -> bool:
    if not final.by_mean:
        return float(stats.iqm(final.excess)) < 0
    digits = 1 if final.limit > 1.0 else 3
    return round(float(stats.iqm(final.cost)), digits) < final.limit


def _printed(values: Array) -> float:
    return round(float(stats.iqm(values)), 1)
