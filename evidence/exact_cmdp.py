# SPDX-License-Identifier: Apache-2.0
"""Every algorithm on enumerated random CMDPs, against the linear programme's optimum.

    python evidence/exact_cmdp.py [ALGORITHM ...] [--seeds 10] [--first 3] [--updates 400]

Batches are exact (weights are occupancies, advantages are true), so what is left of the gap is the
method's own: its bias, its step size, its price dynamics. Prints a Markdown table. `OWN` was chosen
on seeds 0 to 2, so the table begins at seed 3. `--constraints 2` takes problems with two limits.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from holdfast.algorithms import ALGORITHMS
from holdfast.core.critic import init_critics
from holdfast.core.types import Learner
from holdfast.exact import exact_batch, probabilities, tabular_policy
from holdfast.run import make_run
from holdfast.tabular.instances import random_cmdp, uniform_policy
from holdfast.tabular.lp import optimum
from holdfast.tabular.occupancy import evaluate
from holdfast.train.update import make_update

REGION = {"radius": 1e-3, "damping": 1e-6, "solver": "dense", "kl_average": False}
LOOP = {"actor_lr": 1e-2, "minibatch": 64, "passes": 20}
PRICE = {"multiplier_rule": "sgd", "multiplier_lr": 0.5}
OWN: dict[str, dict[str, Any]] = {
    "c-trpo": {"beta": 1e-2, "barrier": "log"},
    "c-trpo-no-hysteresis": {"beta": 1e-2, "barrier": "log"},
    "c-npg": {"beta": 1e-2, "barrier": "log"},
    "pcpo": {"reward_direction": "natural"},
    "trpo-lag": PRICE,
    "ppo-lag": PRICE,
    "cppo-pid": {"pid_p": 5.0, "pid_i": 0.5, "pid_d": 0.5},
    "focops": PRICE | {"mask": "sample", "temperature": 0.5},
    "cspo": PRICE,
    "cup": PRICE | {"multiplier_max": 5.0},
    "ipo": {"sharpness": 2000.0},
}
"""Settings in the units of these problems: costs and advantages are of order 0.1, not 100."""


def settings(name: str) -> Any:
    algorithm = make_run(name).algorithm
    shared = REGION if hasattr(algorithm, "region") else LOOP
    return make_run(name, **(shared | OWN.get(name, {}))).algorithm


def learn(algorithm: Any, improve: Any, seed: int, updates: int, constraints: int) -> Any:
    """(LP optimum, [updates] reward returns, [updates, K] costs above their limits)."""
    cmdp = random_cmdp(np.random.default_rng(seed), 8, 3, constraints)
    policy = tabular_policy(uniform_policy(cmdp))
    critics = jax.tree.map(
        lambda x: x.astype(jnp.float64) if x.dtype == jnp.float32 else x,
        init_critics(jax.random.key(0), 8, constraints, ()),
    )
    learner = Learner(policy, critics, algorithm.init(constraints, policy))
    rewards, excess = [], []
    for index in range(updates):
        probs = probabilities(learner.policy, 8)
        found = evaluate(cmdp, probs)
        rewards.append(found.reward_return)
        excess.append(found.cost_return - cmdp.cost_limit)
        batch = exact_batch(cmdp, probs)
        batch = replace(batch, progress=jnp.asarray(index / updates, batch.weight.dtype))
        step = improve(learner, batch, jax.random.fold_in(jax.random.key(1), index))
        learner = learner.improved(step)
    return optimum(cmdp).reward_return, np.array(rewards), np.array(excess)


def summary(
    name: str, seeds: int, updates: int, constraints: int, first: int = 0
) -> dict[str, float]:
    """Means over seeds of the last tenth's gap and excess, and of the worst excess on the way."""
    algorithm = settings(name)
    improve = make_update(algorithm).improve
    tail = max(1, updates // 10)
    rows = []
    for seed in range(first, first + seeds):
        best, rewards, excess = learn(algorithm, improve, seed, updates, constraints)
        rows.append(
            (
                (best - rewards[-tail:].mean()) / best,
                excess[-tail:].mean(0).max(),
                np.maximum(excess, 0).max(),
            )
        )
    gap, end, worst = np.array(rows).T
    return {
        "gap": float(gap.mean()),
        "worst_gap": float(gap.max()),
        "excess": float(end.max()),
        "on_the_way": float(worst.max()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first", type=int, default=3)
    parser.add_argument("--updates", type=int, default=400)
    parser.add_argument("--constraints", type=int, default=1)
    given = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    print("| algorithm | mean gap | largest gap | excess at the end | worst excess on the way |")
    print("|---|---|---|---|---|")
    skip = ("c-trpo-noise", "c-trpo-no-hysteresis")
    for name in given.names or [n for n in ALGORITHMS if n not in skip]:
        row = summary(name, given.seeds, given.updates, given.constraints, given.first)
        numbers = f"{row['gap']:.2%} | {row['worst_gap']:.2%} | {row['excess']:+.4f}"
        print(f"| {name} | {numbers} | {row['on_the_way']:.4f} |", flush=True)


if __name__ == "__main__":
    main()
