# SPDX-License-Identifier: Apache-2.0
"""Limits are meant: a task's own is the default, and where there is none one must be given."""

import re
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

from holdfast import Agent, cli
from holdfast.bench.suite import cells, parse_suite
from holdfast.envs.base import Facts
from holdfast.envs.check.chance import cost_of_chance
from holdfast.envs.make import make_env
from holdfast.envs.probe import PROBES, ProbeEnv
from holdfast.run import make_run
from holdfast.runs.folder import open_folder
from holdfast.train.environment import Spaces, open_env

ROOT = Path(__file__).parents[2]


class Clock(gym.Env):
    """Each step costs 1; an episode has 2 steps, or 8 where its seed is odd."""

    observation_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.left = 8 if (seed or 0) % 2 else 2
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.left -= 1
        return np.zeros(1, np.float32), 0.0, self.left == 0, False, {"cost": 1.0}


def limits(env, source=None, **settings):
    run = make_run("c-trpo", env=env, num_envs=2, epoch_steps=2000, **settings)
    batch = open_env(run, source, trusted=True)
    try:
        return Spaces.of(run, batch).limits
    finally:
        batch.close()


@pytest.mark.parametrize("name", PROBES)
def test_a_probe_declares_its_limits(name):
    assert limits(name) == PROBES[name].cost_limits
    assert set(limits(name, cost_limit=3.0).values()) == {3.0}  # the user's word counts


def test_native_tasks_declare_25_for_each_constraint():
    assert limits("SafetyPointGoal1-v0") == {"cost": 25.0}
    with_workers = limits("SafetyPointGoal1-v0", workers=2)
    assert with_workers == {"cost": 25.0}
    assert limits("SafetyPointGoal2-v0", limits={"hazards": 5.0}) == {"hazards": 5.0}


def test_the_command_line_uses_the_task_s_own(tmp_path):
    flags = "--steps 200 --epoch-steps 200 --num-envs 4 --hidden 8 --quiet".split()
    out = tmp_path / "run"
    cli.main(["train", "c-trpo", "probe/Speed-v0", *flags, "--out", str(out)])
    assert open_folder(out).spaces.limits == {"cost": 6.0}
    assert open_folder(out).run.cost_limit is None


def test_any_other_environment_needs_one():
    with pytest.raises(ValueError) as error:
        limits("Clock", Clock)
    told = str(error.value)
    assert "declares no limit for 'cost'" in told and "--suggest-limit" in told
    assert limits("Clock", Clock, cost_limit=4.0) == {"cost": 4.0}
    with pytest.raises(ValueError, match="declares no limit"):  # 6 is for the plain sum
        limits("probe/Speed-v0", cost_criterion="discounted", cost_scale="discount")


def test_one_limit_for_all_is_refused_beside_limits_by_name():
    agent = Agent("trpo", num_envs=4, epoch_steps=200, hidden=(8,), critic_passes=1)
    told = r"cost_limit=3\.0 has no effect.*: give limits=\{'cost': 3\.0\}\."
    with pytest.raises(ValueError, match=told):
        agent.learn("probe/Speed-v0", 200, limits={"cost": 5.0}, cost_limit=3.0, progress=False)
    agent.learn("probe/Speed-v0", 200, limits={"cost": 5.0}, progress=False)
    with pytest.raises(ValueError, match=told):
        agent.learn(total_steps=200, cost_limit=3.0, progress=False)
    agent.learn(total_steps=200, limits={"cost": 3.0}, progress=False)
    assert agent.spaces.limits == {"cost": 3.0}


def test_a_declared_limit_is_checked_like_a_given_one(monkeypatch):
    declared = property(lambda _: Facts(cost_limits={"cost": 0.0}), lambda *_: None)
    monkeypatch.setattr(ProbeEnv, "facts", declared, False)
    with pytest.raises(ValueError, match="leaves no interior for a barrier"):
        limits("probe/Speed-v0")


def test_a_suite_gives_limits_by_task():
    data = {
        "steps": 200,
        "seeds": 1,
        "tasks": ["probe/Speed-v0", "probe/Machines-v0", "probe/Bandit-v0"],
        "algorithms": ["c-trpo", {"name": "cpo", "settings": {"cost_limit": 1.0}}],
        "limits": {"probe/Speed-v0": 4, "probe/Machines-v0": {"heat": 8.0, "noise": 7.0}},
    }
    found = {(c.run.name, c.run.env): c.run for c in cells(parse_suite("own", data))}
    assert found["c-trpo", "probe/Speed-v0"].cost_limit == 4.0
    assert found["c-trpo", "probe/Machines-v0"].limits == {"heat": 8.0, "noise": 7.0}
    assert found["c-trpo", "probe/Bandit-v0"].cost_limit is None
    assert found["cpo", "probe/Speed-v0"].cost_limit == 1.0  # under the algorithm: it wins
    with pytest.raises(ValueError, match="limits names 'probe/Sped-v0'; did you mean 'probe/Speed"):
        parse_suite("own", data | {"limits": {"probe/Sped-v0": 4}})
    with pytest.raises(ValueError, match=r"limits.probe/Speed-v0='much' must be a number"):
        parse_suite("own", data | {"limits": {"probe/Speed-v0": "much"}})


def test_the_cost_of_chance_counts_long_episodes_as_often_as_short_ones():
    seen = cost_of_chance(make_env(Clock, 4), episodes=40)
    assert seen.costs["cost"].mean() == 5.0 and sorted(set(seen.lengths)) == [2, 8]
    batch = make_env(Clock, 4)  # the control: the first 40 to end are mostly short
    batch.reset(0)
    ended, running, costs = 0, np.zeros(4), []
    while ended < 40:
        step = batch.step(np.zeros(4, int))
        running += step.cost[:, 0]
        done = step.terminated | step.truncated
        costs += running[done].tolist()
        running[done], ended = 0.0, ended + int(done.sum())
    assert np.mean(costs) < 4.5


def test_the_cost_of_chance_is_that_of_uniform_actions(capsys):
    n = 4000
    seen = cost_of_chance(make_env("probe/Bandit-v0", 100), episodes=n).costs["cost"]
    assert abs(seen.mean() - 1 / 3) < 4 * np.sqrt((1 / 5 - 1 / 9) / n)  # E a², a uniform
    cli.main(["check", "probe/Machines-v0", "--suggest-limit"])
    told = capsys.readouterr().out
    assert "Random actions cost" in told and "heat" in told and "noise" in told


def test_what_is_added_up_is_shown_in_its_parts(tmp_path, monkeypatch, capsys):
    """Who has two costs learns what each would be, and how to limit it."""
    monkeypatch.chdir(tmp_path)
    Path("tank.py").write_text((ROOT / "docs" / "examples" / "tank.py").read_text())
    cli.main(["check", "tank.py:Tank", "--suggest-limit"])
    told = " ".join(capsys.readouterr().out.split())
    assert "--limit spill=NUMBER --limit dry=NUMBER" in told
    spill, dry, both = (
        float(re.search(rf"{name} ([\d.e-]+) \(from", told)[1])
        for name in ("spill", "dry", "their sum")
    )
    assert spill > 0 and dry > 0 and both == pytest.approx(spill + dry, rel=1e-3)
    cli.main(["check", "tank.py:Tank", "--suggest-limit", "--limit", "spill=1"])
    told = " ".join(capsys.readouterr().out.split())  # the control: the one that was named
    assert "spill" in told and "dry 0" not in told and "their sum" not in told
    assert "without a limit: dry" in told
