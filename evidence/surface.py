# SPDX-License-Identifier: Apache-2.0
"""Stuck at the surface? C-TRPO with and without hysteresis, started unsafe, on an exact problem.

    python evidence/surface.py [--updates 200] [--seeds 5]

Everything is exact but the cost estimate that decides between reward and recovery: it has a normal
error of a share σ of the limit. σ = 0 is the control: without noise nothing should be stuck. The
second control starts inside. Prints a Markdown table; the last half of the updates counts.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np

from holdfast.algorithms import CTRPO
from holdfast.core.types import Learner
from holdfast.exact import enumerated, probabilities, tabular_policy, without_damping
from holdfast.tabular.cmdp import FiniteCMDP, Floats, toy, two_action_policy
from holdfast.tabular.lp import optimum
from holdfast.tabular.occupancy import evaluate

PAPER = CTRPO(barrier="entropy", margin_confidence=0.0)
UNSAFE, INSIDE = two_action_policy(0.1, 0.5), two_action_policy(0.3, 0.1)


@dataclass(frozen=True)
class Outcome:
    """Of the last half of the updates."""

    recovering: float
    """Share of updates in recovery."""
    above: float
    """Share of policies whose true cost is above the limit."""
    excess: float
    """Mean true cost / limit − 1."""
    gap: float
    """Mean distance of the return from the optimum, as a share of it."""


def run(
    cmdp: FiniteCMDP, start: Floats, hysteresis: float, noise: float, updates: int, seed: int
) -> Outcome:
    """C-TRPO's own update; only its cost estimate is disturbed."""
    limit, rng = float(cmdp.cost_limit[0]), np.random.default_rng(seed)
    with jax.enable_x64(True):
        algorithm = without_damping(replace(PAPER, hysteresis=hysteresis), 1e-3)
        improve = jax.jit(algorithm.improve)
        policy = tabular_policy(start)
        learner = Learner(policy, None, algorithm.init(1, policy))  # type: ignore[arg-type]
        rows: list[tuple[float, float, float]] = []
        for _ in range(updates):
            found = evaluate(cmdp, probabilities(learner.policy, cmdp.num_states))  # type: ignore[arg-type]
            batch = enumerated(cmdp, found)
            wrong = jnp.asarray(noise * limit * rng.normal(size=1))
            batch = replace(batch, cost_return=batch.cost_return + wrong)
            step = improve(learner, batch, jax.random.key(0))
            learner = learner.improved(step)
            rows.append(
                (
                    float(step.metrics["recovering"]),
                    float(found.cost_return[0]),
                    found.reward_return,
                )
            )
    recovering, cost, reward = np.array(rows[updates // 2 :]).T
    best = optimum(cmdp).reward_return
    return Outcome(
        recovering=float(recovering.mean()),
        above=float((cost > limit).mean()),
        excess=float(cost.mean() / limit - 1),
        gap=float(1 - reward.mean() / best),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--updates", type=int, default=200)
    parser.add_argument("--seeds", type=int, default=5)
    given = parser.parse_args()
    print("| start | σ | hysteresis | in recovery | truly above | mean cost / b − 1 | gap |")
    print("|---|---|---|---|---|---|---|")
    for name, start in (("unsafe", UNSAFE), ("inside", INSIDE)):
        for noise in (0.0, 0.05, 0.2):
            for hysteresis in (1.0, 0.8):
                seeds = range(1 if noise == 0 else given.seeds)
                each = [run(toy(), start, hysteresis, noise, given.updates, s) for s in seeds]
                mean = lambda field: np.mean([getattr(x, field) for x in each])  # noqa: B023
                numbers = f"{mean('recovering'):.0%} | {mean('above'):.0%} | {mean('excess'):+.1%}"
                print(
                    f"| {name} | {noise:g} | {hysteresis:g} | {numbers} | {mean('gap'):.1%} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
