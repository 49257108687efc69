# SPDX-License-Identifier: Apache-2.0
"""Bounds on a mean, valid for any distribution of bounded costs and after any number of episodes.

The claim "the mean is at least m" is tested by betting. Before each cost x in [0, B] the bettor
stakes the share c of the largest admissible stake on x < m. The capital grows by the factor

    1 + c·(m − x)/(B − m)      against "the mean is at least m", needs x ≤ B
    1 + c·(x − m)/m            against "the mean is at most m",  needs x ≥ 0

If the claim is true, the expected capital does not grow, for any distribution of x. The capital
then *ever* exceeds 1/α with probability at most α (Ville). So a capital of 20 disproves the claim
at 95 %; the test may be read after every episode and stopped at any time (Waudby-Smith & Ramdas,
2024). The best stake is unknown, so the capital is divided among c = 1, 1/2, 1/4, ..., with weights
proportional to c. Full stakes are best if costs stay far below B, the usual case; small stakes
survive rare high costs. `evidence/verdict_episodes.py` compares them.

Both factors are monotone in m, so the values of m that are not disproved form an interval.
"""

import math
from collections.abc import Callable

import numpy as np

from holdfast.records.statistics import Array

STAKES: Array = np.exp2(-np.arange(10.0))
WEIGHTS: Array = STAKES / STAKES.sum()


def below_gain(costs: Array, m: float, bound: float) -> Array:
    """Relative gain of a full stake on "the mean is below m" for each cost."""
    return (m - costs) / (bound - m)


def above_gain(costs: Array, m: float) -> Array:
    """Relative gain of a full stake on "the mean is above m" for each cost."""
    if m <= 0:
        return np.where(costs > 0, np.inf, 0.0)
    return (costs - m) / m


def log_capital(gain: Array, stakes: Array = STAKES, weights: Array = WEIGHTS) -> Array:
    """[..., n] log of the capital after each of the gains [..., n]; the initial capital is 1."""
    with np.errstate(divide="ignore"):  # log 0: a full stake is lost
        each = [
            np.log(weight) + np.log1p(stake * gain).cumsum(-1)
            for stake, weight in zip(stakes, weights, strict=True)
        ]
    return np.logaddexp.reduce(each)


def upper_bound(costs: Array, bound: float, level: float = 0.95) -> float:
    """Upper confidence bound on the mean of costs [n] in [0, bound]; at most `bound`."""
    refuted = lambda m: _ever(below_gain(costs, m, bound), level)
    return boundary(refuted, bound, 0.0)


def lower_bound(costs: Array, level: float = 0.95) -> float:
    """Lower confidence bound on the mean of costs [n] that are not negative; at least 0."""
    refuted = lambda m: _ever(above_gain(costs, m), level)
    return boundary(refuted, 0.0, float(costs.max()))


def episodes_left(gain: Array, level: float = 0.95) -> float:
    """Expected further costs, like the observed ones, until a decision.

    It is (log 1/α − log capital) / growth, with the growth of the best stake on the observed costs;
    infinite if no stake grows.
    """
    with np.errstate(divide="ignore"):
        growth = max(float(np.log1p(stake * gain).mean()) for stake in STAKES)
    missing = -math.log(1.0 - level) - float(log_capital(gain)[-1])
    if missing <= 0:
        return 0.0
    return missing / growth if growth > 0 else math.inf


def _ever(gain: Array, level: float) -> bool:
    return float(log_capital(gain).max()) >= -math.log(1.0 - level)


def boundary(
    refuted: Callable[[float], bool], outer: float, inner: float, halvings: int = 40
) -> float:
    """The last value towards `inner` that is refuted, from `outer` on; `outer` if none is."""
    for _ in range(halvings):
        middle = 0.5 * (outer + inner)
        if refuted(middle):
            outer = middle
        else:
            inner = middle
    return outer
