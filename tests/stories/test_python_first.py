# SPDX-License-Identifier: Apache-2.0
"""Python as a new user meets it: names, signatures, tables, and epochs that fit the task."""

import importlib.util
import inspect
import sys
import warnings
from dataclasses import replace
from pathlib import Path
from typing import get_type_hints

import gymnasium as gym
import numpy as np
import pytest

import holdfast
from holdfast import Agent, make_env, make_run, suggest_limit
from holdfast.algorithms import ALGORITHMS
from holdfast.bars.training_bar import training_bar
from holdfast.console import plain_console
from holdfast.envs.check import check_env
from holdfast.judge.evaluate import Evaluation, limits_elsewhere
from holdfast.judge.verdict import verdict
from holdfast.keywords import SettingArguments
from holdfast.runs.sinks import TensorBoard
from holdfast.settings import leaves
from holdfast.train.environment import with_fitting_epochs

SMALL = dict(num_envs=4, epoch_steps=200, hidden=(8,), critic_passes=1, cg_steps=3)


class Hold(gym.Env):
    """Twenty steps, each of which costs what the action is."""

    observation_space = gym.spaces.Box(-1.0, 1.0, (2,), np.float32)
    action_space = gym.spaces.Box(0.0, 1.0, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.time += 1
        ended = self.time == 20
        return np.zeros(2, np.float32), float(action[0]), False, ended, {"cost": float(action[0])}


@pytest.fixture(scope="module")
def agent(tmp_path_factory):
    """It learned in a folder, from an instance, with one limit as a number."""
    out = tmp_path_factory.mktemp("first") / "run"
    made = Agent("c-trpo", hidden=(8,), critic_passes=1, cg_steps=3, epoch_steps=100)
    return made.learn(Hold(), 200, limits=5, out=out, progress=False)


def test_dir_shows_the_public_names_and_nothing_else():
    assert "Agent" in dir(holdfast) and "suggest_limit" in dir(holdfast)
    private = [n for n in dir(holdfast) if n.startswith("_") and n != "__version__"]
    assert not private and len(dir(holdfast)) < 20
    assert all(hasattr(holdfast, name) for name in dir(holdfast))


def test_signatures_know_every_setting_with_its_type():
    for method in (Agent.__init__, Agent.learn):
        kind = inspect.signature(method).parameters["settings"].annotation
        assert "SettingArguments" in str(kind)
    known = {s.name for name in ALGORITHMS for s in leaves(make_run(name))}
    hints = get_type_hints(SettingArguments)
    apart = {"env", "cost", "name", "origin", "preset", "steps"}
    assert set(hints) == known - apart
    assert hints["seed"] is int and hints["gamma"] is float
    place = Path(__file__).parents[2] / ".ci" / "keywords.py"
    spec = importlib.util.spec_from_file_location("arguments_writer", place)
    writer = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(writer)
    assert writer.text() == writer.TARGET.read_text(), "run python .ci/keywords.py"


def test_help_shows_the_metrics_and_their_form():
    assert "columns of progress.csv" in inspect.getdoc(Agent.metrics)
    for name in ("history", "plot", "certify"):
        assert inspect.getdoc(getattr(Agent, name))


def test_history_is_a_table(agent):
    table = agent.history()
    assert list(table["epoch"]) == [1, 2] and {len(column) for column in table.values()} == {2}
    assert table["ep_return"][-1] == agent.metrics[-1]["ep_return"]
    assert Agent().history() == {}


def test_one_instance_is_one_environment_and_a_number_is_the_limit(agent):
    assert agent.run.num_envs == 1 and agent.spaces.limits == {"cost": 5.0}
    with pytest.raises(ValueError, match="give one"):
        Agent(limits=5, cost_limit=4.0)


def test_plot_and_certify(agent, tmp_path):
    assert agent.plot(tmp_path / "curve.svg").stat().st_size > 1000
    page, data = agent.certify(tmp_path / "card", episodes=10, film=False)
    assert page.exists() and data.exists()
    with pytest.raises(ValueError, match="save"):
        fresh = Agent()
        fresh.state, fresh.spaces = agent.state, agent.spaces
        fresh.certify()


def test_reprs_are_one_line(agent):
    seen = []
    result = agent.evaluate(episodes=4)
    told = repr(result)
    assert told.startswith("Evaluation(4 episodes on <Hold>: return ") and " of 5; proved" in told
    Agent("c-trpo", **SMALL).learn("probe/Speed-v0", 200, progress=False, callback=seen.append)
    assert repr(seen[0]).startswith("Epoch(1, 200 steps, ep_return ")
    assert all("\n" not in repr(thing) for thing in (agent, result, seen[0]))


@pytest.mark.parametrize(
    ("algorithm", "theirs", "ours"),
    [
        ("c-trpo", "total_timesteps", "'total_steps' here, an argument of learn"),
        ("c-trpo", "learning_rate", "'critic_lr' here"),
        ("ppo", "learning_rate", "'actor_lr' here"),
        ("c-trpo", "policy", "'encoder' here"),
        ("c-trpo", "zzz", "`holdfast list c-trpo` shows its settings"),
    ],
)
def test_a_name_of_another_library_gets_the_one_right_name(algorithm, theirs, ours):
    with pytest.raises(ValueError, match="unknown setting") as caught:
        Agent(algorithm, **{theirs: 1})
    assert ours in str(caught.value) and len(str(caught.value)) < 120


def test_suggest_limit_says_what_chance_costs():
    seen = suggest_limit(Hold)
    assert abs(seen.costs["cost"].mean() - 10) < 1 and "Random actions cost" in str(seen)


def test_wandb_needs_a_folder(monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(ValueError, match="give out="):
        Agent(**SMALL).learn("probe/Speed-v0", 200, wandb="mine")


# Epochs that fit the task


@pytest.mark.parametrize(
    ("steps", "length", "num_envs", "epoch"),
    [
        (1_000_000, 200, 10, 20_000),  # long enough: as ever
        (50_000, 200, 10, 5_000),  # a tenth of the run
        (10_000, 200, 10, 4_000),  # but at least 20 episodes
        (10_000, 200, 50, 10_000),  # and one of each environment
        (1_000_000, None, 10, 20_000),  # unknown episodes
        (50_000, 100, 7, 5_005),  # the multiple that the batch needs
        (10**7, 5_000, 10, 100_000),  # long episodes
    ],
)
def test_epochs_follow_the_run_and_the_episodes(steps, length, num_envs, epoch):
    first = 20_000 // num_envs * num_envs
    run = make_run("c-trpo", env="mine", steps=steps, num_envs=num_envs, epoch_steps=first)
    env = make_env(Hold, 1)
    env.facts = replace(env.facts, time_limit=length)
    assert with_fitting_epochs(run, env).epoch_steps == epoch
    own = make_run("c-trpo", env="SafetyHopperVelocity-v1", steps=steps)
    assert with_fitting_epochs(own, env) is own, "tasks of ours keep theirs"


def test_the_first_line_says_so_and_one_epoch_warns(monkeypatch, capsys):
    env = make_env("probe/Speed-v0", 4)
    for steps, words in ((400, "400 steps in 2 epochs of 200, 4 env"), (200, "in one epoch, 4 ")):
        run = make_run("c-trpo", env="probe/Speed-v0", **SMALL, steps=steps)
        training_bar(run, env, {"cost": 6.0}).close()
        told = capsys.readouterr().err
        assert words in told and ("Warning: one epoch is one update" in told) == (steps == 200)


# Small repairs


def test_tensorboard_is_not_told_what_was_not_measured(tmp_path, monkeypatch):
    sink = TensorBoard(tmp_path)
    told = []
    monkeypatch.setattr(sink.writer, "add_scalar", lambda name, *_: told.append(name))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sink.write(10, {"a": 1.0, "b": float("nan"), "c": 2})
    assert told == ["a", "c"]


def test_costs_that_are_never_negative_have_no_negative_mean():
    costs = np.array([0.0] * 30 + [9.0])
    assert verdict(costs, 5.0).seen.lower == (0.0,)
    assert verdict(costs - 1.0, 5.0).seen.lower[0] < 0, "the control: others may"


def test_another_task_is_judged_by_its_own_limit():
    assert limits_elsewhere({"cost": 5.0}, {"cost": 25.0}, "Other-v0") == {"cost": 25.0}
    with pytest.raises(ValueError, match=r"Other-v0 declares no limit .*limits=NUMBER"):
        limits_elsewhere({"cost": 5.0}, {}, "Other-v0")


# A limit that rewards dying


class Fragile(gym.Env):
    """Every step costs; the largest action ends the episode, at `price`."""

    observation_space = gym.spaces.Box(-1.0, 1.0, (2,), np.float32)
    action_space = gym.spaces.Discrete(3)

    def __init__(self, price=1.0, fatal=2):
        self.price, self.fatal = price, fatal

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.time += 1
        dies = bool(action == self.fatal)
        cost = self.price if dies else 0.9 + 0.1 * float(action)
        return np.zeros(2, np.float32), 1.0, dies, self.time == 30, {"cost": cost}


@pytest.mark.parametrize(
    ("price", "fatal", "told"), [(1.0, 2, True), (50.0, 2, False), (1.0, 7, False)]
)
def test_check_notices_that_dying_is_cheap(price, fatal, told):
    """Not where termination costs, nor where nothing terminates."""
    found = [f.check for f in check_env(lambda: Fragile(price, fatal))]
    assert ("early end" in found) is told


def test_evaluate_notices_episodes_that_became_short(capsys):
    table = lambda length, cost: Evaluation(
        np.ones(20), np.full((20, 1), cost), np.full(20, length), {"cost": 5.0}, False,
        (30.0,), longest_length=30.0,
    )  # fmt: skip
    assert "Episodes last 4 steps, and 30 in an earlier epoch" in table(4, 4.0).shortened
    assert "Episodes last 19 steps" in table(19, 4.0).shortened
    assert table(21, 4.0).shortened == "", "they are nearly as long as they were"
    assert table(4, 9.0).shortened == "", "the limit does not hold"
    table(4, 4.0).print(plain_console())
    assert "ending episodes early" in capsys.readouterr().out.replace("\n", " ")
