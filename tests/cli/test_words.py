# SPDX-License-Identifier: Apache-2.0
"""Errors name Python's arguments in Python and options on the command line; check shows facts."""

import re

import gymnasium as gym
import numpy as np
import pytest

from holdfast import cli, make_run
from holdfast.cli.words import for_shell
from holdfast.envs.check import check_env
from holdfast.envs.check.facts import describe_env
from holdfast.envs.make import known_ids, task_groups
from holdfast.train.environment import open_env, resolve_limits


@pytest.mark.parametrize(
    ("python", "shell"),
    [
        ("epoch_steps=7 is not", "--epoch-steps 7 is not"),
        ("raise epoch_steps to 40 or", "raise --epoch-steps to 40 or"),
        ("cost_estimate='window', which", "--cost-estimate window, which"),
        ("give trust_env=True, or env=.", "give --trust-env, or --env."),
        ("give limits={'heat': NUMBER, 'speed': 2}.", "give --limit heat=NUMBER --limit speed=2."),
        ("give env_args={...}.", "give --env-arg NAME=VALUE."),
        ("10 steps of each environment", "10 steps of each environment"),
        ("unknown key 'epoch_steps' in run", "unknown key 'epoch_steps' in run"),
        ("info['cost'] and self.np_random", "info['cost'] and self.np_random"),
        ("runs/epoch_steps/a", "runs/epoch_steps/a"),
    ],
)
def test_python_words_become_options(python, shell):
    assert for_shell(python) == shell


class Two(gym.Env):
    """Two costs, and no limit."""

    observation_space = gym.spaces.Box(-1.0, 1.0, (2,), np.float32)
    action_space = gym.spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.time += 1
        costs = {"cost_heat": float(action == 1), "cost_speed": float(action == 2)}
        return np.zeros(2, np.float32), 1.0, False, self.time == 5, costs


class Camera(Two):
    observation_space = gym.spaces.Box(0, 255, (16, 16, 3), np.uint8)

    def reset(self, *, seed=None, options=None):
        return np.zeros((16, 16, 3), np.uint8), super().reset(seed=seed)[1]

    def step(self, action):
        return np.zeros((16, 16, 3), np.uint8), *super().step(action)[1:]


def test_a_missing_limit_names_the_costs_that_there_are():
    run = make_run("c-trpo", env="two.py:Two", num_envs=1)
    with pytest.raises(ValueError, match="no limit for 'heat' and 'speed'") as caught:
        resolve_limits(run, open_env(run, Two))
    python = str(caught.value)
    assert "cost_limit=NUMBER for their sum, or limits={'heat': NUMBER, 'speed': NUMBER}" in python
    shell = for_shell(python)
    assert "--cost-limit NUMBER for their sum, or --limit heat=NUMBER --limit speed=" in shell
    assert "cost_limit" not in shell and "--cost-limit" not in python


def test_check_shows_spaces_costs_and_episodes(capsys):
    cli.main(["check", f"{__file__}:Two"])
    told = capsys.readouterr().out
    for words in ("observations: Box(-1.0, 1.0, (2,)", "actions:      Discrete(3)", "heat, speed"):
        assert words in told
    assert "none declared" in told and "--limit heat=NUMBER --limit speed=NUMBER" in told
    assert "limits:       cost 6" in describe_env("probe/Speed-v0")
    assert "up to 20 steps" in describe_env("probe/Speed-v0")


def test_check_on_images_names_the_encoder_that_reads_them():
    found = {finding.check: finding.remedy for finding in check_env(Camera)}
    assert "--encoder cnn" in found["image observation"]
    assert "image observation" not in {finding.check for finding in check_env(Two)}


def test_help_begins_with_ten_options_and_has_no_riddles(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "110")
    with pytest.raises(SystemExit):
        cli.main(["train", "c-trpo", "probe/Speed-v0", "--help"])
    told = capsys.readouterr().out
    first = told.partition("more options")[0]
    found = re.findall(r"(?<!-)--(?!no-|help)([a-z]+[a-z-]*)(?=[ ,])", first)
    assert found == "steps cost-limit limit seed out preset env-arg cost workers quiet".split()
    assert not re.search(r"\bD\d+\b|\{None\}|\[INT|\[FLOAT", told)
    assert "--epoch-steps INT" in told and "--hidden INT ..." in told


def test_every_task_has_a_group_and_a_line(capsys):
    groups = task_groups()
    assert [name for tasks in groups.values() for name in tasks] == list(known_ids())
    cli.main(["envs"])
    told = capsys.readouterr().out
    assert all(title in told for title in groups)
    assert "SafetyHalfCheetahVelocity-v1" in told and "forward speed at most 3.2096" in told
