# SPDX-License-Identifier: Apache-2.0
"""How many steps the noise of actions lasts, found by what a run measures.

    u = max_i se(J_i) / b_i                    what an epoch leaves open of a cost, per limit
    ū = mean of u over the last ten epochs or so
    time = min(LONGEST, length / 20) · clip((ū − CLEAR) / (UNCLEAR − CLEAR), 0, 1)

A robot whose episodes cost much or nothing by the luck of their layout has a cost that an epoch
hardly knows, and white noise does not show what its actions do to it: noise that lasts makes it go
somewhere, so that costs mix within an episode. Where the cost is known well, or far below its
limit, u is small and the noise is white. A run begins with the longest time: the first epochs on
an unclear task are the costly ones, and on a clear task the second epoch is white.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

LONGEST = 10.0
"""Steps; advantages look 1 / (1 − γλ) ≈ 17 steps ahead, and longer noise shows them nothing."""
TIMES = 20
"""An episode is at least so many times as long as its noise lasts."""
CLEAR, UNCLEAR = 0.1, 0.2
"""Of ū: below the first the noise is white, above the second it lasts longest."""
REMEMBERED = 10
"""Epochs that ū is a mean of."""

Floats = NDArray[np.floating[Any]]
NoiseSetting = float | Literal["auto"]


@dataclass(frozen=True)
class NoiseTime:
    """The noise of the next epoch."""

    time: float
    """Steps that it lasts; 0: white."""
    unclear: float = 0.0
    """ū"""
    epochs: float = 0.0
    """That ū is made of."""

    @classmethod
    def create(cls, setting: NoiseSetting) -> NoiseTime:
        return cls(LONGEST if setting == "auto" else setting)

    def after(self, error: Floats, limit: Floats, length: float) -> NoiseTime:
        """After an epoch with these standard errors [K] of the costs and these limits [K].

        `length` is the mean one of its episodes: noise that outlasts them shows nothing.
        """
        found = _unclear(error, limit)
        epochs = self.epochs + 1
        mean = self.unclear + (found - self.unclear) / min(epochs, REMEMBERED)
        share = min(max((mean - CLEAR) / (UNCLEAR - CLEAR), 0.0), 1.0)
        longest = min(LONGEST, length / TIMES)
        return replace(self, time=longest * share, unclear=mean, epochs=epochs)


def _unclear(error: Floats, limit: Floats) -> float:
    """max_i se_i / b_i, at most 1: a cost whose error is its limit is not known at all."""
    return float(np.where(error < limit, error / np.where(limit > 0, limit, 1.0), error > 0).max())
