# SPDX-License-Identifier: Apache-2.0
"""A user's own environment under a tail limit, from the command line: trained, resumed, judged,
shipped; and the same in Python."""

import json
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from holdfast import Agent
from holdfast.cli import main
from holdfast.runs.folder import create, load_state, open_folder, state_arrays
from holdfast.runs.training import train_in_folder
from holdfast.ship.export.numpy_policy import Policy
from holdfast.train import train
from holdfast.train.environment import open_env
from small_runs import finish, rows_without_clock, same, small

LIMITS = {"tail": "4 worst 20%", "chance": "4 in 80%"}
ENV = '''
import gymnasium as gym
import numpy as np


class Tray(gym.Env):
    observation_space = gym.spaces.Box(-2.0, 2.0, (1,), np.float64)
    action_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float64)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.speed, self.time = self.np_random.uniform(0, 0.5), 0
        return np.array([self.speed]), {}

    def step(self, action):
        self.speed = float(np.clip(self.speed + 0.5 * np.clip(action[0], -1, 1), -2, 2))
        self.time += 1
        cost = max(0.0, self.speed - 1.0)
        return np.array([self.speed]), self.speed, False, self.time >= 20, {"cost": cost}


class Fragile(Tray):
    """Another environment with the same spaces: every cost is three times as high."""

    def step(self, action):
        *rest, info = super().step(action)
        return *rest, {"cost": 3 * info["cost"]}
'''


def run_of(kind, **settings):
    return small(limits={"cost": LIMITS[kind]}, cost_limit=None, **settings)


@pytest.mark.parametrize("kind", LIMITS)
def test_a_run_that_was_stopped_goes_on_bit_for_bit(kind, tmp_path):
    run = run_of(kind, num_envs=3, epoch_steps=210)  # episodes of 20 cross the epochs
    whole, halved = (create(tmp_path / name, run, open_env(run)) for name in ("whole", "halved"))
    finish(whole, open_env(run))
    for _ in zip(range(2), train_in_folder(halved, open_env(run)), strict=False):
        pass
    finish(open_folder(halved.path), open_env(run))
    assert rows_without_clock(whole.path / "progress.csv") == rows_without_clock(
        halved.path / "progress.csv"
    )
    ends = [load_state(folder)[0] for folder in (whole, halved)]
    same(*map(state_arrays, ends))
    assert "tally.epochs" in state_arrays(ends[0]) and ends[0].tally.epochs[:, 2].sum() > 30


def test_a_mean_limit_keeps_its_bits():
    """A limit by name as a number, as a text, and the limit of all are one run."""
    ways = [small(limits={"cost": 4}), small(limits={"cost": "4"}), small(cost_limit=4.0)]
    rows = [[epoch.metrics for epoch in train(run, open_env(run))] for run in ways]
    clockless = lambda row: {k: v for k, v in row.items() if "time" not in k and "per" not in k}
    first, *others = [[clockless(row) for row in each] for each in rows]
    assert all(np.array_equal(json.dumps(first), json.dumps(each)) for each in others)
    assert not any("tail" in name for name in first[0])


def test_too_rare_a_limit_is_refused_before_anything_runs(tmp_path):
    run = small(limits={"cost": "4 in 99.9%"}, cost_limit=None)
    with pytest.raises(ValueError, match=r"be tested with fewer than 20,000 episodes.*raise"):
        create(tmp_path / "run", run, open_env(run))
    assert not (tmp_path / "run").exists()
    allowed = small(limits={"cost": "4 worst 5%"}, cost_limit=None)
    create(tmp_path / "run", allowed, open_env(allowed))


def test_a_batch_without_the_budget_is_refused():
    plain = open_env(small())
    with pytest.raises(ValueError, match="needs its budget in the observations"):
        next(train(run_of("tail"), plain))


def said(capsys, *words):
    """(exit code, what a command printed)"""
    code = 0
    try:
        main([str(word) for word in words])
    except SystemExit as stopped:
        code = stopped.code or 0
    return code, capsys.readouterr().out


@pytest.mark.skipif(sys.platform == "win32", reason="paths with a drive are no references")
def test_from_the_command_line_on_a_users_own_environment(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tray.py").write_text(ENV)
    sizes = "--num-envs 4 --epoch-steps 200 --hidden 8 --steps 600 --quiet --workers 1".split()
    limit = ("--limit", "cost=4 worst 20%")
    code, _ = said(capsys, "train", "c-trpo", "tray.py:Tray", *limit, *sizes, "--out", "run")
    assert code == 0
    kept = json.loads((tmp_path / "run/run.json").read_text())
    assert kept["run"]["limits"] == {"cost": "4 worst 20%"} and kept["limits"] == {"cost": 4.0}
    assert kept["observation"]["shape"] == [2]
    header = (tmp_path / "run/progress.csv").read_text().splitlines()[0].split(",")
    assert {"tail", "tail_error", "tail_level"} <= set(header)
    judge = ("evaluate", "run", "--trust-env", "--cost-bound", "20", "--json")
    code, out = said(capsys, *judge, "--episodes", "60")
    row = json.loads(out)["cost"]["cost"]
    assert row["kind"] == "4 worst 20%" and row["limited"] <= row["proved_high_95"]
    assert code == {"yes": 0, "no": 1, "undecided": 3}[json.loads(out)["safe_at_95"]]
    code, out = said(capsys, *judge, "--episodes", "60", "--limit", "cost=4 in 80%")
    assert json.loads(out)["cost"]["cost"]["kind"] == "4 in 80%"
    elsewhere = (*judge[:3], "--cost-bound", "60", "--json", "--episodes", "30", "--env")
    with pytest.raises(ValueError, match="declares no limit for 'cost'"):
        Agent.load("run", trust_env=True).evaluate("tray.py:Fragile", episodes=30)
    _, here = said(capsys, *elsewhere, "tray.py:Tray", "--limit", "cost=4 worst 20%")
    _, there = said(capsys, *elsewhere, "tray.py:Fragile", "--limit", "cost=4 worst 20%")
    here, there = (json.loads(out) for out in (here, there))
    assert there["env"].endswith("Fragile") and there["cost"]["cost"]["kind"] == "4 worst 20%"
    assert there["cost"]["cost"]["mean"] >= here["cost"]["cost"]["mean"]
    assert said(capsys, "export", "run", "-o", "policy.npz")[0] == 0
    policy, agent = Policy("policy.npz"), Agent.load("run")
    for left in (1.0, 0.2, -1.0):
        ours = agent.predict(np.array([0.5]), budget=[left])
        np.testing.assert_allclose(policy(np.array([0.5]), budget=[left]), ours, rtol=1e-6)
    assert policy.about["budgets"] == {"cost": 4.0}
    with pytest.raises(ValueError, match="needs budget="):
        policy(np.array([0.5]))
    with pytest.raises(ValueError, match="pass budget="):
        agent.predict(np.array([0.5]))


COMMAND = """
import jax, sys
jax.config.update("jax_disable_most_optimizations", True)
from holdfast.cli import main
main(sys.argv[1:])
"""


@pytest.mark.skipif(sys.platform == "win32", reason="paths with a drive are no references")
def test_killed_resumed_judged_certified_and_exported(tmp_path, capsys, monkeypatch):
    """The whole story of a tail limit, by the commands that a user types."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tray.py").write_text(ENV)
    sizes = "--num-envs 4 --epoch-steps 200 --hidden 8 --steps 4000 --quiet --workers 1".split()
    train = ("train", "c-trpo", "tray.py:Tray", "--limit", "cost=4 worst 20%", *sizes, "--out")
    assert said(capsys, *train, "whole")[0] == 0
    killed = subprocess.Popen([sys.executable, "-c", COMMAND, *train, "run"])
    file = tmp_path / "run/progress.csv"
    while killed.poll() is None and not (file.exists() and file.read_bytes().count(b"\n") > 4):
        time.sleep(0.002)
    killed.send_signal(signal.SIGKILL)
    assert killed.wait(10) == -signal.SIGKILL and not (tmp_path / "run/done.json").exists()
    assert said(capsys, "resume", "run", "--trust-env", "--quiet")[0] == 0
    assert rows_without_clock(file) == rows_without_clock(tmp_path / "whole/progress.csv")
    same(*(state_arrays(load_state(open_folder(tmp_path / n))[0]) for n in ("run", "whole")))
    judge = ("--trust-env", "--cost-bound", "20", "--episodes", "60")
    code, out = said(capsys, "evaluate", "run", *judge, "--json")
    judged = json.loads(out)
    assert code == {"yes": 0, "no": 1, "undecided": 3}[judged["safe_at_95"]]
    assert said(capsys, "certify", "run", *judge, "--no-film")[0] in (0, 1, 3)
    card = json.loads((tmp_path / "run/card/card.json").read_text())
    assert card["verdict"]["cost"]["cost"]["limited"] == judged["cost"]["cost"]["limited"]
    page = (tmp_path / "run/card/card.html").read_text()
    assert "4 worst 20%" in page
    code, out = said(capsys, "export", "run", "-o", "policy.onnx")
    assert code == 0 and "same actions" in " ".join(out.split())
