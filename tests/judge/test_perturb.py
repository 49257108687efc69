# SPDX-License-Identifier: Apache-2.0
"""Judged under other conditions: perturbations, limits, environments, and what scripts are told."""

import json
from dataclasses import replace
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

from holdfast import Agent, cli
from holdfast.envs.make import make_env
from holdfast.judge.perturb import Perturbation, parse_perturbations, perturbed
from holdfast.run import make_run
from holdfast.train.environment import Spaces, open_env
from holdfast.train.state import first_state

ROOT = Path(__file__).parents[2]


class Echo(gym.Env):
    """The reward is the action; the observation counts steps; 5 of them, each costs 1."""

    observation_space = gym.spaces.Box(-99.0, 99.0, (2,), np.float64)
    action_space = gym.spaces.Box(-9.0, 9.0, (1,), np.float64)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return np.array([0.0, seed or 0.0]), {}

    def step(self, action):
        self.time += 1
        return np.array([self.time, 0.0]), float(action[0]), False, self.time == 5, {"cost": 1.0}


class Two(Echo):
    def step(self, action):
        return *super().step(action)[:4], {"cost_spill": 0.0, "cost_dry": 0.0}


def untrained(path, name, **settings):
    """The folder of a run that has not learned yet."""
    run = make_run("c-trpo", env=name, num_envs=2, epoch_steps=2000, hidden=(4,), **settings)
    env = open_env(run, trusted=True)
    agent = Agent()
    agent.run, agent.spaces = run, Spaces.of(run, env)
    agent.state = first_state(run, agent.spaces)
    agent.save(path)
    env.close()
    return agent


# Perturbations


def test_actions_arrive_late_and_never_in_the_next_episode():
    env = perturbed(make_env(Echo, 2), Perturbation(action_delay=2), np.ones(2))
    env.reset(0)
    given = np.arange(1.0, 9.0)
    seen = [env.step(np.full((2, 1), a)).reward[0] for a in given]
    assert seen == [0, 0, 1, 2, 3, 0, 0, 6]  # the fifth ends: 4 and 5 were for an episode now over
    plain = make_env(Echo, 2)
    assert perturbed(plain, Perturbation(), np.ones(2)) is plain


def test_sensor_noise_has_its_deviation_and_an_address():
    unit = np.array([2.0, 0.5])
    make = lambda n: perturbed(make_env(Echo, n), Perturbation(sensor_noise=0.1), unit)
    env, clean = make(400), make_env(Echo, 400)
    noise = (env.reset(7) - clean.reset(7)) / (0.1 * unit)
    assert abs(noise.mean()) < 4 / np.sqrt(800) and abs(noise.std() - 1) < 4 / np.sqrt(1600)
    alone, pair = make(1), make(2)
    assert np.array_equal(alone.reset(8)[0], env.reset(7)[1])  # of its seed, not of its number
    pair.reset(8)
    action = np.zeros((1, 1))
    one, two = alone.step(action), pair.step(np.zeros((2, 1)))
    assert np.array_equal(one.obs[0], two.obs[0]) and not np.array_equal(one.obs[0], two.obs[1])
    assert one.reward[0] == 0 and one.cost[0, 0] == 1  # only sensors are noisy


def test_a_perturbed_batch_says_of_itself_what_the_batch_behind_it_does():
    env = make_env("probe/Speed-v0", 2)
    env.facts = replace(env.facts, workers=3)
    said = perturbed(env, Perturbation(action_delay=1), np.ones(1)).facts
    assert said == env.facts and said.workers == 3 and said.cost_limits == {"cost": 6.0}


@pytest.mark.parametrize("task", ["SafetyHopperVelocity-v1", "SafetyPointGoal1-v0"])
def test_mass_and_friction_of_native_tasks(task):
    plain, same, other = (make_env(task, 2) for _ in range(3))
    perturbed(same, Perturbation(), np.ones(1))
    perturbed(other, Perturbation(mass=0.2, friction=-0.3), np.ones(1))
    for a, b in zip(plain.simulation.models, other.simulation.models, strict=True):
        np.testing.assert_allclose(b.body_mass, 1.2 * a.body_mass)
        np.testing.assert_allclose(b.body_inertia, 1.2 * a.body_inertia)
        np.testing.assert_allclose(b.geom_friction, 0.7 * a.geom_friction)
        # what the engine derives from it follows
        np.testing.assert_allclose(b.body_subtreemass, 1.2 * a.body_subtreemass)
        np.testing.assert_allclose(b.dof_invweight0, a.dof_invweight0 / 1.2, rtol=0.2)
    action = np.full((2, *plain.action_space.shape), 0.5, plain.action_space.dtype)
    seen = [
        [env.reset(3), *(env.step(action).obs for _ in range(5))] for env in (plain, same, other)
    ]
    assert np.array_equal(seen[0], seen[1]) and not np.array_equal(seen[0], seen[2])


def test_a_grid_of_conditions():
    grid = parse_perturbations(["mass=-20%,0,+20%", "action-delay=0,2"])
    assert len(grid) == len(set(grid)) == 6 and grid[0] == Perturbation(mass=-0.2)
    assert str(grid[-1]) == "mass +20%, action delay 2" and str(Perturbation()) == "as trained"
    assert parse_perturbations([]) == [Perturbation()]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["mas=+20%"], "did you mean 'mass'"),
        (["mass=0.2"], "is not NAME=VALUE"),
        (["mass"], "is not NAME=VALUE"),
        (["action-delay=1.5"], "is not NAME=VALUE"),
        (["mass=-100%"], "is not possible"),
        (["sensor-noise=-1"], "must not be negative"),
    ],
)
def test_a_wrong_word_is_refused(words, told):
    with pytest.raises(ValueError, match=told):
        parse_perturbations(words)


def test_a_probe_has_no_mass():
    with pytest.raises(ValueError, match="in native tasks only"):
        perturbed(make_env("probe/Speed-v0", 1), Perturbation(mass=0.1), np.ones(1))


# The command


def judge(*words):
    """The exit code."""
    try:
        cli.main(["evaluate", *map(str, words)])
    except SystemExit as stop:
        return stop.code
    return 0


def test_scripts_are_told_by_the_exit_code(tmp_path, capsys):
    agent = untrained(tmp_path / "run", "probe/Speed-v0")
    costs = agent.evaluate(episodes=100).costs
    assert 0.5 < costs.mean() < 17.0
    assert judge(tmp_path / "run", "--limit", 18) == 0  # the most that an episode can cost
    assert judge(tmp_path / "run", "--limit", "cost=0") == 1
    assert judge(tmp_path / "run", "--limit", costs.mean(), "--episodes", 10) == 3
    assert judge(tmp_path / "run", "--limit", "heat=1") == 2
    assert "no constraint is called 'heat'" in capsys.readouterr().err


def test_greedy_and_seed_are_those_of_python(tmp_path, capsys):
    agent = untrained(tmp_path / "run", "probe/Speed-v0")
    judge(tmp_path / "run", "--greedy", "--seed", 5, "--episodes", 20, "--json")
    told = json.loads(capsys.readouterr().out)
    same = agent.evaluate(episodes=20, seed=5, deterministic=True)
    assert told["return"]["mean"] == same.returns.mean() and told["deterministic"]
    other = agent.evaluate(episodes=20, seed=5)
    assert told["return"]["mean"] != other.returns.mean()


def test_a_grid_becomes_a_table(tmp_path, capsys):
    untrained(tmp_path / "run", "probe/Speed-v0")
    words = [
        tmp_path / "run",
        "--episodes",
        20,
        "--perturb",
        "sensor-noise=0,0.5",
        "action-delay=0,3",
    ]
    judge(*words)
    told = capsys.readouterr().out
    for condition in (
        "as trained",
        "sensor noise 0.5",
        "action delay 3",
        "sensor noise 0.5, action",
    ):
        assert condition in told
    judge(*words, "--json")
    rows = json.loads(capsys.readouterr().out)
    assert [row["condition"]["action_delay"] for row in rows] == [0, 3, 0, 3]
    plain = Agent.load(tmp_path / "run").evaluate(episodes=20)
    assert rows[0]["return"]["mean"] == plain.returns.mean()
    assert len({row["return"]["mean"] for row in rows}) == 4


def test_another_environment_is_judged_if_the_policy_fits(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tank.py").write_text((ROOT / "docs" / "examples" / "tank.py").read_text())
    untrained("run", "tank.py:Tank", limits={"spill": 2.0, "dry": 1.0})
    costs = []
    for size in (-9, 9):
        words = ["run", "--env", "tank.py:Tank", "--env-arg", f"size={size}", "--json"]
        judge(*words, "--episodes", 4)
        costs.append(json.loads(capsys.readouterr().out)["cost"]["spill"]["mean"])
    assert costs == [20.0, 0.0]  # every step, or none
    assert judge("run", "--env", "probe/Shortcut-v0") == 2
    assert "constraints=('spill', 'dry') do not fit" in capsys.readouterr().err
    with pytest.raises(ValueError, match=r"learned on .* costs spill, dry, and cannot act on obs"):
        Agent.load("run").evaluate(lambda: Two())
    assert (
        judge("run", "--env-arg", "size=3") == 2 and "belongs to --env" in capsys.readouterr().err
    )
