# SPDX-License-Identifier: Apache-2.0
"""How fast the native tasks step, beside the engine alone.

    python benchmarks/env_speed.py [--seconds 4] [--envs 10 20] [--workers 1 2] [--tasks ID ...]

Both sides take random actions, with resets at the natural ends of episodes. "Engine" is `mj_step`
with the same lean models, actions, episode starts and number of processes, and nothing else: no
observation, reward, cost or layout. Each figure is the median of three interleaved rounds, so a
machine that slows down slows both sides.
"""

import argparse
import multiprocessing as mp
import os
import platform
import statistics
import time
from typing import Any

import numpy as np

from holdfast.envs import native
from holdfast.envs.acting import Actor
from holdfast.envs.native.batch.navigation import NavigationSimulation
from holdfast.envs.native.catalogue import simulate
from holdfast.envs.native.engine import COMPLETE, get_states, mujoco
from holdfast.envs.native.worlds.physics import SUBSTEPS

PAPER = (
    "SafetyAntVelocity-v1", "SafetyHalfCheetahVelocity-v1", "SafetyHumanoidVelocity-v1",
    "SafetyHopperVelocity-v1", "SafetyCarButton1-v0", "SafetyPointGoal1-v0",
    "SafetyRacecarCircle1-v0", "SafetyPointPush1-v0",
)  # fmt: skip
AIM = {"Ant": 0.85, "Humanoid": 0.85, "Racecar": 0.85}
CHUNK = 100
ROUNDS = 3


def drifter(env: Any) -> Actor:
    """No policy: uniform noise is the action."""
    return Actor((), np.ones(env.action_space.shape[0], np.float32))


def env_rate(env: Any, actor: Actor, seconds: float, steps: int) -> float:
    """Environment steps per second over at least `seconds`."""
    rng = np.random.default_rng(0)
    shape = (steps, env.num_envs, len(actor.std))
    done, begin = 0, time.perf_counter()
    while time.perf_counter() - begin < seconds:
        env.collect(actor, rng.uniform(-1, 1, shape).astype(np.float32))
        done += steps * env.num_envs
    return done / (time.perf_counter() - begin)


def starts_and_lengths(env_id: str) -> tuple[np.ndarray, list[int]]:
    """Eight episode starts as simulator states, and the lengths of eight episodes."""
    env = native.make(env_id, 8)
    env.reset(0)
    simulation: Any = env.simulation
    if isinstance(simulation, NavigationSimulation):
        return simulation.physics.states(), [simulation.time_limit] * 8
    states = get_states([simulation.model] * 8, simulation.datas)
    low, high = env.action_space.low, env.action_space.high
    rng, lengths = np.random.default_rng(1), np.zeros(8, int)
    alive = np.ones(8, bool)
    for _ in range(simulation.time_limit):
        step = env.step(rng.uniform(low, high, (8, len(low))).astype(np.float32))
        lengths += alive
        alive &= ~(step.terminated | step.truncated)
        if not alive.any():
            break
    return states, lengths.tolist()


def engine_loop(env_id: str, share: int, seconds: float, out: Any, ready: Any) -> None:
    """Nothing but `mj_step`, in one process."""
    simulation: Any = simulate(env_id, max(share, 8))
    simulation.seed(np.arange(simulation.num_envs))
    simulation.restart(np.arange(simulation.num_envs))
    states, lengths = starts_and_lengths(env_id)
    if isinstance(simulation, NavigationSimulation):
        models, datas, skip = simulation.physics.lean, simulation.physics.datas, SUBSTEPS
    else:
        models, datas = [simulation.model] * share, simulation.datas
        skip = simulation.robot.frame_skip
    models, datas = models[:share], datas[:share]
    low, high = simulation.action_low, simulation.action_high
    actions = np.random.default_rng(2).uniform(low, high, (CHUNK, share, len(low)))
    controls, left = [data.ctrl for data in datas], [lengths[i % 8] for i in range(share)]
    step = mujoco.mj_step
    ready.wait()
    done, begin = 0, time.perf_counter()
    while time.perf_counter() - begin < seconds:
        for rows in actions:
            for i in range(share):
                controls[i][:] = rows[i]
                step(models[i], datas[i], skip)
                left[i] -= 1
                if not left[i]:
                    mujoco.mj_setState(models[i], datas[i], states[i % 8], COMPLETE)
                    left[i] = lengths[i % 8]
        done += CHUNK * share
    out.put(done / (time.perf_counter() - begin))


def engine_rate(env_id: str, num_envs: int, workers: int, seconds: float) -> float:
    """The engine alone in as many processes."""
    spawn = mp.get_context("spawn")
    out, ready = spawn.SimpleQueue(), spawn.Barrier(workers)
    share = num_envs // workers
    arguments = (env_id, share, seconds, out, ready)
    processes = [spawn.Process(target=engine_loop, args=arguments) for _ in range(workers)]
    for process in processes:
        process.start()
    total = sum(out.get() for _ in processes)
    for process in processes:
        process.join()
    return total


def measure(env_id: str, num_envs: int, workers: int, seconds: float) -> tuple[float, float]:
    """(environment, engine) steps per second."""
    env = native.make(env_id, num_envs, workers=workers)
    env.reset(0)
    actor = drifter(env)
    rate = env_rate(env, actor, 0.3, 20)
    steps = max(20, int(rate * seconds / 2 / num_envs))  # workers meet only at an epoch's end
    pairs = [
        (env_rate(env, actor, seconds, steps), engine_rate(env_id, num_envs, workers, seconds))
        for _ in range(ROUNDS)
    ]
    env.close()
    ours, engine = zip(*pairs, strict=True)
    return statistics.median(ours), statistics.median(engine)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--envs", type=int, nargs="+", default=[10, 20])
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--tasks", nargs="+", default=PAPER)
    options = parser.parse_args()
    print(f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, ", end="")
    print(f"mujoco {mujoco.__version__}, median of {ROUNDS} rounds of {options.seconds} s")
    print(f"{'task':31} {'N':>3} {'workers':>7} {'steps/s':>9} {'engine':>9} {'share':>6}  aim")
    for env_id in options.tasks:
        aim = next((aim for robot, aim in AIM.items() if env_id.startswith(f"Safety{robot}")), 0.65)
        for workers in options.workers:
            for num_envs in options.envs:
                ours, engine = measure(env_id, num_envs, workers, options.seconds)
                share = ours / engine
                print(
                    f"{env_id:31} {num_envs:3} {workers:7} {ours:9.0f} {engine:9.0f} "
                    f"{share:6.2f}  {aim:.2f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
