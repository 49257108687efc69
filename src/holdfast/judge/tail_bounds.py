# SPDX-License-Identifier: Apache-2.0
"""Bounds on the mean of the worst share α of episodes, for any law of costs in [0, B].

CVaR ≤ m holds exactly if E(C − ν)₊ ≤ α (m − ν) for some ν (Rockafellar and Uryasev). Both ways that
is a question about means of bounded numbers, and a game answers it (`betting`):

    above m?   if CVaR ≥ m, then E(C − ν)₊ ≥ α (m − ν) for *every* ν, so all that bet on less
               are unfair, and so is their average: one capital, shared among a few ν
    below m?   if CVaR ≤ m, then one ν exists whose game is unfair: all must be won. Between two
               neighbours ν < ν' the game on (C − ν')₊ against α (m − ν) is the hardest

Like those on a mean they hold after any number of episodes. The price: a share α of episodes is
what is looked at, so a proof takes about 1/α times the episodes of one about the mean; without any
cost it takes about 4.6 B / (α b).
"""

import math

import numpy as np

from holdfast.judge import betting
from holdfast.records.statistics import Array

SHARED = np.arange(4) / 4
"""ν among which the capital is shared, in units of the limit."""
STEPS = np.arange(9) / 8
"""Ends of the intervals of ν that must all be refuted, in units of what is tested."""

HALVINGS = 18
"""Of the search for a bound: to 4 millionths of the range, as each is as dear as 4 of a mean's."""


def below_gains(costs: Array, m: float, share: float, amount: float, bound: float) -> Array:
    """[J, n] what full stakes on "the tail is below m" win; ν are shares of the limit `amount`."""
    level = (amount * SHARED)[:, None]
    over = np.maximum(costs - level, 0.0)
    wanted = share * (m - level)
    gain = (wanted - over) / (bound - level - wanted)
    return np.where(level < m, gain, -1.0)  # above m nothing can be won: that part is lost


def above_gains(costs: Array, m: float, share: float) -> Array:
    """[I, n] what full stakes on "the tail is above m" win, one game for each interval of ν."""
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
    """How many more episodes like those seen will show that the tail is above `amount`."""
    return max(betting.episodes_left(g, level) for g in above_gains(costs, amount, share))


def left_below(
    costs: Array, share: float, amount: float, bound: float | None, level: float
) -> float:
    """How many more will show that it is below; infinite where an episode may cost anything."""
    if bound is None:
        return math.inf
    gains = below_gains(costs, amount, share, amount, bound)
    have = np.logaddexp.reduce(betting.log_capital(gains)[:, -1]) - math.log(len(gains))
    missing = -math.log(1.0 - level) - float(have)
    with np.errstate(divide="ignore"):
        stakes = betting.STAKES[:, None, None]
        growth = float(np.log1p(stakes * gains).mean(-1).max())
    return max(missing, 0.0) / growth if growth > 0 else math.inf
