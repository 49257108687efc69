# SPDX-License-Identifier: Apache-2.0
"""Exact optima under limits on single episodes of a finite CMDP: the cost so far is part of the
state.

The discount is a probability of continuing: an episode ends after each step with probability 1 − γ.
Its plain cost C = Σ_t c_t is then random, with E C = V_c / (1 − γ). A limit can be on its tail, or
on the chance that it exceeds b, in units of C. If the costs are multiples of one unit, the sum so
far is a finite part of the state, and the problem is a finite CMDP with another cost:

    tail     o / α, limit (1 − γ)(b − ν), for the best ν of the lattice: at most b is enough
    chance   1 in the step that takes C above b, limit (1 − γ) p

States are numbered s · Z + z, with z units spent; z is capped where larger values have no effect.
"""

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from holdfast.core.limits import Limit
from holdfast.core.tails import derived
from holdfast.tabular.cmdp import FiniteCMDP, Floats, check_policy
from holdfast.tabular.lp import InfeasibleLimits, Optimum, optimum
from holdfast.tabular.occupancy import occupancy

LARGEST = 200_000
"""Largest number of state-action pairs with the budget."""


@dataclass(frozen=True, eq=False)
class BudgetOptimum:
    """The best policy of (state, spent) under a limit beyond the mean."""

    cmdp: FiniteCMDP
    """The process with the cost so far in its states."""
    best: Optimum
    limit: Limit
    unit: float
    """Unit of the cost so far."""
    level: float
    """ν of a tail; 0 for a chance."""
    value: float
    """The limited quantity: the tail, or the chance."""
    price: float
    """dV_r*/db of a tail, dV_r*/dp of a chance."""

    @property
    def policy(self) -> Floats:
        """π(a | s, z) [S, Z, A]"""
        states = self.best.policy.shape[0] // self.amounts
        return self.best.policy.reshape(states, self.amounts, -1)

    @property
    def amounts(self) -> int:
        """Z, the number of distinct amounts."""
        return top_of(self.limit, self.unit) + 1


def unit_of(cmdp: FiniteCMDP, constraint: int) -> float:
    """The largest common unit of all costs of a constraint."""
    costs = cmdp.cost[constraint]
    if costs.min() < 0:
        raise ValueError("a budget needs costs that are not negative; shift or correct them.")
    known = [Fraction(float(c)).limit_denominator(1000) for c in np.unique(costs) if c > 0]
    if any(abs(float(f) - c) > 1e-9 for f, c in zip(known, np.unique(costs[costs > 0]))):  # noqa: B905
        raise ValueError(
            "the costs are not multiples of a common unit of at least 1/1000, so the cost so far "
            "has too many values; round them."
        )
    if not known:
        return 1.0
    below = math.lcm(*(f.denominator for f in known))
    return math.gcd(*(int(f * below) for f in known)) / below


def top_of(limit: Limit, unit: float) -> int:
    """The largest number of units that matters: b, or the first above it."""
    within = math.floor(limit.amount / unit + 1e-9)
    return within + 1 if limit.kind == "chance" else math.ceil(limit.amount / unit - 1e-9)


def with_spent(
    cmdp: FiniteCMDP, constraint: int, limit: Limit, level: float = 0.0, top: int | None = None
) -> FiniteCMDP:
    """The process over (state, spent) whose constraint is the limit's; `level` is a tail's ν."""
    unit = unit_of(cmdp, constraint)
    count = (top_of(limit, unit) if top is None else top) + 1
    states, actions = cmdp.reward.shape
    if states * actions * count > LARGEST:
        raise ValueError(
            f"{states} states, {actions} actions and {count} amounts spent are "
            f"{states * actions * count:,} numbers, more than {LARGEST:,}: take a smaller process "
            "or coarser costs."
        )
    step = np.rint(cmdp.cost[constraint] / unit).astype(np.int64)
    after = np.minimum(np.arange(count)[None, :, None] + step[:, None, :], count - 1)
    kernel: Any = sparse.coo_array(cmdp.kernel)
    pair, target = kernel.coords
    state, action = np.divmod(pair, actions)
    z = np.arange(count)[:, None]
    rows = ((state * count + z) * actions + action).ravel()
    columns = (target * count + after[state, z, action]).ravel()
    data = np.broadcast_to(kernel.data, (count, len(kernel.data))).ravel()
    shape = (states * count * actions, states * count)
    spread: Any = sparse.coo_array((data, (rows, columns)), shape)
    wide = lambda x: np.repeat(x, count, axis=-2)
    costs = wide(cmdp.cost)
    spent = np.tile(np.arange(count) * unit, states)[:, None, None]
    own = np.broadcast_to(spent, (states * count, actions, 1))
    costs[constraint] = derived(costs[constraint][..., None], own, [limit], [level])[..., 0]
    limits = cmdp.cost_limit.copy()
    limits[constraint] = (1.0 - cmdp.gamma) * (limit.bound - level)
    initial = np.zeros((states, count))
    initial[:, 0] = cmdp.initial
    return FiniteCMDP(
        spread.tocsr(), wide(cmdp.reward), costs, limits, initial.reshape(-1), cmdp.gamma
    )


def best_within(cmdp: FiniteCMDP, constraint: int, limit: Limit) -> BudgetOptimum:
    """The constrained optimum; raises `InfeasibleLimits` if no policy keeps the limit."""
    if limit.kind not in ("tail", "chance"):
        raise ValueError(
            f"'{limit}' is not a limit on single episodes: write 'worst 5%' or 'in 95%'."
        )
    unit = unit_of(cmdp, constraint)
    levels = [0.0]
    if limit.kind == "tail":
        levels = [unit * z for z in range(math.floor(limit.amount / unit + 1e-9) + 1)]
    found: list[BudgetOptimum] = []
    refused: InfeasibleLimits | None = None
    for level in levels:
        wide = with_spent(cmdp, constraint, limit, level)
        try:
            best = optimum(wide)
        except InfeasibleLimits as error:
            refused = error
            continue
        scale = 1.0 - cmdp.gamma
        value = float(best.cost_return[constraint]) / scale + level
        price = float(best.multiplier[constraint]) * scale
        found.append(BudgetOptimum(wide, best, limit, unit, level, value, price))
    if not found:
        assert refused is not None
        raise refused
    return max(found, key=lambda one: one.best.reward_return)


def episode_law(
    cmdp: FiniteCMDP, constraint: int, policy: ArrayLike, top: int
) -> tuple[Floats, Floats]:
    """(amounts [Z], their probabilities) of an episode's cost; the last includes all larger ones.

    The policy is one of states [S, A] or of states and amounts spent [S, Z', A].
    """
    table = np.asarray(policy, np.float64)
    unit = unit_of(cmdp, constraint)
    wide = with_spent(cmdp, constraint, Limit(max(1, top) * unit, "chance", 0.5), top=top)
    count = top + 1
    if table.ndim == 2:
        table = np.repeat(check_policy(cmdp, table)[:, None], count, 1)
    known = np.minimum(np.arange(count), table.shape[1] - 1)
    weight = occupancy(wide, table[:, known].reshape(-1, table.shape[-1]))
    step = np.rint(cmdp.cost[constraint] / unit).astype(np.int64)
    after = np.minimum(np.arange(count)[None, :, None] + step[:, None, :], top)
    chance = np.bincount(after.ravel(), weight.ravel(), count).astype(np.float64)
    return np.arange(count, dtype=np.float64) * np.float64(unit), chance


def tail_of(amounts: Floats, chance: Floats, mean: float, share: float) -> float:
    """CVaR from the distribution of C up to its last amount, and E C: min_ν ν + (E C − E min(C, ν))
    / α.
    """
    over = [mean - float(chance @ np.minimum(amounts, nu)) for nu in amounts]
    return float(np.min(amounts + np.array(over) / share))


def episode_mean(cmdp: FiniteCMDP, constraint: int, policy: ArrayLike) -> float:
    """E C of a policy of states [S, A]."""
    weight = occupancy(cmdp, check_policy(cmdp, policy))
    return float((cmdp.cost[constraint] * weight).sum()) / (1.0 - cmdp.gamma)


def as_chance(limit: Limit, amounts: Floats, chance: Floats) -> float:
    """P(C > b) from the distribution of C."""
    return float(chance[amounts > limit.amount * (1 + 1e-9)].sum())


def mean_limited(cmdp: FiniteCMDP, constraint: int, amount: float) -> FiniteCMDP:
    """The same process with a limit on E C."""
    limits = cmdp.cost_limit.copy()
    limits[constraint] = (1.0 - cmdp.gamma) * amount
    return replace(cmdp, cost_limit=limits)
