# SPDX-License-Identifier: Apache-2.0
"""Evaluation: episodes with an address, judged by the criterion of the run, until decided."""

import io
from dataclasses import replace

import gymnasium as gym
import numpy as np
import pytest
from rich.console import Console

from holdfast import Agent, make_env, make_run
from holdfast.bars.episode_bars import EvaluationBar
from holdfast.envs.acting import Actor
from holdfast.envs.base import episode_cost_bounds
from holdfast.envs.make import known_ids
from holdfast.envs.probe import PROBES
from holdfast.envs.rollout import Playing
from holdfast.judge.evaluate import evaluate
from holdfast.train import train
from small_runs import SMALL

DISCOUNTED = dict(cost_criterion="discounted", cost_scale="discount")


def trained(env="probe/Shortcut-v0", algorithm="c-trpo", **settings):
    agent = Agent(algorithm, **SMALL | settings)
    return agent.learn(env, agent.run.epoch_steps, progress=False)


def on(agent, num_envs, **settings):
    """The agent's policy on a batch of another size."""
    env = make_env(agent.run.env, num_envs)
    parts = agent.actor(), env, agent.spaces.limits
    return evaluate(*parts, **settings)


@pytest.fixture(scope="module")
def shortcut():
    return trained(cost_limit=1.5)


@pytest.mark.parametrize("deterministic", [False, True])
def test_an_episode_is_a_function_of_seed_and_index(shortcut, deterministic):
    """Neither the batch nor how many are asked for changes it."""
    few = shortcut.evaluate(episodes=9, seed=5, deterministic=deterministic)
    for num_envs in (1, 3, 7):
        other = on(shortcut, num_envs, episodes=21, seed=5, deterministic=deterministic)
        for name in ("returns", "costs", "lengths"):
            np.testing.assert_array_equal(getattr(few, name), getattr(other, name)[:9])
    another = shortcut.evaluate(episodes=9, seed=50, deterministic=deterministic)
    assert deterministic or not np.array_equal(few.returns, another.returns)


def test_every_episode_of_a_round_counts(shortcut):
    """Lengths vary from 4 to 20 here; taking those that finish first would favour short ones."""
    result = on(shortcut, 20, episodes=400)
    one_by_one = on(shortcut, 1, episodes=400)
    assert result.lengths.std() > 1
    np.testing.assert_array_equal(result.lengths, one_by_one.lengths)


def test_probes_and_native_tasks_know_what_an_episode_can_cost():
    for name in known_ids():
        if name not in PROBES and name not in ("SafetyHopperVelocity-v1", "SafetyPointGoal1-v0"):
            continue
        env = make_env(name, 4)
        bounds, rng = env.facts.cost_bounds, np.random.default_rng(0)
        assert episode_cost_bounds(env) == tuple(env.facts.time_limit * b for b in bounds)
        env.reset(0)
        env.action_space.seed(0)
        dear = np.zeros(len(bounds))
        for _ in range(200):
            action = np.stack([np.asarray(env.action_space.sample()) for _ in range(4)])
            extreme = np.sign(action) if isinstance(env.action_space, gym.spaces.Box) else action
            step = env.step(extreme if rng.random() < 0.5 else action)
            assert (step.cost >= 0).all() and (step.cost <= bounds).all()
            dear = np.maximum(dear, step.cost.max(0))
        if name in PROBES:
            assert (dear > 0.9 * np.array(bounds)).all(), f"the bound of {name} is reached"


def test_bounds_of_discounted_costs():
    env = make_env("probe/Machines-v0", 2)
    plain = np.array(episode_cost_bounds(env))
    np.testing.assert_allclose(plain, 10 * 1.5)
    np.testing.assert_allclose(episode_cost_bounds(env, 0.5), 1.5 * (2 - 0.5**9))
    env.facts = replace(env.facts, time_limit=None)
    assert episode_cost_bounds(env) is None
    np.testing.assert_allclose(episode_cost_bounds(env, 0.5), 3.0)


def test_until_decided(shortcut):
    """Stops at yes or no; the cap ends what nothing decides; looks do not depend on the batch."""
    said = []
    many = dict(episodes=10, until_decided=True, max_episodes=2_000)
    result = shortcut.evaluate(**many, on_progress=lambda n, verdict: said.append((n, verdict)))
    assert result.verdict.safe == "no" and len(result.returns) < 2_000
    looks = [verdict for _, verdict in said if verdict is not None]
    assert [v.safe for v in looks] == ["undecided"] * (len(looks) - 1) + ["no"]
    assert all(len(v.proved.lower) == 1 and v.more > 0 for v in looks[:-1])
    other = on(shortcut, 3, **many)
    np.testing.assert_array_equal(result.costs, other.costs)
    near = float(result.costs.mean())
    shortcut.spaces.limits["cost"], kept = near, shortcut.spaces.limits["cost"]
    try:
        capped = shortcut.evaluate(episodes=10, until_decided=True, max_episodes=57)
    finally:
        shortcut.spaces.limits["cost"] = kept
    assert capped.verdict.safe == "undecided" and len(capped.returns) == 57


def test_safety_is_proved_where_it_holds():
    agent = trained("probe/Speed-v0", cost_limit=15.0)
    result = agent.evaluate(episodes=10, until_decided=True)
    assert result.verdict.safe == "yes" and result.verdict.proved.upper[0] <= 15.0
    assert result.verdict.cost_bounds == (20.0,)
    assert result.summary()["cost"]["cost"]["cost_bound"] == 20.0
    wide = agent.evaluate(episodes=10, until_decided=True, cost_bound={"cost": 60.0})
    assert wide.verdict.safe == "yes" and len(wide.returns) > len(result.returns)


def test_workers_play_the_same_episodes(capsys):
    """Whole episodes in other processes, bit for bit those of one process."""
    noise_alone = Actor((), np.ones(3, np.float32))
    found = {}
    for workers in (1, 2, 3):
        env = make_env("SafetyHopperVelocity-v1", 3, workers=workers)
        assert isinstance(env, Playing) == (workers > 1)
        found[workers] = evaluate(noise_alone, env, {"cost": 25.0}, episodes=7)
        other = evaluate(noise_alone, env, {"cost": 25.0}, episodes=7, seed=5)
        env.close()
        assert found[workers].workers == workers
        assert not np.array_equal(found[workers].returns, other.returns)
    for name in ("returns", "costs", "lengths"):
        one, *more = (getattr(found[workers], name) for workers in (1, 2, 3))
        assert all(np.array_equal(one, each) for each in more)
    found[1].print(Console(width=200))
    assert "in this process" in capsys.readouterr().out
    found[2].print(Console(width=200))
    assert "in 2 worker processes" in capsys.readouterr().out


class Unknown(gym.Env):
    """An environment that does not say what it can cost."""

    observation_space = gym.spaces.Box(-1.0, 1.0, (1,))
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.time += 1
        cost = float(self.np_random.random() < 0.5)
        return np.zeros(1, np.float32), 1.0, False, self.time == 5, {"cost": cost}


def test_a_foreign_environment_needs_a_bound():
    agent = trained(Unknown, cost_limit=4.0)
    assert agent.evaluate(Unknown, episodes=50).verdict.safe == "undecided"
    with pytest.raises(ValueError, match=r"declares no largest cost .* cost_bound=NUMBER"):
        agent.evaluate(Unknown, until_decided=True)
    assert agent.evaluate(Unknown, until_decided=True, cost_bound=5.0).verdict.safe == "yes"
    with pytest.raises(ValueError, match=r"outside \[0, 1\]"):
        agent.evaluate(Unknown, episodes=20, cost_bound=1.0)
    with pytest.raises(ValueError, match="lacks 'cost'"):
        agent.evaluate(Unknown, cost_bound={"other": 1.0})


def test_a_discounted_limit_is_judged_by_discounted_costs(shortcut):
    """One policy, both criteria: Σ γᵗ c of the very same episodes, a bound of its own."""
    agent = trained(**DISCOUNTED, cost_gamma=0.5, cost_limit=1.5)
    agent.state = shortcut.state
    plain, discounted = shortcut.evaluate(episodes=200), agent.evaluate(episodes=200)
    np.testing.assert_array_equal(plain.lengths, discounted.lengths)
    assert plain.summary()["cost_discount"] == 1.0 and discounted.summary()["cost_discount"] == 0.5
    assert (discounted.costs <= plain.costs).all() and discounted.costs.max() <= 2.0
    assert (plain.verdict.safe, discounted.verdict.safe) == ("no", "yes")
    assert discounted.verdict.cost_bounds == pytest.approx((2.0,), rel=1e-5)
    out = io.StringIO()
    discounted.print(Console(file=out, width=150))
    assert "cost, discounted by 0.5" in out.getvalue()


def test_discounted_sums_agree_with_training():
    """The regret of a run and its evaluation speak of the same quantity."""
    run = make_run(
        "c-trpo",
        env="probe/Machines-v0",
        steps=4_000,
        **SMALL | DISCOUNTED | dict(epoch_steps=4_000, cost_gamma=0.8),
    )
    *_, epoch = train(run, make_env(run.env, run.num_envs))
    agent = trained("probe/Machines-v0", **DISCOUNTED, cost_gamma=0.8)
    agent.state = epoch.state
    first = Agent("c-trpo", **SMALL)
    assert first.run.cost_discount == 1.0 and agent.run.cost_discount == 0.8
    cost = agent.evaluate(episodes=400).costs.sum(1).mean()
    assert cost == pytest.approx(epoch.metrics["ep_cost_raw"], rel=0.1)
    assert epoch.metrics["cost_regret_raw"] == 0.0, "all sums lie far below the limit of 25"


@pytest.mark.parametrize("algorithm", ["c-trpo", "cpo", "pcpo", "ipo", "p3o", "c3po"])
def test_a_discounted_limit_with_the_length_as_unit_is_refused(algorithm):
    with pytest.raises(ValueError, match=r"cost_scale=episode .* use cost_scale=discount"):
        make_run(algorithm, cost_scale="episode", cost_criterion="discounted")
    both = dict(cost_criterion="discounted", cost_scale="discount")
    for order in (both, dict(reversed(both.items()))):
        run = make_run(algorithm, "corrected", **order)
        assert run.cost_discount == 0.99 and run.algorithm.cost_scale == "discount"


def test_the_bar_shows_the_interval_closing(shortcut):
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=120)
    with EvaluationBar(10, console=console) as bar:
        shortcut.evaluate(episodes=10, until_decided=True, max_episodes=500, on_progress=bar.update)
        bar.progress.refresh()
    assert "limit 1.5" in out.getvalue() and " .. " in out.getvalue()


def test_a_log_is_not_filled_with_the_bar():
    text = io.StringIO()
    with EvaluationBar(10, console=Console(file=text)) as bar:
        bar.update(5, None)
    assert text.getvalue() == ""
