# SPDX-License-Identifier: Apache-2.0
"""Measures of how each method kept its limit while it learned, and of its worst seed.

Costs are the raw ones of each epoch if every run has logged them, otherwise the smoothed ones, as
for the regret. All measures are up to the task's horizon, and means over seeds unless stated
otherwise.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from holdfast.records.evaluations import Acting, read_evaluation, read_violations
from holdfast.records.excursions import calibration, growth, mean_excursion, safe_from, violations
from holdfast.records.log import RunLog
from holdfast.records.statistics import Array
from holdfast.report.finals import Final, Pair, limited_curve, regret_column


@dataclass(frozen=True)
class LimitMeasures:
    """Measures of one pair; NaN if not logged."""

    excursions: float
    length: float
    """Epochs of one excursion."""
    area: float
    """Cost above the limit, summed over one excursion."""
    growth: float
    """Median over seeds of p in regret ∝ steps^p; below 1 the regret is sublinear."""
    rate: float
    """Share of epochs above the limit."""
    distance: float
    """Mean of cost / limit − 1."""
    distance_violating: float
    """The same over all epochs above the limit, of all seeds; NaN if there is none."""
    first_safe: float
    """Steps to the first epoch within the limit; the largest over seeds."""
    safe_for_good: float
    """Steps after which no epoch is above it; the largest over seeds, NaN if one never reaches
    it.
    """
    realised: float
    """Median over seeds of realised per predicted change of the cost."""
    sampled_rate: float
    """Share of fresh episodes of the final policy above a limit, with sampled actions; so are the
    next.
    """
    sampled_distance: float
    sampled_violating: float
    greedy_rate: float
    """The same with the most likely actions."""
    greedy_distance: float
    greedy_violating: float
    worst_return: float
    worst_cost: float
    worst_regret: float
    mean: float
    """For a limit on a tail or a chance: the final mean cost, as in the final table."""
    tail: float
    """The last estimate of a limited tail mean; with several constraints the largest, in units of
    its limit. NaN without a limit on a tail.
    """
    chance: float
    """The last estimate of a limited chance; NaN without a limit on a chance."""
    sampled_tail: float
    """Mean cost of the worst 5 % of fresh episodes, for a limit on a tail or a chance."""


POINTS = 160
"""Largest number of points on the page for one pair."""


def predicted_vs_realised(
    runs: Sequence[RunLog], horizon: Mapping[str, int]
) -> dict[Pair, list[tuple[float, float]]]:
    """Pairs of methods that predict → (predicted, realised) cost changes of updates, thinned."""
    found: dict[Pair, list[tuple[float, float]]] = {}
    for run in runs:
        columns = run.until(horizon[run.task]).columns
        if "spent" in columns and "realised" in columns:
            both = np.stack([columns["spent"][:-1], columns["realised"][1:]], axis=-1)
            known = both[np.isfinite(both).all(-1)]
            found.setdefault((run.label, run.task), []).extend(
                (float(p), float(r)) for p, r in known
            )
    return {pair: rows[:: -(-len(rows) // POINTS)] for pair, rows in found.items() if rows}


def limit_measures(
    runs: Sequence[RunLog], horizon: Mapping[str, int], finals: Mapping[Pair, Final]
) -> dict[Pair, LimitMeasures]:
    """The measures of every pair with final values."""
    raw = regret_column(runs) == "cost_regret_raw"
    members: dict[Pair, list[RunLog]] = {}
    for run in runs:
        pair = run.label, run.task
        if pair in finals and run.seed in finals[pair].seeds:
            members.setdefault(pair, []).append(run.until(horizon[run.task]))
    return {pair: _measures(each, finals[pair], raw) for pair, each in members.items()}


def costs(run: RunLog, raw: bool) -> tuple[Array, float]:
    """(what is limited, per epoch, and its bound), of each epoch's own episodes if `raw`."""
    if raw:
        fresh = {
            n.replace("_raw", ""): c for n, c in run.columns.items() if n.startswith("ep_cost_raw")
        }
        run = replace(run, columns=dict(run.columns) | fresh)
    return limited_curve(run)


def _measures(runs: Sequence[RunLog], final: Final, raw: bool) -> LimitMeasures:
    rows: list[list[float]] = []
    for run in runs:
        cost, limit = costs(run, raw)
        steps, columns = run.columns["env_steps"], run.columns
        regret = columns["cost_regret_raw" if raw else "cost_regret"]
        out, how = mean_excursion(cost, limit), violations(cost, limit)
        slope = float("nan")
        if "spent" in columns and "realised" in columns:
            slope = calibration(columns["spent"][:-1], columns["realised"][1:])
        rows.append(
            [
                *(out.number, out.length, out.area, growth(steps, regret)),
                *(how.rate, how.distance, how.distance_violating),
                *(*safe_from(steps, cost, limit), slope),
            ]
        )
    table = np.array(rows).T
    number, length, area, power, rate, away, beyond, first, good, slopes = table
    return LimitMeasures(
        excursions=float(number.mean()),
        length=_weighted(length, number),
        area=_weighted(area, number),
        growth=_median(power),
        rate=float(rate.mean()),
        distance=float(away.mean()),
        distance_violating=_pooled(beyond, rate * [run.columns["env_steps"].size for run in runs]),
        first_safe=float(first.max()),
        safe_for_good=float(good.max()),
        realised=_median(slopes),
        **_evaluated(runs, "sampled"),
        **_evaluated(runs, "greedy"),
        worst_return=float(final.reward.min()),
        worst_cost=float(final.cost.max()),
        worst_regret=float(final.regret.max()),
        **_beyond(runs, final),
    )


def _beyond(runs: Sequence[RunLog], final: Final) -> dict[str, float]:
    """Estimates for limits beyond the mean; means over seeds, NaN without such limits."""
    tails, chances = (np.array([_last(run, kind) for run in runs]) for kind in ("tail", "chance"))
    known = lambda values: float(np.nanmean(values)) if np.isfinite(values).any() else float("nan")
    if not np.isfinite([tails, chances]).any():
        return dict.fromkeys(("mean", "tail", "chance", "sampled_tail"), float("nan"))
    worst = np.array([_worst_5(run) for run in runs])
    means = {"mean": float(final.cost.mean()), "tail": known(tails), "chance": known(chances)}
    return means | {"sampled_tail": known(worst)}


def _last(run: RunLog, kind: str) -> float:
    """The last value of the columns `tail` or `chance`; with several constraints the largest."""
    several = len(run.limits) > 1
    found: list[float] = []
    for name, limit in run.limits.items():
        column = run.columns.get(f"{kind}/{name}" if several else kind)
        if column is not None and column.size:
            unit = limit if several and kind == "tail" and limit > 0 else 1.0
            found.append(float(column[-1]) / unit)
    return max(found, default=float("nan"))


def _worst_5(run: RunLog) -> float:
    """Mean cost of the worst 5 % of the episodes that `holdfast evaluate --save` stored."""
    kept = read_evaluation(Path(run.path), "sampled", _epoch(run))
    costs = [] if kept is None else [c for c in kept["cost"].values() if "worst_5" in c]
    unit = lambda cost: float(cost["limit"]) if len(costs) > 1 and cost["limit"] else 1.0
    worst = [float(cost["worst_5"]) / unit(cost) for cost in costs]
    return max(worst, default=float("nan"))


def _epoch(run: RunLog) -> int:
    """The number of the last epoch; -1 if it is not logged."""
    last = run.columns.get("epoch", np.zeros(0))
    return int(last[-1]) if last.size and np.isfinite(last[-1]) else -1


def _evaluated(runs: Sequence[RunLog], acting: Acting) -> dict[str, float]:
    """Means over the seeds whose final policy was evaluated, of the worst constraint.

    Distances above the limit are weighted by each seed's share of episodes above it.
    """
    names = (f"{acting}_rate", f"{acting}_distance", f"{acting}_violating")
    rows: list[tuple[float, float, float]] = []
    for run in runs:
        if _epoch(run) >= 0:
            rows += filter(None, [read_violations(Path(run.path), acting, _epoch(run))])
    rate, distance, violating = np.array(rows or np.full((1, 3), np.nan)).T
    values = (float(rate.mean()), float(distance.mean()), _pooled(violating, rate))
    return dict(zip(names, values, strict=True))


def _pooled(values: Array, number: Array) -> float:
    """Weighted mean over seeds; NaN if the weights sum to 0."""
    return float(values @ number / number.sum()) if number.sum() > 0 else float("nan")


def _weighted(values: Array, number: Array) -> float:
    """Mean over all excursions of all seeds."""
    return float(values @ number / number.sum()) if number.sum() > 0 else 0.0


def _median(values: Array) -> float:
    """Median over the seeds with a value; infinite growth counts as a value."""
    known = values[~np.isnan(values)]
    return float(np.median(known)) if known.size else float("nan")
