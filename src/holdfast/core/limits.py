# SPDX-License-Identifier: Apache-2.0
"""Kinds of limits: the bounded quantity of C, the cost of an episode.

    25               E C ≤ 25                      the mean
    25 worst 5%      CVaR ≤ 25                     the mean of the worst 5 % of episodes
    25 in 95%        P(C > 25) ≤ 5 %               the chance
    25 budget        reward −1 once 25 are spent   a penalty (Sauté); `budget penalty 5`: −5
    25 ends          reward 0 once 25 are spent    as if the episode had ended

The same texts are used on the command line (NAME=TEXT), in Python, in suites and in run.json. All
but the mean need costs that are not negative.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Kind = Literal["mean", "tail", "chance", "budget", "ends"]
WORDS: Mapping[str, Kind] = {"worst": "tail", "in": "chance", "budget": "budget", "ends": "ends"}
SYNTAX = "25, '25 worst 5%', '25 in 95%', '25 budget' or '25 ends'"
VERDICT_CHANCE = 0.05
"""Chance of an episode above its budget that a verdict on `budget` and `ends` accepts."""


@dataclass(frozen=True)
class Limit:
    """One limit; `tail`, `chance` and `parse_limit` make limits beyond the mean."""

    amount: float
    """b, in units of the episode cost."""
    kind: Kind = "mean"
    share: float = 1.0
    """For a tail α, the share of worst episodes; for a chance p, the share of episodes above b."""
    penalty: float = 0.0
    """For a budget: the penalty on the reward of each step after it is spent."""

    def __post_init__(self) -> None:
        if not 0 <= self.amount < math.inf:
            raise ValueError(
                f"{self.amount} must be a finite number that is not negative; it bounds the cost "
                "of an episode."
            )
        if self.kind == "mean":
            return
        if self.amount == 0:
            raise ValueError(
                f"'{self}' needs a positive number, as its remaining share is part of the "
                "observation; use a small positive number instead of 0."
            )
        if self.kind in ("tail", "chance") and not 0 < self.share < 1:
            raise ValueError(
                f"'{self}' must name a share strictly between 0% and 100%, such as worst 5% or "
                "in 95%."
            )
        if not 0 <= self.penalty < math.inf:
            raise ValueError(f"'{self}' must have a finite penalty that is not negative.")

    def __str__(self) -> str:
        amount = _number(self.amount)
        match self.kind:
            case "tail":
                return f"{amount} worst {_number(100 * self.share)}%"
            case "chance":
                return f"{amount} in {_number(100 * (1 - self.share))}%"
            case "budget":
                own = "" if self.penalty == 1 else f" penalty {_number(self.penalty)}"
                return f"{amount} budget{own}"
            case kind:
                return amount if kind == "mean" else f"{amount} {kind}"

    @property
    def plain(self) -> float | str:
        """The limit in run.json: a number, or its text."""
        return self.amount if self.kind == "mean" else str(self)

    @property
    def is_constraint(self) -> bool:
        """Whether it is a constraint for the algorithm; else it changes the reward."""
        return self.kind in ("mean", "tail", "chance")

    @property
    def bound(self) -> float:
        """The upper bound of the constrained quantity: b, or the p of a chance."""
        return self.share if self.kind == "chance" else self.amount

    @property
    def judged(self) -> Limit:
        """The limit that a verdict tests; for a budget: P(C > b) is at most 5 %."""
        return self if self.is_constraint else chance(self.amount, 1 - VERDICT_CHANCE)

    @property
    def episodes(self) -> int:
        """Number of episodes for a useful estimate: 20 in the tail; for a mean 1."""
        return math.ceil(20 / self.share - 1e-9) if self.kind in ("tail", "chance") else 1

    @property
    def fewest(self) -> int:
        """Fewest episodes for any estimate; for a tail 2/α, which its quantile needs."""
        return math.ceil(2 / self.share - 1e-9) if self.kind == "tail" else self.episodes

    @property
    def clean(self) -> int:
        """Episodes without which no fresh ones can indicate that it holds, at 95 %.

        Of a tail 2/α; of a chance as many as must all be within b, (1 − p)ⁿ ≤ 5 %.
        """
        judged = self.judged
        if judged.kind == "chance":
            return math.ceil(math.log(0.05) / math.log1p(-judged.share) - 1e-9)
        return self.fewest

    @property
    def quantity(self) -> str:
        """The name of the constrained quantity in a sentence."""
        match self.judged.kind:
            case "tail":
                return f"mean cost of the worst {_number(100 * self.share)} % of episodes"
            case "chance":
                return f"chance of an episode above {_number(self.amount)}"
            case _:
                return "mean cost"

    def shown(self, value: float) -> str:
        """A value of the constrained quantity in a sentence."""
        return f"{value:.2%}" if self.judged.kind == "chance" else f"{value:.2f}"


def tail(amount: float, worst: float) -> Limit:
    """The mean cost of the worst share `worst` of episodes is at most `amount`."""
    return Limit(float(amount), "tail", float(worst))


def chance(amount: float, within: float) -> Limit:
    """A share `within` of all episodes costs at most `amount`."""
    return Limit(float(amount), "chance", round(1.0 - within, 12))


def _number(value: float) -> str:
    return f"{value:.10g}"


_WORD = re.compile(r"(\S+)(?: (worst|in) (\S+)%| (budget)(?: penalty (\S+))?| (ends))?")


def parse_limit(given: object, name: str = "") -> Limit:
    """A limit from a number, a text or a `Limit`; error messages contain `name`, that of the
    cost.
    """
    if isinstance(given, Limit):
        return given
    called = f"the limit {name}={given}" if name else f"the limit {given}"
    if isinstance(given, bool) or not isinstance(given, int | float | str):
        raise ValueError(f"{called} must be a number or one of {SYNTAX}.")
    found = _WORD.fullmatch(" ".join(str(given).split()))
    try:
        if found is None:
            raise ValueError
        amount, word, percent, budget, penalty, ends = found.groups()
        b, share = float(amount), float(percent) / 100 if word else 1.0
        off = float(penalty) if penalty is not None else 1.0
    except ValueError:
        raise ValueError(f"{called} is not of a known kind: write {SYNTAX}.") from None
    share = round(1 - share if word == "in" else share, 12)
    kind = WORDS.get(word or budget or ends or "", "mean")
    try:
        return Limit(b, kind, share, off if budget else 0.0)
    except ValueError as error:
        raise ValueError(f"{called} cannot be kept: {error}") from None


def refuse_number(name: str, limit: float) -> None:
    """A limit on a mean must be a number that a mean can keep."""
    if not limit >= 0 or limit == float("inf"):
        raise ValueError(
            f"the limit {name}={limit} must be a finite number that is not negative; "
            "it bounds the mean cost of an episode."
        )


def plain_limits(limits: Mapping[str, object]) -> dict[str, float | str]:
    """Limits as run.json keeps them; they may be given as numbers, texts or `Limit`s."""
    for name, limit in limits.items():
        if isinstance(limit, int | float):
            refuse_number(name, limit)
    return {name: parse_limit(limit, name).plain for name, limit in limits.items()}
