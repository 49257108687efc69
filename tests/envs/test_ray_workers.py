# SPDX-License-Identifier: Apache-2.0
"""Workers that can be replaced: the bits of workers that were never lost."""

import os
import signal
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest

from holdfast.envs import native, ray_workers
from holdfast.envs.base import VecEnv
from holdfast.envs.make import make_env
from holdfast.envs.worker import Process
from holdfast.envs.worker_env import LOSSES
from holdfast.run import make_run
from holdfast.runs.folder import state_arrays
from holdfast.train import train
from holdfast.train.environment import open_env
from holdfast.train.epoch import CLOCK_COLUMNS

TASK = "SafetyPointGoal1-v0"
LONG = {"epoch_steps": 24_000, "steps": 48_000}
"""Epochs that last for seconds, so that a cluster tells of their progress."""


class Mortal(Process):
    """A real process that dies when it is asked for the n-th time, counted over all of them."""

    asked: ClassVar[list[str]] = []
    deaths: ClassVar[set[int]] = set()

    def request(self, head, arrays):
        if "do" in head:
            self.asked.append(head["do"])
            if len(self.asked) in self.deaths:
                self.process.kill()
                self.process.wait()
        super().request(head, arrays)


@pytest.fixture
def mortal(monkeypatch):
    monkeypatch.setattr(Mortal, "asked", [])
    monkeypatch.setattr(Mortal, "deaths", set())
    return Mortal


def lived(start: Callable[[Callable[[], VecEnv]], Process] | None):
    """What a batch of two workers says in a life with every kind of request."""
    env = native.make(TASK, 4, workers=2, start=start)
    rng, said = np.random.default_rng(0), []
    try:
        said.append(env.reset(3))
        for _ in range(3):
            said.append(env.step(rng.uniform(-1, 1, (4, 2))).obs)
        saved = env.snapshot()
        said += list(saved.values())
        said.append(env.step(rng.uniform(-1, 1, (4, 2))).reward)
        said.append(env.restore(saved))
        said.append(env.step(rng.uniform(-1, 1, (4, 2))).cost)
    finally:
        env.close()
    return [np.asarray(part).tobytes() for part in said]


@pytest.fixture(scope="module")
def undisturbed():
    return lived(None)


@pytest.mark.parametrize("death", [{1}, {4}, {7}, {10}, {12}, {13}, {16}, {5, 9, 14}])
def test_whenever_a_worker_dies_the_bits_are_the_same(death, mortal, undisturbed):
    mortal.deaths |= death
    assert lived(mortal) == undisturbed
    assert len(mortal.asked) > 16  # something was asked again


def test_a_worker_that_dies_again_and_again_is_given_up(mortal):
    mortal.deaths |= set(range(1, 100))
    with pytest.raises(RuntimeError, match="ended unexpectedly"):
        lived(mortal)
    assert len(mortal.asked) == 2 + 2 * LOSSES - LOSSES


def test_what_a_cluster_is_not_for_is_told():
    for words, options in (
        ("--workers N", {"lockstep": False}),
        ("--normalise epoch", {"workers": 2, "lockstep": True}),
    ):
        with pytest.raises(ValueError, match=words):
            make_env(TASK, 4, cluster="auto", **options)
    with pytest.raises(ValueError, match="cannot be distributed"):
        make_env("probe/Speed-v0", 4, cluster="auto", workers=2, lockstep=False)


class NoRoom:
    """A Ray whose actors begin after so many looks."""

    exceptions = SimpleNamespace(RayError=OSError)

    def __init__(self, looks: int) -> None:
        self.looks = looks

    def remote(self, **options):
        answer = SimpleNamespace(remote=lambda head, arrays: "pending")
        return lambda kind: SimpleNamespace(remote=lambda: SimpleNamespace(answer=answer))

    def wait(self, pending, timeout):
        self.looks -= 1
        return (pending, []) if self.looks < 0 else ([], pending)

    def get(self, pending):
        return {}, {}


@pytest.mark.parametrize(("patience", "told"), [(0.0, 1), (1e9, 0)])
def test_an_actor_that_finds_no_room_is_told_of_once(patience, told, monkeypatch, caplog):
    monkeypatch.setattr(ray_workers, "PATIENCE", patience)
    actor = ray_workers.RayPeer(NoRoom(looks=3), Mortal)
    assert actor.answer(None).head == {}
    assert caplog.text.count("no free core") == told


@pytest.fixture
def cluster(cluster):
    """With two nodes."""
    import ray

    ray.init(address=cluster.address, _node_ip_address="127.0.0.1", log_to_driver=False)
    cluster.nodes = [cluster.add_node(num_cpus=2, node_ip_address="127.0.0.1") for _ in range(2)]
    yield cluster
    ray.shutdown()


def learned(run, strike=None, **options):
    """The last state of a run and its rows, without the clock; it is struck while an epoch runs."""
    left = [strike] if strike else []

    def on_progress(steps):
        if steps and left:
            left.pop()()

    env = open_env(run, trusted=True, **options)
    try:
        rows, state = [], None
        for epoch in train(run, env, on_progress=on_progress):
            rows.append({k: repr(v) for k, v in epoch.metrics.items() if k not in CLOCK_COLUMNS})
            state = epoch.state
        assert not left, "it was never struck"
        return rows, {name: a.tobytes() for name, a in state_arrays(state).items()}
    finally:
        env.close()


def run_of(env, workers, **settings):
    settings = {"epoch_steps": 4000, "steps": 16_000, "num_envs": 4, "hidden": (8,)} | settings
    return make_run("c-trpo", env=env, workers=workers, **settings)


@pytest.mark.extras
@pytest.mark.filterwarnings("ignore")
def test_a_run_on_a_cluster_learns_the_bits_of_a_local_one(cluster):
    """Two and three actors; then a node is killed in the middle of an epoch."""
    calm = learned(run_of(TASK, 1))
    assert all(float(row["noise_time"]) > 0 for row in calm[0])  # correlated noise, too
    for workers in (2, 3):
        assert learned(run_of(TASK, workers), cluster=cluster.address) == calm
    own = f"{Path(__file__).parent / 'drift_env.py'}:Drift"
    foreign = {"cost_limit": 5.0, "epoch_steps": 400, "steps": 1600}
    local = learned(run_of(own, 1, **foreign))
    assert learned(run_of(own, 2, **foreign), cluster=cluster.address) == local
    lose = partial(cluster.remove_node, cluster.nodes[0], False)
    assert learned(run_of(TASK, 2, **LONG), lose, cluster=cluster.address) == learned(
        run_of(TASK, 1, **LONG)
    )


def hosts() -> list[int]:
    """The processes of workers on the cluster."""
    found = []
    for command in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if command.read_bytes().startswith(b"ray::Hosted"):
                found.append(int(command.parent.name))
    return found


@pytest.mark.extras
@pytest.mark.filterwarnings("ignore")
def test_workers_of_a_machine_that_is_cut_off_are_replaced(cluster, caplog):
    """It lives, and nothing of it gets through any more."""
    import psutil

    (raylet,) = [i.process.pid for i in cluster.nodes[0].all_processes["raylet"]]
    lost = [psutil.Process(raylet)]

    def strike() -> None:
        lost.extend(lost[0].children(recursive=True))
        for process in lost:
            process.suspend()

    try:
        struck = learned(run_of(TASK, 2, **LONG), strike, cluster=cluster.address)
    finally:
        for process in lost:
            with suppress(psutil.Error):
                process.resume()
    assert struck == learned(run_of(TASK, 1, **LONG))
    assert "another one takes its place" in caplog.text


@pytest.mark.extras
@pytest.mark.filterwarnings("ignore")
def test_an_actor_killed_in_the_middle_of_an_epoch_is_replaced(cluster, caplog):
    strike = lambda: os.kill(hosts()[0], signal.SIGKILL)
    calm = learned(run_of(TASK, 1, **LONG))
    assert learned(run_of(TASK, 2, **LONG), strike, cluster=cluster.address) == calm
    assert "another one takes its place" in caplog.text
    with pytest.raises(ValueError, match="has 4 cores, and 8 workers"):
        open_env(run_of(TASK, 8, num_envs=8, epoch_steps=8000), cluster=cluster.address)
