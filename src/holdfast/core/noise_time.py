# SPDX-License-Identifier: Apache-2.0
"""Correlation time of the action noise, chosen by the measured uncertainty of costs.

    u = max_i se(J_i) / b_i                    what an epoch leaves open of a cost, per limit
    ū = mean of u over the last ten epochs or so
    time = min(LONGEST, length / 20) · clip((ū − CLEAR) / (UNCLEAR − CLEAR), 0, 1)

If the cost of an episode depends mostly on its random layout, the estimate of one epoch is
uncertain, and white noise does not reveal the effect of actions. Correlated noise moves the robot
further, so that costs mix within an episode. If the cost is known well, or is far below its limit,
u is small and the noise is white. A run begins with the longest time: on an uncertain task the
first epochs cost most, and on a certain task the noise is white from the second epoch on.

Noise that has become white stays white. Where correlated noise makes a robot fall, it makes costs
uncertain by itself, and the rule would take that uncertainty for a reason to keep it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

LONGEST = 10.0
"""Largest time in steps; advantages look 1 / (1 − γλ) ≈ 17 steps ahead, so longer noise has no
use.
"""
TIMES = 20
"""An episode is at least so many times as long as its noise."""
CLEAR, UNCLEAR = 0.1, 0.2
"""Thresholds of ū: below the first the noise is white, above the second it has the largest time."""
REMEMBERED = 10
"""Number of epochs in the mean ū."""

Floats = NDArray[np.floating[Any]]
NoiseSetting = float | Literal["auto"]


@dataclass(frozen=True)
class NoiseTime:
    """The noise of the next epoch."""

    time: float
    """Correlation time in steps; 0: white."""
    unclear: float = 0.0
    """ū"""
    epochs: float = 0.0
    """Number of epochs in ū so far."""

    @classmethod
    def create(cls, setting: NoiseSetting) -> NoiseTime:
        return cls(LONGEST if setting == "auto" else setting)

    def after(self, error: Floats, limit: Floats, length: float) -> NoiseTime:
        """The noise after an epoch with these standard errors [K] of the costs and these limits
        [K].

        `length` is the mean length of its episodes, which bounds the time.
        """
        epochs = self.epochs + 1
        if self.epochs and not self.time:
            return replace(self, epochs=epochs)
        found = _unclear(error, limit)
        mean = self.unclear + (found - self.unclear) / min(epochs, REMEMBERED)
        share = min(max((mean - CLEAR) / (UNCLEAR - CLEAR), 0.0), 1.0)
        longest = min(LONGEST, length / TIMES)
        return replace(self, time=longest * share, unclear=mean, epochs=epochs)


def _unclear(error: Floats, limit: Floats) -> float:
    """max_i se_i / b_i, at most 1: an error as large as the limit means that the cost is
    unknown.
    """
    return float(np.where(error < limit, error / np.where(limit > 0, limit, 1.0), error > 0).max())
