# SPDX-License-Identifier: Apache-2.0
"""Seconds of one update of each algorithm at the paper's setting, on synthetic HalfCheetah arrays.

    python benchmarks/algorithm_update.py [ALGORITHM ...] [--repeat 3] [--all-passes]

20 000 samples, 17 observations, 6 actions, networks of 64-64, preset `published`. `--all-passes`
switches the KL stop off, so that first-order methods make all their passes: the worst case.
Prints Markdown: compilation, wall-clock and processor seconds (the median update).
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp

from holdfast.algorithms import ALGORITHMS
from holdfast.core.critic import init_critics
from holdfast.core.policies import init_gaussian
from holdfast.core.types import Batch, Learner, sampled_batch
from holdfast.run import configure, make_run
from holdfast.train.update import make_update

SIZE, OBS, ACTIONS = 20_000, 17, 6
PUBLISHED = {
    "c-trpo": 10.2,
    "cpo": 8.5,
    "cpo-hysteresis": 8.5,
    "pcpo": 8.6,
    "trpo-lag": 8.4,
    "cppo-pid": 2.2,
    "ppo-lag": 2.3,
    "focops": 14.6,
    "cup": 51.0,
    "ipo": 7.0,
    "p3o": 4.9,
    "ppo": 2.3,
}
"""Median update seconds of the published runs on HalfCheetahVelocity."""


def setting(algorithm: Any) -> tuple[Learner, Batch]:
    keys = jax.random.split(jax.random.key(0), 7)
    policy = init_gaussian(keys[0], OBS, ACTIONS, (64, 64))
    obs = jax.random.normal(keys[1], (SIZE, OBS))
    action = policy.outputs(obs)[0] + jax.random.normal(keys[2], (SIZE, ACTIONS))
    adv_c = jax.random.normal(keys[4], (SIZE, 1))
    batch = sampled_batch(
        obs,
        action,
        jax.random.normal(keys[3], (SIZE,)),
        adv_c - adv_c.mean(0),
        target=jax.random.normal(keys[5], (SIZE, 2)),
        cost_return=jnp.array([20.0]),
        cost_limit=jnp.array([25.0]),
    )
    batch = replace(batch, horizon=jnp.asarray(100.0), length=jnp.asarray(1000.0))
    critics = init_critics(keys[6], OBS, 1, (64, 64))
    return Learner(policy, critics, algorithm.init(1, policy)), batch


def measure(name: str, repeat: int, all_passes: bool) -> tuple[float, float, float, str]:
    run = make_run(name, "published")
    if all_passes and hasattr(run.algorithm, "loop"):
        run = configure(run, kl_stop=1e9)
    learner, batch = setting(run.algorithm)
    update = make_update(run.algorithm)
    walls, processors, metrics = [], [], {}
    for seed in range(repeat + 1):  # the first compiles
        wall, processor = time.perf_counter(), time.process_time()
        learner, metrics, _ = jax.block_until_ready(update(learner, batch, jax.random.key(seed)))
        walls.append(time.perf_counter() - wall)
        processors.append(time.process_time() - processor)
    middle = lambda values: sorted(values[1:])[len(values[1:]) // 2]
    passes = str(int(metrics["passes"])) if "passes" in metrics else "-"
    return walls[0] - middle(walls), middle(walls), middle(processors), passes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--all-passes", action="store_true")
    given = parser.parse_args()
    print("| algorithm | compile s | update s | processor s | passes | published update s |")
    print("|---|---|---|---|---|---|")
    for name in given.names or [n for n in ALGORITHMS if not n.startswith("c-trpo-")]:
        compiling, wall, processor, passes = measure(name, given.repeat, given.all_passes)
        known = PUBLISHED.get(name, "-")
        numbers = f"{compiling:.1f} | {wall:.2f} | {processor:.2f}"
        print(f"| {name} | {numbers} | {passes} | {known} |", flush=True)


if __name__ == "__main__":
    main()
