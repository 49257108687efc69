# SPDX-License-Identifier: Apache-2.0
"""End-to-end training of C-TRPO at the paper's setting, beside the environments alone.

    python benchmarks/train_speed.py [--epochs 4] [--workers 2] [--tasks ID ...]

10 environments, 20 000 steps an epoch, updates included, statistics frozen for an epoch so that the
workers act by themselves. For each task, in one run: the environments with random actions and the
engine alone (benchmarks/env_speed.py), then training; the split of an epoch comes from both:

    physics      the engine alone            estimate   advantages and targets
    arithmetic   environments minus engine   update     policy step and critics at once
    acting       rollout minus environments  alone      each of these two by itself
"""

from __future__ import annotations

import argparse
import os
import statistics
import time

import jax
import numpy as np

from env_speed import PAPER, drifter, engine_rate, env_rate
from holdfast import make_env, make_run
from holdfast.train import train
from holdfast.update import split

EPOCH = 20_000


def part_seconds(run, state) -> list[float]:
    """Policy step and critics, each by itself, on a batch of the task's own shape."""
    from holdfast.core.types import sampled_batch

    size, actions = state.obs.shape[1], state.learner.policy.action_dims
    noise = lambda seed, *shape: jax.random.normal(jax.random.key(seed), shape)
    batch = sampled_batch(
        noise(0, EPOCH, size),
        noise(1, EPOCH, actions),
        noise(2, EPOCH),
        noise(3, EPOCH, 1),
        cost_return=noise(4, 1) * 0,
        cost_limit=noise(4, 1) * 0 + 25,
        target=noise(5, EPOCH, 2),
    )
    medians = []
    parts = split(run.algorithm)
    for part, what in ((parts.improve, state.learner), (parts.fit, state.learner.critics)):
        times = []
        for _ in range(6):
            started = time.perf_counter()
            jax.block_until_ready(part(what, batch, jax.random.key(2)))
            times.append(time.perf_counter() - started)
        medians.append(statistics.median(times[1:]))
    return medians


def measure(env_id: str, epochs: int, workers: int, seconds: float) -> None:
    run = make_run("c-trpo", env=env_id, steps=epochs * EPOCH, workers=workers)
    env = make_env(env_id, run.num_envs, workers=workers)
    env.reset(0)
    actor = drifter(env)
    env_rate(env, actor, 0.2, 20)
    alone = env_rate(env, actor, seconds, 200)
    engine = engine_rate(env_id, run.num_envs, workers, seconds)
    rows, state = [], None
    for epoch in train(run, env):
        rows.append(epoch.metrics)
        state = epoch.state
    again = env_rate(env, actor, seconds, 200)
    env.close()
    median = lambda name: float(np.median([row[name] for row in rows[1:]]))
    rate, only = median("steps_per_second"), statistics.mean([alone, again])
    policy, critics = part_seconds(run, state)
    split = {
        "physics": EPOCH / engine,
        "arithmetic": EPOCH / only - EPOCH / engine,
        "acting": median("time_rollout") - EPOCH / only,
        "estimate": median("time_estimate"),
        "update": median("time_update"),
        "policy alone": policy,
        "critics alone": critics,
    }
    cells = " | ".join(f"{seconds:.2f}" for seconds in split.values())
    print(f"| {env_id} | {only:,.0f} | {rate:,.0f} | {rate / only:.2f} | {cells} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--tasks", nargs="+", default=PAPER)
    options = parser.parse_args()
    print(
        f"{options.workers} workers, load {os.getloadavg()[0]:.1f}; seconds of an epoch by part\n"
    )
    print("| task | env only, steps/s | training, steps/s | share | physics | arithmetic | acting "
          "| estimate | update | policy alone | critics alone |")  # fmt: skip
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for env_id in options.tasks:
        measure(env_id, options.epochs, options.workers, options.seconds)


if __name__ == "__main__":
    main()
