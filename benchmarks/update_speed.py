# SPDX-License-Identifier: Apache-2.0
"""How long an update, a start and an epoch take, and how much memory a run needs.

    python benchmarks/update_speed.py [--quick | --start]

The paper's setting: 20 000 samples, observations of 27, actions of 8, 64×64, 15 iterations of CG,
10 critic passes of minibatches of 128. Prints Markdown for benchmarks/README.md.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from holdfast.algorithms import CTRPO
from holdfast.core.barrier import Barriers
from holdfast.core.critic import CriticFit, init_critics
from holdfast.core.linearise import linearise
from holdfast.core.policies import init_gaussian
from holdfast.core.trust_region import TrustRegion
from holdfast.core.types import Batch, Learner, sampled_batch
from holdfast.train.epoch import TIME_COLUMNS
from holdfast.train.update import make_update

SIZE, OBS, ACTIONS, CONSTRAINTS = 20_000, 27, 8, 1


def setting() -> tuple[Learner, Batch]:
    keys = jax.random.split(jax.random.key(0), 7)
    adv_c = jax.random.normal(keys[4], (SIZE, CONSTRAINTS))
    batch = sampled_batch(
        jax.random.normal(keys[1], (SIZE, OBS)),
        jax.random.normal(keys[2], (SIZE, ACTIONS)),
        jax.random.normal(keys[3], (SIZE,)),
        adv_c - adv_c.mean(0),
        cost_return=jnp.full(CONSTRAINTS, 15.0),
        cost_limit=jnp.full(CONSTRAINTS, 25.0),
        horizon=jnp.asarray(100.0),
        target=jax.random.normal(keys[5], (SIZE, 1 + CONSTRAINTS)),
    )
    policy = init_gaussian(keys[0], OBS, ACTIONS, (64, 64))
    critics = init_critics(keys[6], OBS, CONSTRAINTS, (64, 64))
    return Learner(policy, critics, CTRPO().init(CONSTRAINTS, policy)), batch


def clock(function, *args, repeats: int = 7) -> tuple[float, float]:
    """(seconds of the first call, median of the others)."""
    started = time.perf_counter()
    jax.block_until_ready(function(*args))
    first = time.perf_counter() - started
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        jax.block_until_ready(function(*args))
        times.append(time.perf_counter() - started)
    return first, float(np.median(times))


def update_parts() -> None:
    """Each part compiled alone, beside the whole update."""
    learner, batch = setting()
    wall = lambda b: Barriers("entropy", b.cost_limit - b.cost_return, jnp.ones(CONSTRAINTS))
    key = jax.random.key(1)

    def products(policy, b):
        local = linearise(policy, b, True)
        v = local.gradients(b.adv_r[:, None])[0]
        return jax.lax.fori_loop(0, 15, lambda _, u: local.fisher(u) + 0.1 * u, v)

    def candidate(policy, b):
        region, local = TrustRegion(), linearise(policy, b, True)
        return region.trial(local, local.moved(0.01 * local.theta), b.adv_r, wall(b))

    rows: list[tuple[str, object]] = [
        ("15 Fisher products", jax.jit(products)),
        ("one candidate of the search", jax.jit(candidate)),
        (
            "policy step, walls inverted within CG (default)",
            jax.jit(lambda p, b: TrustRegion().maximise(p, b, b.adv_r, wall(b))),
        ),
        (
            "policy step, CG on the plain sum (published)",
            jax.jit(lambda p, b: TrustRegion(solver="sum").maximise(p, b, b.adv_r, wall(b))),
        ),
    ]
    print("\n| part of an update | seconds | compile and first call |\n|---|---|---|")
    for name, function in rows:
        first, median = clock(function, learner.policy, batch)
        print(f"| {name} | {median:.3f} | {first:.1f} |", flush=True)
    algorithm = CTRPO()
    update, critic = make_update(algorithm), algorithm.critic
    fit = lambda: update.fit(learner.critics, batch, update.minibatches(key, batch), None)
    first, median = clock(fit)
    made = f"critics, {critic.critic_passes} passes of {critic.critic_minibatch}"
    print(f"| {made} | {median:.3f} | {first:.1f} |", flush=True)
    first, median = clock(update, learner, batch, key)
    print(
        f"| **whole update, critics first (default)** | **{median:.3f}** | {first:.1f} |",
        flush=True,
    )
    beside = replace(CTRPO(), critic=CriticFit())
    first, both = clock(make_update(beside), learner, batch, key)
    print(f"| whole update, critics beside the policy (published) | {both:.3f} | {first:.1f} |")
    print(f"\nPublished code on a GPU machine: 10.2 s; ours is {10.2 / median:.0f} times faster.")


START = """
import resource, sys, time
from holdfast.cli import main
main(sys.argv[2:])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


def start_and_memory(epochs: int) -> None:
    """From the command to the first row, with an empty and with a filled compilation cache."""
    place = Path(tempfile.mkdtemp())
    print(
        "\n| start of `holdfast train c-trpo SafetyHalfCheetahVelocity-v1` | to the first row, s |"
    )
    print("|---|---|")
    command = [sys.executable, "-c", START, "x", "train", "c-trpo", "SafetyHalfCheetahVelocity-v1"]
    for name in ("cold", "warm"):
        out = place / name
        process = subprocess.Popen(
            [*command, "--steps", "20000", "--out", str(out), "--quiet"],
            env=os.environ | {"JAX_COMPILATION_CACHE_DIR": str(place / "cache")},
            stdout=subprocess.DEVNULL,
        )
        started = time.perf_counter()
        while not (out / "progress.csv").exists() and process.poll() is None:
            time.sleep(0.01)
        print(f"| {name} | {time.perf_counter() - started:.1f} |", flush=True)
        process.wait()
    command[-1] = "SafetyAntVelocity-v1"
    print("\n| run of C-TRPO on SafetyAntVelocity-v1 | peak memory, MiB |\n|---|---|")
    for n in (2, epochs):
        out = place / f"memory{n}"
        told = subprocess.run(
            [*command, "--steps", str(20_000 * n), "--out", str(out), "--quiet"],
            env=os.environ | {"JAX_COMPILATION_CACHE_DIR": str(place / "cache")},
            capture_output=True,
            text=True,
            check=True,
        )
        print(f"| {n} epochs | {float(told.stdout.split()[-1]):.0f} |", flush=True)
        rows = (out / "progress.csv").read_text().splitlines()
    head, last = rows[0].split(","), rows[-1].split(",")
    row = dict(zip(head, map(float, last), strict=True))
    print("\n| profile of an epoch, SafetyAntVelocity-v1 | seconds |\n|---|---|")
    for part in TIME_COLUMNS:
        print(f"| {part[5:]} | {row[part]:.2f} |")
    print(f"| steps per second | {row['steps_per_second']:,.0f} |")
    shutil.rmtree(place)


FIRST_STEP = """
import os, sys, time
import holdfast.train

def stop(*_):
    with open("/proc/self/stat") as file:
        ticks = int(file.read().rpartition(")")[2].split()[19])
    with open("/proc/uptime") as file:
        up = float(file.read().split()[0])
    print(up - ticks / os.sysconf("SC_CLK_TCK"), time.process_time(), flush=True)
    os._exit(0)

holdfast.train.collect_epoch = stop
from holdfast.cli import main
main(sys.argv[1:])
"""


def first_step(task: str, rounds: int = 3) -> None:
    """From the start of the process to the call that takes the first step; medians when warm."""
    print(f"\n| `holdfast train c-trpo {task}` to its first step | wall s | processor s |")
    print("|---|---|---|")
    command = [sys.executable, "-c", FIRST_STEP, "train", "c-trpo", task]
    command += ["--steps", "20000", "--quiet"]
    with tempfile.TemporaryDirectory() as place:
        told: list[tuple[float, ...]] = []
        for number in range(1 + rounds):
            done = subprocess.run(
                [*command, "--out", f"{place}/{number}"],
                env=os.environ | {"JAX_COMPILATION_CACHE_DIR": f"{place}/cache"},
                capture_output=True,
                text=True,
                check=True,
            )
            told.append(tuple(map(float, done.stdout.split()[-2:])))
    warm = [float(np.median(column)) for column in zip(*told[1:], strict=True)]
    for name, seconds in (("cold", told[0]), ("warm", warm)):
        print(f"| {name} | {seconds[0]:.1f} | {seconds[1]:.1f} |", flush=True)


AGAIN = """
import time
from holdfast import Agent
for seed in range(3):
    begun = time.process_time()
    agent = Agent("c-trpo", seed=seed, epoch_steps=2_000, num_envs=4)
    agent.learn("probe/Speed-v0", 2_000, cost_limit=6.0, progress=False)
    print(time.process_time() - begun)
"""


def learn_again() -> None:
    """Three runs of one epoch and the same shapes, one after another in one process."""
    with tempfile.TemporaryDirectory() as cache:
        told = subprocess.run(
            [sys.executable, "-c", AGAIN],
            env=os.environ | {"JAX_COMPILATION_CACHE_DIR": cache},
            capture_output=True,
            text=True,
            check=True,
        )
    print("\n| `learn` in one process, one epoch | processor seconds |\n|---|---|")
    for name, seconds in zip(("first", "second", "third"), told.stdout.split(), strict=True):
        print(f"| {name} | {float(seconds):.2f} |")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="only the update")
    parser.add_argument("--start", action="store_true", help="only the start, to the first step")
    parser.add_argument("--epochs", type=int, default=12, help="of the long memory run")
    options = parser.parse_args()
    if options.start:
        first_step("SafetyPointGoal1-v0")
    else:
        update_parts()
        learn_again()
    if not options.quick and not options.start:
        start_and_memory(options.epochs)
