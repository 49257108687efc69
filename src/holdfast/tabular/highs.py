# SPDX-License-Identifier: Apache-2.0
"""Wrapper around the HiGHS dual simplex: tight tolerances, sparse or dense rows, signed duals."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import linprog

from holdfast.tabular.cmdp import Floats

_solve: Any = linprog  # its stubs know no sparse rows
_PRECISION = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}


@dataclass(frozen=True, eq=False)
class Solution:
    """The solution of max f·x subject to upper @ x ≤ limit, equal @ x = total, x ≥ 0."""

    feasible: bool
    x: Floats
    price: Floats
    """Duals of the ≤ rows, ≥ 0: the rate at which the optimum grows with the limit."""
    level: Floats
    """Duals of the = rows: the rate at which the optimum grows with the total."""


def maximise(
    objective: Floats, upper: Any, limit: Floats, equal: Any, total: Floats, free: int = 0
) -> Solution:
    """Solve the programme; the last `free` variables may be negative. Rows may be sparse."""
    bounds = [(0.0, None)] * (len(objective) - free) + [(None, None)] * free
    result = _solve(
        -objective,
        A_ub=upper if len(limit) else None,
        b_ub=limit if len(limit) else None,
        A_eq=equal,
        b_eq=total,
        bounds=bounds if free else (0.0, None),
        method="highs-ds",
        options=_PRECISION,
    )
    if result.status == 2:
        return Solution(False, np.full(len(objective), np.nan), limit * np.nan, total * np.nan)
    if result.status != 0:
        raise RuntimeError(f"HiGHS stopped without an optimum: {result.message}")
    price = np.maximum(0.0, -result.ineqlin.marginals) if len(limit) else np.zeros(0)
    bounded = len(objective) - free
    x = np.concatenate([np.maximum(result.x[:bounded], 0.0), result.x[bounded:]])
    return Solution(True, x, price, -np.asarray(result.eqlin.marginals))
