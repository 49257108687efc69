# SPDX-License-Identifier: Apache-2.0
"""From which cost of a step on it pays to share foreign environments among worker processes.

    python benchmarks/foreign_speed.py [--steps 2000] [--envs 10]

An environment whose step does nothing but burn a given time acts for an epoch by a policy of the
usual size, in this process and in one worker a core; the quicker of two rounds each. What the
workers save each epoch must win back what starting them takes. `CHEAP` of
holdfast/envs/foreign/env.py is to lie where the two columns meet.
"""

from __future__ import annotations

import argparse
import os
import time
from typing import Any

import gymnasium as gym
import numpy as np

from holdfast.envs.acting import Actor, Normaliser
from holdfast.envs.foreign.env import open_foreign
from holdfast.envs.rollout import collect
from holdfast.process import cores

OBS, ACTIONS, HIDDEN = 20, 4, 64


class Burner(gym.Env):
    """Burns `seconds` of a core in each step."""

    observation_space = gym.spaces.Box(-1, 1, (OBS,), np.float64)
    action_space = gym.spaces.Box(-1, 1, (ACTIONS,), np.float32)

    def __init__(self, seconds: float) -> None:
        self.seconds, self.age = seconds, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.age = 0
        return np.zeros(OBS), {"cost": 0.0}

    def step(self, action: Any) -> Any:
        end = time.perf_counter() + self.seconds
        while time.perf_counter() < end:
            pass
        self.age += 1
        return np.zeros(OBS), 0.0, False, self.age >= 1000, {"cost": 0.0}


def policy() -> Actor:
    rng = np.random.default_rng(0)
    shapes = ((OBS, HIDDEN), (HIDDEN, HIDDEN), (HIDDEN, ACTIONS))
    draw = lambda *shape: rng.normal(0, 0.1, shape).astype(np.float32)
    layers = tuple((draw(*shape), draw(shape[1])) for shape in shapes)
    seen = Normaliser(np.zeros(OBS), np.ones(OBS), 1.0)
    return Actor(layers, np.ones(ACTIONS, np.float32), (), seen)


def seconds_of(count: int, steps: int, burnt: float, workers: int) -> tuple[float, float]:
    """(to open and reset, of an epoch)"""
    begin = time.perf_counter()
    how = "process" if workers > 1 else "sync"
    make = lambda: Burner(burnt)
    env: Any = open_foreign(make, count, vectorise=how, workers=workers)
    obs, actor = env.reset(0), policy()
    opened = time.perf_counter() - begin
    noise = actor.draw(np.random.default_rng(1), (steps, count))
    times = []
    for _ in range(2):
        begin = time.perf_counter()
        env.collect(actor, noise) if workers > 1 else collect(env, obs, actor, noise)
        times.append(time.perf_counter() - begin)
    env.close()
    return opened, min(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--envs", type=int, default=10)
    given = parser.parse_args()
    print(f"{given.envs} environments, epochs of {given.steps} steps of each, {cores()} workers, ")
    print(f"load {os.getloadavg()[0]:.1f}\n")
    print("| step of all, µs | epoch here, s | epoch in workers, s | gained | started in, s |")
    print("|---|---|---|---|---|")
    for burnt in (0.0, 1e-6, 1e-5, 3e-5, 1e-4):
        _, here = seconds_of(given.envs, given.steps, burnt, 1)
        opened, apart = seconds_of(given.envs, given.steps, burnt, cores())
        row = (here, apart, here / apart, opened)
        print(f"| {given.envs * burnt * 1e6:.0f} | " + " | ".join(f"{x:.2f}" for x in row) + " |")


if __name__ == "__main__":
    main()
