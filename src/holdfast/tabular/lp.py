# SPDX-License-Identifier: Apache-2.0
"""The constrained optimum as a linear programme over occupancies, with its shadow prices.

    maximise r·d  subject to  d ≥ 0,  c_i·d ≤ b_i,
                              Σ_a d(s,a) − γ Σ_{s',a'} P(s|s',a') d(s',a') = (1−γ) μ(s)

The duals of the cost rows are the multipliers λ_i = dV*/db_i; the duals of the flow rows are the
state values of the priced signal r − λ·c. Two exact methods:
- `highs`: the sparse programme, solved by the HiGHS dual simplex.
- `columns`: Dantzig–Wolfe (columns.py); policy iteration proposes deterministic policies and a
  tiny programme with K + 1 rows mixes them. It scales to 10^5 states and beyond.
"""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy import sparse

from holdfast.tabular.best_response import dual_objective
from holdfast.tabular.cmdp import FiniteCMDP, Floats
from holdfast.tabular.columns import generate
from holdfast.tabular.highs import maximise
from holdfast.tabular.occupancy import occupancy, policy_of

COLUMNS_ABOVE = 2_000
"""State-action pairs above which `auto` prefers column generation."""


class InfeasibleLimits(ValueError):
    """No policy meets all limits; `excess` [K] is the violation of the least violating one."""

    def __init__(self, excess: Floats) -> None:
        self.excess = excess
        listed = ", ".join(f"{value:.6g}" for value in excess)
        super().__init__(
            f"no policy meets the cost limits: even the least violating one exceeds them by "
            f"[{listed}]; raise the limits by at least that much."
        )


@dataclass(frozen=True, eq=False)
class Optimum:
    """A constrained optimum and the certificate that it is one."""

    reward_return: float
    """V_r*."""
    cost_return: Floats
    """V_c [K] at the optimum."""
    policy: Floats
    """An optimal π(a|s) [S, A]; it randomises in at most K states when d is a vertex."""
    occupancy: Floats
    """d* [S, A]."""
    multiplier: Floats
    """λ [K] ≥ 0, the shadow price dV_r*/db of each limit."""
    state_price: Floats
    """v [S], the optimal state values of r − λ·c."""
    bound: float
    """(1−γ) μ·v + λ·b, the dual objective: equals V_r* up to rounding."""

    @property
    def gap(self) -> float:
        """Dual minus primal objective."""
        return self.bound - self.reward_return


def active(cmdp: FiniteCMDP, cost_return: Floats) -> np.ndarray:
    """Which limits bind [K]; infinite ones never do."""
    scale = np.maximum(1.0, np.abs(cmdp.cost).max(axis=(1, 2), initial=0.0))
    return cmdp.cost_limit - cost_return <= 1e-7 * scale


def optimum(cmdp: FiniteCMDP, method: Literal["auto", "highs", "columns"] = "auto") -> Optimum:
    """Solve max V_r over the safe policies; raises `InfeasibleLimits` when there are none."""
    if method == "auto":
        method = "columns" if cmdp.reward.size > COLUMNS_ABOVE else "highs"
    return _by_highs(cmdp) if method == "highs" else _by_columns(cmdp)


def flow_matrix(cmdp: FiniteCMDP) -> Any:
    """The flow rows [S, S·A]: out of s minus γ times into s."""
    out = sparse.kron(sparse.eye_array(cmdp.num_states), np.ones((1, cmdp.num_actions)))
    return (out - cmdp.gamma * sparse.csr_array(cmdp.kernel).T).tocsr()


def _by_highs(cmdp: FiniteCMDP) -> Optimum:
    finite = np.isfinite(cmdp.cost_limit)
    found = maximise(
        cmdp.reward.reshape(-1),
        sparse.csr_array(cmdp.cost[finite].reshape(-1, cmdp.reward.size)),
        cmdp.cost_limit[finite],
        flow_matrix(cmdp),
        (1.0 - cmdp.gamma) * cmdp.initial,
    )
    if not found.feasible:
        raise InfeasibleLimits(least_excess(cmdp))
    multiplier = np.zeros(cmdp.num_constraints)
    multiplier[finite] = found.price
    return _certified(cmdp, found.x.reshape(cmdp.reward.shape), multiplier, found.level)


def _by_columns(cmdp: FiniteCMDP) -> Optimum:
    mixture = generate(cmdp)
    if np.any(mixture.excess > 1e-9):
        raise InfeasibleLimits(mixture.excess)
    return _certified(cmdp, mixture.occupancy, mixture.multiplier, mixture.state_price)


def _certified(
    cmdp: FiniteCMDP, occupancy: Floats, multiplier: Floats, state_price: Floats
) -> Optimum:
    return Optimum(
        reward_return=float(np.sum(cmdp.reward * occupancy)),
        cost_return=np.einsum("ksa,sa->k", cmdp.cost, occupancy),
        policy=policy_of(occupancy),
        occupancy=occupancy,
        multiplier=multiplier,
        state_price=state_price,
        bound=dual_objective(cmdp, multiplier, state_price),
    )


def least_excess(cmdp: FiniteCMDP) -> Floats:
    """By how much the policy with the smallest total violation exceeds each limit [K]."""
    return generate(cmdp, optimise=False).excess


def safest(cmdp: FiniteCMDP) -> tuple[Floats, float]:
    """The occupancy with the largest common slack t, and t: c_i·d + t ≤ b_i for every finite limit.

    t > 0 means that the safe set has an interior; t < 0 that it is empty.
    """
    finite = np.isfinite(cmdp.cost_limit)
    count = int(finite.sum())
    if count == 0:
        return np.asarray(optimum(cmdp).occupancy), np.inf
    costs = sparse.csr_array(cmdp.cost[finite].reshape(-1, cmdp.reward.size))
    found = maximise(
        np.append(np.zeros(cmdp.reward.size), 1.0),
        sparse.hstack([costs, sparse.csr_array(np.ones((count, 1)))]).tocsr(),
        cmdp.cost_limit[finite],
        sparse.hstack([flow_matrix(cmdp), sparse.csr_array((cmdp.num_states, 1))]).tocsr(),
        (1.0 - cmdp.gamma) * cmdp.initial,
        free=1,
    )
    return found.x[:-1].reshape(cmdp.reward.shape), float(found.x[-1])


def interior_policy(cmdp: FiniteCMDP) -> Floats:
    """A positive policy [S, A] inside the safe set, as a start.

    It is the safest occupancy, mixed with the uniform policy's until half of its slack remains.
    """
    safe, slack = safest(cmdp)
    if slack <= 0.0:
        if slack < 0.0:
            raise InfeasibleLimits(least_excess(cmdp))
        raise ValueError("the safe set has no interior: the limits can just be met; raise them.")
    even = occupancy(cmdp, np.full(cmdp.reward.shape, 1.0 / cmdp.num_actions))
    lowest = np.min(cmdp.cost_limit - np.einsum("ksa,sa->k", cmdp.cost, even), initial=np.inf)
    share = 1.0 if lowest >= 0.5 * slack else 0.5 * slack / (slack - float(lowest))
    return policy_of((1.0 - share) * safe + share * even)
