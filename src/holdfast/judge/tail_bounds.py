# SPDX-License-Identifier: Apache-2.0
"""Bounds on the mean of the worst share α of episodes, for any distribution of costs in [0, B].

CVaR ≤ m holds exactly if E(C − ν)₊ ≤ α (m − ν) for some ν (Rockafellar and Uryasev). Both
directions are claims about means of bounded numbers, tested by betting (`betting`):

    above m?   if CVaR ≥ m, then E(C − ν)₊ ≥ α (m − ν) for *every* ν. So every bet on less
               loses on average, and one capital can be divided among a few ν
    below m?   if CVaR ≤ m, then the bet of some ν loses on average, so all of them must win.
               Between two neighbours ν < ν' the bet on (C − ν')₊ against α (m − ν) is the hardest

Like bounds on a mean they hold after any number of episodes. Only a share α of the episodes is
informative, so a proof takes about 1/α times the episodes of one about the mean. If all costs are 0
it takes about 4.6 B / (α b).
"""

import math

import numpy as np

from holdfast.judge import betting
from holdfast.records.statistics import Array

SHARED = np.arange(4) / 4
"""Values of ν among which the capital is divided, in units of the limit."""
STEPS = np.arange(9) / 8
"""Ends of the intervals of ν that must all be refuted, in units of the tested value."""

HALVINGS = 18
"""Bisection steps of a bound: it is exact to 4 millionths of the range.
"""


def below_gains(costs: Array, m: float, share: float, amount: float, bound: float) -> Array:
    """[J, n] relative gains of full stakes on "the tail is below m"; ν are shares of the limit
    `amount`.
    """
    level = (amount * SHARED)[:, None]
    over = np.maximum(costs - level, 0.0)
    wanted = share * (m - level)
    gain = (wanted - over) / (bound - level - wanted)
    return np.where(level < m, gain, -1.0)  # above m nothing can be won: that part is lost


def above_gains(costs: Array, m: float, share: float) -> Array:
    """[I, n] relative gains of full stakes on "the tail is above m", one bet for each interval of
    ν.
    """
    low, high = (m * STEPS[:-1])[:, None], (m * STEPS[1:])[:, None]
    wanted = share * (m - low)
    if m <= 0:
        return np.where(costs > 0, np.inf, 0.0)[None]
    return (np.maximum(costs - high, 0.0) - wanted) / wanted


def upper_bound(costs: Array, share: float, amount: float, bound: float, level: float) -> float:
    """Upper confidence bound on the tail mean of costs [n] in [0, bound]; at most `bound`."""

    def refuted(m: float) -> bool:
        each = betting.log_capital(below_gains(costs, m, share, amount, bound))
        whole = np.logaddexp.reduce(each) - math.log(len(each))
        return float(whole.max()) >= -math.log(1.0 - level)

    return betting.boundary(refuted, bound, 0.0, HALVINGS)


def lower_bound(costs: Array, share: float, level: float) -> float:
    """Lower confidence bound on the tail mean of costs [n] that are not negative; at least 0."""

    def refuted(m: float) -> bool:
        each = betting.log_capital(above_gains(costs, m, share)).max(-1)
        return float(each.min()) >= -math.log(1.0 - level)

    return betting.boundary(refuted, 0.0, float(costs.max()), HALVINGS)


def left_above(costs: Array, share: float, amount: float, level: float) -> float:
    """Expected further episodes, like the observed ones, until the tail is proved above
    `amount`.
    """
    return max(betting.episodes_left(g, level) for g in above_gains(costs, amount, share))


def left_below(
    costs: Array, share: float, amount: float, bound: float | None, level: float
) -> float:
    """The same until the tail is proved below `amount`; infinite without a bound on costs."""
    if bound is None:
        return math.inf
    gains = below_gains(costs, amount, share, amount, bound)
    have = np.logaddexp.reduce(betting.log_capital(gains)[:, -1]) - math.log(len(gains))
    missing = -math.log(1.0 - level) - float(have)
    with np.errstate(divide="ignore"):
        stakes = betting.STAKES[:, None, None]
        growth = float(np.log1p(stakes * gains).mean(-1).max())
    return max(missing, 0.0) / growth if growth > 0 else math.inf
