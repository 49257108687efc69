# SPDX-License-Identifier: Apache-2.0
"""Environments in worker processes: the numbers of the loop, and ends that leave nothing behind."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import gymnasium as gym
import numpy as np
import pytest
from walk_env import Walk, assert_same, info_named, play

from holdfast.envs.foreign.env import open_foreign
from holdfast.envs.make import make_env
from holdfast.envs.worker import Message, Worker, pickled
from holdfast.envs.worker_env import WorkerEnv


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_processes_give_the_numbers_of_the_loop(workers):
    cost = lambda obs, action, new, info: [info["cost"], action[0]]
    options = {"cost": cost, "constraints": ("far", "push")}
    loop = open_foreign(Walk, 5, **options)
    split = open_foreign(Walk, 5, vectorise="process", workers=workers, **options)
    assert loop.cost_names == split.cost_names and loop.action_space == split.action_space
    assert_same(play(loop), play(split))
    assert_same(play(loop, seed=9), play(split, seed=9))
    split.close()
    split.close()
    with pytest.raises(RuntimeError, match="is closed"):
        split.reset(0)


def test_a_worker_refuses_what_it_does_not_know():
    worker = Worker(lambda *_: None)
    assert not worker.answer(
        Message({}, {"open_share": pickled(lambda: open_foreign(Walk, 2))})
    ).head
    start = worker.answer(Message({"do": "reset", "seed": 3}, {})).arrays["obs"]
    kept = worker.answer(Message({"do": "snapshot"}, {})).arrays
    back = worker.answer(Message({"do": "restore"}, kept))
    assert not back.head and np.array_equal(back.arrays["obs"], start)
    refused = worker.answer(Message({"do": "forget"}, kept))
    assert "unknown request 'forget'" in str(refused.head) and not refused.arrays


class Slow(Walk):
    def step(self, action):
        time.sleep(2e-3)
        return super().step(action)


def test_auto_shares_what_is_dear_and_can_be_sent(monkeypatch):
    """Cheap batches, single environments and what no other process can open stay here."""
    monkeypatch.setenv("HOLDFAST_CORES", "2")
    lock = threading.Lock()
    kept = (
        (Walk, 4, {}),
        (Slow, 1, {}),
        (lambda: Slow() if lock else None, 4, {}),
        (Slow, 4, {"workers": 1}),
        (Slow, 4, {"vectorise": "sync"}),
        (Slow, 4, {"lockstep": True}),
    )
    for source, count, options in kept:
        env = make_env(source, count, **{"lockstep": False} | options)
        assert not isinstance(env, WorkerEnv), options
        env.close()
    loop = make_env(Slow, 4, vectorise="sync")
    for source, options in ((Slow, {}), (Walk, {"workers": 2})):
        shared = make_env(source, 4, lockstep=False, **options)
        assert isinstance(shared, WorkerEnv) and shared.facts.workers == 2
        assert_same(play(loop, steps=20), play(shared, steps=20))
        shared.close()


def test_processes_run_ids_that_only_this_process_registered():
    gym.register("local/Walk-v0", lambda: Walk(info_named))
    try:
        loop = make_env("local/Walk-v0", 2)
        split = make_env("local/Walk-v0", 2, vectorise="process", workers=2)
        assert_same(play(loop), play(split))
        split.close()
    finally:
        del gym.registry["local/Walk-v0"]


def test_worker_errors_name_environment_and_cause():
    def fails_late(x):
        if abs(x) > 0.8:
            raise OSError("sensor unplugged")
        return {"cost": 0.0}

    env = open_foreign(lambda: Walk(fails_late), 3, vectorise="process", workers=2)
    env.reset(0)
    with pytest.raises(RuntimeError, match=r"OSError: sensor unplugged .*environment \d") as caught:
        for _ in range(100):
            env.step(np.zeros((3, 1)))
    assert "fails_late" in caught.value.__notes__[0]
    with pytest.raises(RuntimeError, match="is closed"):
        env.step(np.zeros((3, 1)))


def test_a_worker_that_dies_is_reported_and_all_are_ended():
    def dies(x):
        if abs(x) > 0.8:
            os._exit(3)
        return {"cost": 0.0}

    env = open_foreign(lambda: Walk(dies), 4, vectorise="process", workers=2)
    env.reset(0)
    processes = [peer.process for peer in env._peers]
    with pytest.raises(
        RuntimeError, match=r"environments \d-\d of Env .Walk. ended unexpectedly.*exit code 3"
    ):
        for _ in range(100):
            env.step(np.zeros((4, 1)))
    assert all(process.poll() is not None for process in processes)


def test_forgetting_the_batch_ends_its_workers():
    env = open_foreign(Walk, 2, vectorise="process", workers=2)
    processes = [peer.process for peer in env._peers]
    assert all(process.poll() is None for process in processes)
    del env
    assert [process.wait(10) for process in processes] == [0, 0]


SCRIPT = """
    import sys, numpy as np, gymnasium as gym
    from gymnasium import spaces
    from holdfast.envs.foreign.env import open_foreign

    class Chatty(gym.Env):
        observation_space = spaces.Box(-1.0, 1.0, (1,), np.float32)
        action_space = spaces.Discrete(2)
        def reset(self, *, seed=None, options=None):
            print("a worker's word on stdout")
            return np.zeros(1, np.float32), {}
        def step(self, action):
            print("another")
            return np.zeros(1, np.float32), 1.0, False, False, {"cost": 0.0}

    # no `if __name__ == "__main__"`: workers must not run this script again
    env = open_foreign(Chatty, 2, vectorise="process", workers=2)
    env.reset(0)
    try:
        print("pids", *(p.pid for p in (peer.process for peer in env._peers)), flush=True)
        while True:
            env.step(np.zeros(2, int))
    except KeyboardInterrupt:
        print("interrupted", flush=True)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX signals")
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_interrupt_and_kill_leave_no_worker_behind(how, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(SCRIPT))
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    parent = subprocess.Popen(
        [sys.executable, script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=environment, start_new_session=True,
    )  # fmt: skip
    line = next(line for line in parent.stdout if line.startswith("pids"))
    workers = [int(pid) for pid in line.split()[1:]]
    os.killpg(parent.pid, how)
    out, err = parent.communicate(timeout=30)
    deadline = time.monotonic() + 10
    while any(map(alive, workers)) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert len(workers) == 2 and not any(map(alive, workers))
    if how == signal.SIGINT:
        assert out.splitlines()[-1] == "interrupted" and parent.returncode == 0
        assert "Traceback" not in err


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
