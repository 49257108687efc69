# SPDX-License-Identifier: Apache-2.0
"""The noise of actions: white, or correlated over a few steps.

    ε_t = ρ ε_{t−1} + √(1 − ρ²) w_t,    ρ = exp(−1 / time),    ε_0, w_t ~ N(0, 1)

Every ε_t is standard normal, so the distribution of a single action does not depend on `time`:
likelihoods, KL and Fisher matrix are unchanged. Only successive actions are correlated, which moves
a robot further than white noise. Choices take Gumbel noise g = −log(−log Φ(ε)): its distribution is
exact, too, and successive choices tend to be equal.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
from numpy.typing import NDArray

Float32 = NDArray[np.float32]


def persistence(time: float) -> float:
    """ρ, the correlation of two steps; 0 for white noise."""
    return math.exp(-1 / time) if time > 0 else 0.0


def slow_normal(
    rng: np.random.Generator, shape: tuple[int, ...], time: float, before: Float32 | None = None
) -> Float32:
    """ε [T, ...]; `before` [...] is the ε of the step before the first, None: there is none."""
    fresh = rng.standard_normal(shape, np.float32)
    rho = np.float32(persistence(time))
    if not rho:
        return fresh
    out = np.sqrt(1 - rho * rho) * fresh
    out[0] = fresh[0] if before is None else rho * before + out[0]
    # A loop, not scipy.signal.lfilter, which takes a second to import and gives the same bits.
    for last, now in itertools.pairwise(out.reshape(len(out), -1)):
        now += rho * last
    return out


def gumbel(normal: Float32) -> Float32:
    """Standard Gumbel numbers, one for each standard normal one, in the same order."""
    from scipy.special import log_ndtr

    return -np.log(-log_ndtr(normal.astype(np.float64))).astype(np.float32)
