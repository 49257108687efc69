# SPDX-License-Identifier: Apache-2.0
"""Predicted against realised: how far the change of a cost that an update foresaw came true.

    spent_k         the change of J_c that the update of epoch k predicts, κ E[(ratio − 1) · A_c]
    realised_k+1    J_{k+1} − J_k, measured one epoch later with the cost estimate in use
    ratio           Σ_j f^j p r / Σ_j f^j p², the slope of realised on predicted through 0

over the pairs (p, r) = (spent, realised) so far, j epochs old, f = 0.95: it remembers about 20
epochs. 1 is a prediction in the units of the limit; above 1, costs change more than foreseen.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.core.by_age import Floats

FORGET = 0.95


@dataclass(frozen=True)
class Forecast:
    """What the next epoch's cost is compared with; all [1 + K]: the sum, then each cost."""

    cost: Floats
    """The last estimate of J_c; NaN before the first epoch."""
    spent: Floats
    """The change predicted from there."""
    cross: Floats
    """Running Σ predicted · realised."""
    square: Floats
    """Running Σ predicted²."""

    @classmethod
    def create(cls, constraints: int) -> Forecast:
        zero = np.zeros(1 + constraints)
        return cls(zero + np.nan, zero, zero, zero)

    @property
    def ratio(self) -> Floats:
        """Realised per predicted; NaN before anything was predicted."""
        unknown = np.full_like(self.cross, np.nan)
        return np.divide(self.cross, self.square, out=unknown, where=self.square > 0)

    def after(self, cost: NDArray[Any], spent: NDArray[Any]) -> tuple[Forecast, Floats]:
        """(the forecast from an epoch's estimate [K] and prediction [K], what was realised)."""
        cost, spent = (np.array([each.sum(), *each], np.float64) for each in (cost, spent))
        realised = cost - self.cost
        known = ~np.isnan(realised)
        cross = FORGET * self.cross + np.where(known, self.spent * realised, 0.0)
        square = FORGET * self.square + np.where(known, self.spent**2, 0.0)
        return Forecast(cost, spent, cross, square), realised
