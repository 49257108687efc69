# SPDX-License-Identifier: Apache-2.0
"""The default command, beside the environments alone and beside bare threads of the engine.

    python benchmarks/train_speed.py [--epochs 5] [--seconds 3] [--tasks ID ...]

`holdfast train c-trpo ID` without options but the number of steps: all cores, rows and checkpoints
written. For each task, in one run: the same environments with random actions, bare `mj_step` with
the same lean models in as many processes (benchmarks/env_speed.py), training, and the first two
again, so that a machine that drifts does so for all three. A rate of training is 20 000 steps by
the median time from one saved epoch to the next, without the first, which compiles. The seconds are
an epoch's: acting, advantages and targets, the update, and what is left (rows and checkpoint).

How much work a step is depends on what the robot does: a humanoid on its feet has more contacts to
solve than one that random actions have thrown down. So the environments also replay, alone and from
the same states, an epoch of the actions that the trained policy chose.

With `--parts` also the parts of the update, each by itself: critics, policy step; and what an epoch
of acting takes with critics fitted after it or beside it. `--set` gives settings by name, such as
`critic_first=false`: critics beside the policy step, instead of before it.

With `--model` instead: an epoch is measured with one worker and with two, a model of it is fitted
(benchmarks/epoch_model.py), and printed for more cores with the settings that it advises, beside
the measured epochs. Only the workers change, so the update's parts are those of the cores that XLA
sees.
"""

from __future__ import annotations

import argparse
import itertools
import os
import platform
import statistics
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jax
import mujoco
import numpy as np

from digests import read_setting
from env_speed import PAPER, drifter, engine_rate, env_rate
from epoch_model import fit_epoch
from holdfast import make_run
from holdfast.process import cores, use_compilation_cache
from holdfast.runs.folder import create
from holdfast.runs.training import train_in_folder
from holdfast.train.environment import open_env
from holdfast.train.epoch import TIME_COLUMNS
from holdfast.train.state import actor_of
from holdfast.train.update import make_update

OF_ENVIRONMENTS = 0.7
OF_ENGINE = {"Ant": 0.8, "HalfCheetah": 0.45, "PointGoal": 0.6, "CarButton": 0.85, "Racecar": 0.92}
"""Shares that are aimed at, by the beginning of the task's name."""


def epoch_seconds(run: Any, env: Any) -> tuple[dict[str, float], Any]:
    """Medians of the whole epoch and of its parts, and the last state."""
    times, rows, state = [], [], None
    with tempfile.TemporaryDirectory() as place:
        folder = create(Path(place, "run"), run, env)
        for epoch in train_in_folder(folder, env):
            times.append(time.perf_counter())
            rows.append(epoch.metrics)
            state = epoch.state
    whole = [after - before for before, after in itertools.pairwise(times)]
    medians = {name: statistics.median(row[name] for row in rows[1:]) for name in TIME_COLUMNS}
    return {"epoch": statistics.median(whole)} | medians, state


def replay_rate(run: Any, env: Any, state: Any, rounds: int = 3) -> float:
    """Environment steps per second under the actions of the policy in `state`, without it."""
    actor = actor_of(run, state)
    noise = actor.draw(np.random.default_rng(0), (run.epoch_steps // run.num_envs, run.num_envs))
    start = env.snapshot()
    actions = env.collect(actor, noise, None, state.memory).action
    alone, times = drifter(env), []
    for _ in range(rounds):
        env.restore(start)
        began = time.perf_counter()
        env.collect(alone, actions)
        times.append(time.perf_counter() - began)
    return run.epoch_steps / statistics.median(times)


def part_seconds(run: Any, env: Any, state: Any) -> dict[str, float]:
    """Critics and policy step, each by itself, on a batch of the task's own shape; and an epoch of
    acting with critics fitted after it, and beside it in a thread."""
    from holdfast.core.types import sampled_batch

    size, actions = state.obs.shape[1], state.learner.policy.action_dims
    normal = lambda seed, *shape: jax.random.normal(jax.random.key(seed), shape)
    count = run.epoch_steps
    batch = sampled_batch(
        normal(0, count, size),
        normal(1, count, actions),
        normal(2, count),
        normal(3, count, 1),
        cost_return=normal(4, 1) * 0,
        cost_limit=normal(4, 1) * 0 + 25,
        target=normal(5, count, 2),
    )
    update, key, actor = make_update(run.algorithm), jax.random.key(2), actor_of(run, state)
    noise = actor.draw(np.random.default_rng(0), (count // run.num_envs, run.num_envs))
    start = env.snapshot()

    def critics() -> None:
        picked = update.minibatches(key, batch)
        jax.block_until_ready(update.fit(state.learner.critics, batch, picked, None))

    def act() -> None:
        env.restore(start)
        env.collect(actor, noise, None, state.memory)

    def both() -> None:
        with ThreadPoolExecutor(1) as pool:
            fitting = pool.submit(critics)
            act()
            fitting.result()

    jobs = {
        "critics": critics,
        "policy": lambda: jax.block_until_ready(update.improve(state.learner, batch, key)),
        "after": lambda: (act(), critics()),
        "beside": both,
    }
    medians = {}
    for name, job in jobs.items():
        times = []
        for _ in range(6):
            started = time.perf_counter()
            job()
            times.append(time.perf_counter() - started)
        medians[name] = statistics.median(times[1:])
    return medians


def measure(
    env_id: str, epochs: int, seconds: float, parts: bool, settings: dict[str, Any]
) -> None:
    run = make_run("c-trpo", env=env_id, steps=epochs * 20_000, **settings)
    env = open_env(run)
    env.reset(0)
    actor = drifter(env)
    env_rate(env, actor, 0.2, 20)
    steps = run.epoch_steps // run.num_envs
    alone, engine = [], []
    for wave in range(2):
        alone.append(env_rate(env, actor, seconds, steps))
        engine.append(engine_rate(env_id, run.num_envs, cores(), seconds))
        if wave == 0:
            spent, state = epoch_seconds(run, env)
            same = replay_rate(run, env, state)
    only, bare = statistics.mean(alone), statistics.mean(engine)
    rate = run.epoch_steps / spent["epoch"]
    aim = next((aim for name, aim in OF_ENGINE.items() if env_id[6:].startswith(name)), None)
    split_up = [spent[name] for name in TIME_COLUMNS]
    split_up.append(spent["epoch"] - sum(split_up))
    if parts:
        split_up += part_seconds(run, env, state).values()
    env.close()
    cells = [
        f"{bare:,.0f}",
        f"{only:,.0f}",
        f"{same:,.0f}",
        f"{rate:,.0f}",
        f"{rate / only:.2f}",
        f"{rate / same:.2f}",
        f"{rate / bare:.2f}" + (f" ({aim:.2f})" if aim else ""),
        *(f"{part:.2f}" for part in split_up),
    ]
    print(f"| {env_id} | {' | '.join(cells)} |", flush=True)


def model(env_id: str, epochs: int) -> None:
    """Fit the model of an epoch on one and on two workers, and print it with its advice."""
    acting, whole, run = {}, {}, None
    for workers in (1, 2):
        run = make_run("c-trpo", env=env_id, steps=epochs * 20_000, workers=workers)
        env = open_env(run)
        spent, state = epoch_seconds(run, env)
        acting[workers], whole[workers] = spent["time_rollout"], spent["epoch"]
        if workers == 2:
            alone = part_seconds(run, env, state)
        env.close()
    assert run is not None
    update = alone["critics"] + alone["policy"]
    other = statistics.mean(whole[n] - acting[n] for n in whole) - update
    fitted = fit_epoch(acting[1], acting[2], alone["critics"], alone["policy"], max(other, 0.0))
    print(f"\n{env_id}: {fitted.advice(cores(), run.num_envs)}\n")
    head = ["workers", "acting, s", "critics", "step", "rest", "epoch", "measured", "steps/s"]
    print(f"| {' | '.join(head)} |\n{'|---' * len(head)}|")
    for n in (1, 2, 4, 8, 16):
        epoch = fitted.seconds(n)
        parts = (fitted.acting(n), fitted.critics, fitted.step, fitted.rest, epoch)
        cells = " | ".join(f"{x:.2f}" for x in parts)
        known = f"{whole[n]:.2f}" if n in whole else "–"
        print(f"| {n} | {cells} | {known} | {run.epoch_steps / epoch:,.0f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--tasks", nargs="+", default=PAPER)
    parser.add_argument("--parts", action="store_true", help="also the update's parts alone")
    parser.add_argument("--set", nargs="*", default=[], help="settings, as NAME=VALUE in JSON")
    parser.add_argument("--model", action="store_true", help="a model of an epoch, and its advice")
    options = parser.parse_args()
    settings = dict(map(read_setting, options.set))
    use_compilation_cache()
    print(f"{platform.machine()}, {cores()} cores, load {os.getloadavg()[0]:.1f} before, ", end="")
    print(f"jax {jax.__version__}, mujoco {mujoco.__version__}\n")
    if options.model:
        for env_id in options.tasks:
            model(env_id, options.epochs)
        return
    head = ["task", "engine, steps/s", "environments", "environments, same actions", "training"]
    head += [f"of environments ({OF_ENVIRONMENTS})", f"of same actions ({OF_ENVIRONMENTS})"]
    head += ["of engine (aim)"]
    head += ["acting, s", "estimate", "update", "saving"]
    parts = ["critics alone", "policy alone", "acting, then critics", "both at once"]
    head += parts if options.parts else []
    print(f"| {' | '.join(head)} |\n{'|---' * len(head)}|")
    for env_id in options.tasks:
        measure(env_id, options.epochs, options.seconds, options.parts, settings)


if __name__ == "__main__":
    main()
