# SPDX-License-Identifier: Apache-2.0
"""Dantzig–Wolfe: mix deterministic policies into the constrained optimum.

The occupancy polytope is the hull of the deterministic policies. So the programme can be written in
the weights w_j of such policies, of which K + 1 suffice:

    maximise Σ_j w_j V_r(π_j)  subject to  Σ_j w_j V_c(π_j) ≤ b,  Σ_j w_j = 1,  w ≥ 0

The master programme has K + 1 rows. Its duals λ price the constraints. The best response to r − λ·c
is the column with the largest reduced cost. max_π V_{r−λc}(π) + λ·b bounds the optimum from above,
so the iteration stops at a small distance to this bound.
"""

from dataclasses import dataclass

import numpy as np

from holdfast.tabular.best_response import Response, best_response
from holdfast.tabular.cmdp import FiniteCMDP, Floats
from holdfast.tabular.highs import maximise

GAP = 1e-10
"""Relative distance between bound and mixture at which the mixture counts as optimal."""
MOST_COLUMNS = 10_000


@dataclass(frozen=True, eq=False)
class Mixture:
    """The optimal mixture; if no policy is safe, the mixture with the least total excess."""

    occupancy: Floats
    """d [S, A]."""
    multiplier: Floats
    """λ [K]."""
    state_price: Floats
    """v [S] of r − λ·c."""
    excess: Floats
    """[K] the excess above the limits; zero iff the limits can be met."""


@dataclass(frozen=True, eq=False)
class Master:
    """The solution of the small programme."""

    weight: Floats
    multiplier: Floats
    level: float
    """Dual of Σ w = 1: the priced value that the mixture attains."""
    excess: Floats


def generate(cmdp: FiniteCMDP, optimise: bool = True) -> Mixture:
    """Find a mixture that meets the limits (phase 1), then the best one (phase 2)."""
    limited = cmdp.cost[np.isfinite(cmdp.cost_limit)]
    columns = [best_response(cmdp, -limited.sum(axis=0))]
    master, price = _phase(cmdp, columns, 0.0)
    if optimise and not np.any(master.excess > 1e-12 * _scale(cmdp)):
        columns.append(best_response(cmdp, cmdp.reward))
        master, price = _phase(cmdp, columns, 1.0)
    occupancy = np.zeros(cmdp.reward.shape)
    states = np.arange(cmdp.num_states)
    for weight, column in zip(master.weight, columns, strict=True):
        occupancy[states, column.actions] += weight * column.visits
    return Mixture(occupancy, master.multiplier, price, master.excess)


def _phase(cmdp: FiniteCMDP, columns: list[Response], gain: float) -> tuple[Master, Floats]:
    """Add best responses until none improves; `gain` weighs the reward (0 in phase 1)."""
    while len(columns) < MOST_COLUMNS:
        master = _solve_master(cmdp, columns, gain)
        signal = gain * cmdp.reward - np.einsum("k,ksa->sa", master.multiplier, cmdp.cost)
        last = best_response(cmdp, signal, start=columns[-1].actions)
        reduced = (1.0 - cmdp.gamma) * float(cmdp.initial @ last.value) - master.level
        settled = gain == 0.0 and not np.any(master.excess > 0.0)
        # A policy that is in the mixture already cannot improve it: the rest is rounding.
        settled |= any(np.array_equal(last.actions, column.actions) for column in columns)
        if settled or reduced <= GAP * max(_scale(cmdp), float(np.max(np.abs(signal)))):
            return master, last.value
        columns.append(last)
    raise RuntimeError(f"column generation is not optimal after {MOST_COLUMNS} policies")


def _solve_master(cmdp: FiniteCMDP, columns: list[Response], gain: float) -> Master:
    """Weights of the columns; phase 1 lets limits be exceeded at price 1 for each unit."""
    finite = np.isfinite(cmdp.cost_limit)
    reward = gain * np.array([column.reward_return for column in columns])
    cost = np.array([column.cost_return[finite] for column in columns]).T
    count = len(cost)
    elastic = count if gain == 0.0 else 0
    found = maximise(
        np.concatenate([reward, -np.ones(elastic)]),
        np.hstack([cost, -np.eye(count)[:, :elastic]]),
        cmdp.cost_limit[finite],
        np.concatenate([np.ones(len(columns)), np.zeros(elastic)])[None],
        np.ones(1),
    )
    multiplier, excess = np.zeros(len(finite)), np.zeros(len(finite))
    multiplier[finite] = found.price
    excess[finite] = found.x[len(columns) :] if elastic else 0.0
    return Master(found.x[: len(columns)], multiplier, float(found.level[0]), excess)


def _scale(cmdp: FiniteCMDP) -> float:
    return float(max(np.abs(cmdp.reward).max(), np.abs(cmdp.cost).max(initial=0.0), 1e-300))
