# SPDX-License-Identifier: Apache-2.0
"""Evaluation: fresh episodes of a fixed policy, and the verdict on its safety.

Episode i is a function of (policy, seed, i). So an episode depends neither on the number of
episodes, nor on interim verdicts, nor on the numbers of environments and worker processes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from rich.text import Text

from holdfast.console import counted
from holdfast.core.limits import Limit, parse_limit
from holdfast.core.tails import above, tail_mean
from holdfast.envs.acting import Actor
from holdfast.envs.base import VecEnv, episode_cost_bounds
from holdfast.envs.rollout import Playing, Round, play_round
from holdfast.judge.verdict import COLOURS, Verdict, verdict
from holdfast.records.excursions import violations
from holdfast.records.statistics import iqm
from holdfast.settings import nearest

CostBound = float | Mapping[str, float]
OnEpisodes = Callable[[int, Verdict | None], None]
"""Callback with the number of finished episodes and, from time to time, the verdict so far."""
SHORTER = 2 / 3
"""A warning is given if episodes are shorter than this share of those of some earlier epoch."""
LOOKS = 1.05
"""Growth of the number of episodes between two interim verdicts."""


@dataclass(frozen=True, repr=False)
class Evaluation:
    """n episodes of one policy."""

    returns: NDArray[np.float64]
    """[n]"""
    costs: NDArray[np.float64]
    """[n, K] the constrained sums: discounted if the limit is on the discounted cost."""
    lengths: NDArray[np.int64]
    """[n]"""
    limits: dict[str, float]
    """[K] b of each constraint."""
    deterministic: bool
    cost_bounds: tuple[float, ...] | None = None
    """The largest possible cost of one episode, for each constraint, if known."""
    discount: float = 1.0
    """Discount of the costs; 1: plain sums."""
    workers: int = 1
    """Number of processes that ran the episodes."""
    kinds: Mapping[str, Limit] = field(default_factory=dict[str, Limit])
    """The limits that are not on a mean."""

    env: str = ""
    """The environment's name."""
    longest_length: float = 0.0
    """Largest mean length of an epoch's episodes in training; 0 if unknown."""

    @property
    def shortened(self) -> str:
        """A warning if episodes became short while costs are within limits, else an empty text."""
        now = float(self.lengths.mean())
        held = all(m <= b for m, b in zip(self.costs.mean(0), self.limits.values(), strict=True))
        if not held or not now < SHORTER * self.longest_length:
            return ""
        return (
            f"Episodes last {now:.4g} steps, and {self.longest_length:.4g} in an earlier epoch: "
            "the policy may keep its limit by ending episodes early. Reward survival, add a cost "
            "for termination, or limit a rate (docs/limits.md)."
        )

    def __repr__(self) -> str:
        each = zip(self.limits.items(), self.costs.mean(0), strict=True)
        costs = ", ".join(f"{name} {mean:.4g} of {limit:g}" for (name, limit), mean in each)
        where = f" on {self.env}" if self.env else ""
        shown = f"return {self.returns.mean():.4g}, {costs}; proved safe: {self.verdict.safe}"
        return f"Evaluation({counted(len(self.returns), 'episode')}{where}: {shown})"

    @property
    def claims(self) -> dict[str, Limit]:
        """The limit of each constraint with its kind."""
        return {name: self.kinds.get(name, Limit(limit)) for name, limit in self.limits.items()}

    @cached_property
    def verdict(self) -> Verdict:
        """The verdict: whether the limited quantities are below their limits, with confidence."""
        names = tuple(self.limits) if len(self.limits) > 1 else ()
        return verdict(self.costs, list(self.claims.values()), self.cost_bounds, names=names)

    def summary(self) -> dict[str, Any]:
        """The content of the table as plain data."""
        judged = self.verdict
        return {
            "env": self.env,
            "episodes": len(self.returns),
            "deterministic": self.deterministic,
            "return": _spread(self.returns),
            "length": float(self.lengths.mean()),
            "cost_discount": self.discount,
            "cost": {
                name: {
                    **_spread(self.costs[:, i]),
                    **_distances(self.costs[:, i], limit),
                    **_tail(self.costs[:, i], self.claims[name]),
                    "proved_low_95": _known(judged.proved.lower[i]),
                    "proved_high_95": _known(judged.proved.upper[i]),
                    "seen_low_95": _known(judged.seen.lower[i]),
                    "seen_high_95": _known(judged.seen.upper[i]),
                    "limit": limit,
                    "cost_bound": judged.cost_bounds[i] if judged.cost_bounds else None,
                }
                for i, (name, limit) in enumerate(self.limits.items())
            },
            "violation_rate": {
                "estimate": judged.violating.value,
                "low_95": judged.violating.low,
                "high_95": judged.violating.high,
            },
            "safe_at_95": judged.safe,
            "safe_if_tail_as_seen": judged.indicated,
            "more_episodes": _known(judged.more),
        }

    def print(self, console: Console) -> None:
        """The summary as a table, and the verdict in two sentences."""
        data, judged = self.summary(), self.verdict
        how = "most likely actions" if self.deterministic else "sampled actions"
        how += f", in {self.workers} worker processes" if self.workers > 1 else ", in this process"
        where = f" on {self.env}" if self.env else ""
        title = Text(f"{counted(data['episodes'], 'fresh episode')}{where}, {how}", "italic")
        table = Table(title=title, title_justify="left")
        names = "mean", "IQM", "worst 5 %", "proved at 95 %", "if the tail is as seen", "limit"
        for column in ("", *names):
            table.add_column(column, justify="left" if not column else "right")
        returns = data["return"]
        table.add_row("return", f"{returns['mean']:.1f}", f"{returns['iqm']:.1f}", *[""] * 4)
        kind = "cost" if self.discount == 1 else f"cost, discounted by {self.discount:g}"
        for name, cost in data["cost"].items():
            table.add_row(
                Text(kind if name == "cost" else f"{kind}: {name}"),
                f"{cost['mean']:.2f}",
                f"{cost['iqm']:.2f}",
                f"{cost['worst_5']:.2f}",
                _coloured(cost["proved_low_95"], cost["proved_high_95"], self.claims[name].judged),
                _coloured(cost["seen_low_95"], cost["seen_high_95"], self.claims[name].judged),
                str(self.claims[name]),
            )
        table.add_row("length", f"{data['length']:.1f}", *[""] * 5)
        console.print(table)
        rate = data["violation_rate"]
        console.print(
            f"Episodes over a limit: {rate['estimate']:.1%} "
            f"(95 % interval {rate['low_95']:.1%} to {rate['high_95']:.1%})",
            highlight=False,
        )
        colour = COLOURS[judged.safe]
        before, answer, after = judged.proved_sentence.partition(judged.safe)
        console.print(Text.assemble(before, (answer, f"bold {colour}"), after))
        console.print(Text(judged.seen_sentence))
        if self.shortened:
            console.print(Text(self.shortened, "yellow"))


def _distances(costs: NDArray[np.float64], limit: float) -> dict[str, float]:
    """SafeRLEval's measures: mean of cost / limit − 1, over all episodes and over those above the
    limit.
    """
    found = violations(costs, limit)
    return {"distance": found.distance, "distance_violating": found.distance_violating}


def _tail(costs: NDArray[np.float64], claim: Limit) -> dict[str, object]:
    """The mean of the worst 5 %, and the limited quantity if it is not a mean."""
    worst: dict[str, object] = {"worst_5": tail_mean(costs, 0.05)}
    if claim.kind == "mean":
        return worst
    share = float(above(costs, claim.amount).mean())
    value = tail_mean(costs, claim.share) if claim.kind == "tail" else share
    return worst | {"kind": str(claim), "limited": value, "bound": claim.judged.bound}


def _spread(values: NDArray[np.float64]) -> dict[str, float]:
    return {"mean": float(values.mean()), "iqm": float(iqm(values)), "sd": float(values.std())}


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None


def interval(low: float | None, high: float | None, claim: Limit = Limit(0.0)) -> str:
    """An interval such as 8.12 .. 27.30, for a chance 1.20% .. 4.50%; ? is an unknown end."""
    return " .. ".join("?" if value is None else claim.shown(value) for value in (low, high))


def _coloured(low: float | None, high: float | None, claim: Limit) -> Text:
    below = high is not None and high <= claim.bound
    style = "red" if (low or 0) > claim.bound else "green" if below else ""
    return Text(interval(low, high, claim), style)


def evaluate(
    actor: Actor,
    env: VecEnv,
    limits: Mapping[str, float | str | Limit],
    *,
    episodes: int = 100,
    seed: int = 1_000_000,
    deterministic: bool = False,
    discount: float = 1.0,
    cost_bound: CostBound | None = None,
    until_decided: bool = False,
    max_episodes: int = 10_000,
    on_progress: OnEpisodes | None = None,
) -> Evaluation:
    """Run fresh episodes; with `until_decided` more of them until safety is proved or disproved.

    The bounds hold at every stopping time, so repeated verdicts do not weaken them.
    """
    if episodes < 1 or max_episodes < 1:
        raise ValueError(f"episodes={min(episodes, max_episodes)} must be at least 1; try 100.")
    claims = {name: parse_limit(limit, name) for name, limit in limits.items()}
    beyond = {name: claim for name, claim in claims.items() if claim.kind != "mean"}
    if beyond and discount != 1:
        raise ValueError(
            f"the limit {next(iter(beyond))}={next(iter(beyond.values()))} is on the plain sum of "
            "an episode, and this policy's limits are on discounted sums: judge it by a number."
        )
    bounds = _bounds(env, limits, discount, cost_bound)
    needs = any(claim.judged.kind != "chance" for claim in claims.values())
    if until_decided and bounds is None and needs:
        raise ValueError(
            "safety cannot be proved, as this environment declares no largest cost of an episode: "
            "pass it as cost_bound=NUMBER, or leave until_decided out."
        )
    rounds = _rounds(actor, env, Round(seed, 0, deterministic, discount))
    table = np.zeros((0, 2 + len(limits)))
    wanted = min(episodes, max_episodes) if until_decided else episodes
    while True:
        while len(table) < wanted:
            table = np.concatenate([table, next(rounds)])
            if on_progress is not None:
                on_progress(min(len(table), wanted), None)
        part = table[:wanted]
        result = Evaluation(
            part[:, 0],
            part[:, 2:],
            part[:, 1].astype(np.int64),
            {name: claim.amount for name, claim in claims.items()},
            deterministic,
            bounds,
            discount,
            env.facts.workers,
            beyond,
        )
        judged = result.verdict  # raises where a cost lies outside its bounds
        if on_progress is not None and until_decided:
            on_progress(wanted, judged)
        if not until_decided or judged.safe != "undecided" or wanted >= max_episodes:
            return result
        wanted = min(max(wanted + 1, math.ceil(LOOKS * wanted)), max_episodes)


LimitValue = float | str | Limit
"""A limit of an evaluation; a number is a limit on the mean."""
Limits = LimitValue | Mapping[str, LimitValue]
"""One limit for all constraints, or some by name."""


def evaluation_limits(
    limits: Mapping[str, LimitValue], given: Limits | None
) -> dict[str, LimitValue]:
    """The limits of training, replaced by given ones: one for all, or some by name."""
    if given is None:
        return dict(limits)
    changes = dict(given) if isinstance(given, Mapping) else dict.fromkeys(limits, given)
    for name, limit in changes.items():
        if name not in limits:
            raise ValueError(f"no constraint is called '{name}'{nearest(name, limits)}")
        if isinstance(limit, int | float) and not 0 <= limit < math.inf:
            raise ValueError(f"the limit {name}={limit} must be finite and not negative.")
        parse_limit(limit, name)
    return {**limits, **changes}


def limits_elsewhere(
    trained: Mapping[str, float], declared: Mapping[str, float], env: str
) -> dict[str, float]:
    """The limits that another task than that of training declares."""
    missing = [name for name in trained if name not in declared]
    if missing:
        was = ", ".join(f"{name}={limit:g}" for name, limit in trained.items())
        raise ValueError(
            f"{env} declares no limit for '{missing[0]}', and the limit of training ({was}) was "
            "set for another environment: pass limits=NUMBER."
        )
    return {name: declared[name] for name in trained}


def _bounds(
    env: VecEnv, limits: Mapping[str, LimitValue], discount: float, given: CostBound | None
) -> tuple[float, ...] | None:
    """B of each constraint: given by the user, else declared by the environment."""
    if given is None:
        return episode_cost_bounds(env, discount)
    if isinstance(given, Mapping):
        missing = [name for name in limits if name not in given]
        if missing:
            raise ValueError(f"cost_bound lacks '{missing[0]}': name a bound for each constraint.")
        return tuple(float(given[name]) for name in limits)
    return (float(given),) * len(limits)


def _rounds(actor: Actor, env: VecEnv, wanted: Round) -> Iterator[NDArray[np.float64]]:
    """Run rounds of one episode for each environment; yields rows [N, 2 + K] of return, length,
    costs.
    """
    while True:
        itself = isinstance(env, Playing)
        yield env.play_round(actor, wanted) if itself else play_round(env, actor, wanted)
        wanted = replace(wanted, first=wanted.first + env.num_envs)
