# SPDX-License-Identifier: Apache-2.0
"""docs/images/tail.png: the same number as a limit on the mean and on the tail, solved exactly.

`python evidence/tail_picture.py` draws it anew.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from holdfast.core.limits import tail
from holdfast.tabular.budget_cmdp import best_within, episode_law, mean_limited, tail_of
from holdfast.tabular.cmdp import FiniteCMDP
from holdfast.tabular.lp import optimum

TARGET = Path(__file__).parents[1] / "docs" / "images" / "tail.png"
LIMIT, SHARE, SHOWN = 4.0, 0.2, 21


def gamble() -> FiniteCMDP:
    """One state: wait, take 1 at a cost of 1, or take 2.2 at a cost of 3; goes on with 4/5."""
    return FiniteCMDP(
        transition=np.ones((1, 3, 1)),
        reward=np.array([[0.0, 1.0, 2.2]]),
        cost=np.array([[[0.0, 1.0, 3.0]]]),
        cost_limit=np.array([np.inf]),
        initial=np.array([1.0]),
        gamma=0.8,
    )


def main() -> None:
    cmdp = gamble()
    by_mean = optimum(mean_limited(cmdp, 0, LIMIT))
    by_tail = best_within(cmdp, 0, tail(LIMIT, SHARE))
    policies = {
        f"limit {LIMIT:g} on the mean": (by_mean.policy, by_mean.reward_return),
        f"limit {by_tail.limit}": (by_tail.policy, by_tail.best.reward_return),
    }
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.2), sharey=True, layout="constrained")
    for ax, (title, (policy, reward)) in zip(axes, policies.items(), strict=True):
        amounts, law = episode_law(cmdp, 0, policy, 150)
        mean = float(amounts @ law)
        worst = tail_of(amounts, law, mean, SHARE)
        over = amounts > LIMIT
        ax.bar(amounts[~over][:SHOWN], law[~over][:SHOWN], color="tab:blue")
        ax.bar(amounts[over][:SHOWN], law[over][:SHOWN], color="tab:red")
        ax.axvline(LIMIT + 0.5, color="black", linestyle="--", linewidth=1)
        ax.set_title(title)
        ax.set_xlabel(f"cost of an episode: mean {mean:.2f}, worst 20 % {worst:.2f}")
        ax.text(0.97, 0.9, f"return {reward / 0.2:.2f}", transform=ax.transAxes, ha="right")
        ax.set_xlim(-0.8, SHOWN - 0.2)
        print(title, f"mean {mean:.3f} worst {worst:.3f} return {reward / 0.2:.3f}")
    axes[0].set_ylabel("probability")
    figure.savefig(TARGET, dpi=110)


if __name__ == "__main__":
    main()
