# SPDX-License-Identifier: Apache-2.0
"""Bounds on a mean that hold for any law of bounded costs, at every number of episodes.

Test "the mean is at least m" by a game: before each cost x in [0, B], stake the share c of what
could be lost at most on x < m. The capital grows by the factor

    1 + c·(m − x)/(B − m)      against "the mean is at least m", needs x ≤ B
    1 + c·(x − m)/m            against "the mean is at most m",  needs x ≥ 0

and if the claim is true the game is not in the player's favour, whatever the law of x: the capital
exceeds 1/α with probability at most α, *ever* (Ville). So a capital of 20 disproves the claim at
95 %, one may look after every episode, and may stop or go on as one likes (Waudby-Smith & Ramdas,
2024). As nobody knows the best stake, the capital is shared among c = 1, 1/2, 1/4, ..., each with a
weight proportional to c. Full stakes are best where costs stay far below B, the usual case; small
ones survive rare disasters. `evidence/verdict_episodes.py` compares.

Both factors are monotone in m, so the values of m that are not disproved form an interval.
"""

import math
from collections.abc import Callable

import numpy as np

from holdfast.records.statistics import Array

STAKES: Array = np.exp2(-np.arange(10.0))
WEIGHTS: Array = STAKES / STAKES.sum()


def below_gain(costs: Array, m: float, bound: float) -> Array:
    """What a full stake on "the mean is below m" wins with each cost."""
    return (m - costs) / (bound - m)


def above_gain(costs: Array, m: float) -> Array:
    """What a full stake on "the mean is above m" wins with each cost."""
    if m <= 0:
        return np.where(costs > 0, np.inf, 0.0)
    return (costs - m) / m


def log_capital(gain: Array, stakes: Array = STAKES, weights: Array = WEIGHTS) -> Array:
    """[..., n] log of the capital after each of the gains [..., n]; it begins with 1."""
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
    """How many more costs like those seen will decide: (log 1/α − log capital) / growth.

    The growth is that of the best stake on the costs seen; infinite where none of them grows.
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
