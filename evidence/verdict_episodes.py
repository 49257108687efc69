# SPDX-License-Identifier: Apache-2.0
"""How many episodes a proof takes: medians over simulated evaluations, for several kinds of bets.

python evidence/verdict_episodes.py            # the table of docs/verdict.md, a minute
"""

import argparse
import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from holdfast.judge import betting

Array = NDArray[np.float64]
BOUND, LIMIT, ENOUGH = 1000.0, 25.0, math.log(20)
SHAPES: dict[str, Callable[[np.random.Generator, float, tuple[int, int]], Array]] = {
    "normal, sd half the mean": lambda rng, m, size: np.maximum(rng.normal(m, m / 2, size), 0),
    "exponential": lambda rng, m, size: np.minimum(rng.exponential(m, size), BOUND),
    "500 or 0": lambda rng, m, size: 500.0 * (rng.random(size) < m / 500),
    "1000 or 0": lambda rng, m, size: 1000.0 * (rng.random(size) < m / 1000),
}


def shared(power: float) -> Callable[[Array, float], Array]:
    """Stakes 2⁻ᵏ with weights proportional to their power."""
    weights = betting.STAKES**power
    return lambda gain, _: betting.log_capital(gain, betting.STAKES, weights / weights.sum())


def fitted(gain: Array, widest: float) -> Array:
    """One stake that follows the mean and the variance seen so far (aGRAPA), at most 0.9."""
    count = np.arange(1, gain.shape[1] + 1)
    mean = gain.cumsum(1) / (count + 1)
    square = ((gain**2).cumsum(1) + widest**2 / 4) / (count + 1)
    stake = np.clip(mean / square, 0.0, 0.9)
    before = np.concatenate([np.zeros((len(gain), 1)), stake[:, :-1]], axis=1)
    return np.log1p(before * gain).cumsum(1)


def full(gain: Array, _: float) -> Array:
    """All on one throw, again and again: the best where costs stay far below B, ruin elsewhere."""
    return betting.log_capital(gain, np.ones(1), np.ones(1))


BETS = {
    "ours": shared(1.0),
    "full stake": full,
    "equal weights": shared(0.0),
    "one fitted stake": fitted,
}


def episodes(capital: Array) -> str:
    decided = capital >= ENOUGH
    taken = np.where(decided.any(1), decided.argmax(1) + 1, np.inf)
    middle = float(np.median(taken))
    return f"{middle:.0f}" if math.isfinite(middle) else f"> {capital.shape[1]}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=400)
    parser.add_argument("--most", type=int, default=10_000)
    options = parser.parse_args()
    print(f"| costs (limit {LIMIT:g}, B = {BOUND:g}) | mean | proved | {' | '.join(BETS)} |")
    print(f"|---|---|---|{'---|' * len(BETS)}")
    for name, draw in SHAPES.items():
        for mean in (5.0, 10.0, 15.0, 20.0, 30.0, 40.0):
            rng = np.random.default_rng(0)
            costs = draw(rng, mean, (options.repeats, options.most))
            safe = mean < LIMIT
            gain = (
                betting.below_gain(costs, LIMIT, BOUND)
                if safe
                else betting.above_gain(costs, LIMIT)
            )
            widest = BOUND / (BOUND - LIMIT if safe else LIMIT)  # of the gains there can be
            shown = " | ".join(episodes(bet(gain, widest)) for bet in BETS.values())
            answer = "safe" if safe else "unsafe"
            print(f"| {name} | {mean:g} | {answer} | {shown} |", flush=True)


if __name__ == "__main__":
    main()
