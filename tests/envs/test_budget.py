# SPDX-License-Identifier: Apache-2.0
"""What is left of a budget stands behind each observation, in every kind of batch."""

import gymnasium as gym
import numpy as np
import pytest

from holdfast.core.limits import parse_limit
from holdfast.envs.acting import Actor
from holdfast.envs.budget import Budgets, with_budgets
from holdfast.envs.make import make_env
from holdfast.envs.rollout import Round, play_round

BUDGETS = Budgets.of({"cost": parse_limit("4 worst 10%")}, penalise=True)


class Meter(gym.Env):
    """Counts; the action is the cost. Episodes of 6 steps."""

    observation_space = gym.spaces.Box(0, 10, (1,), np.float32)
    action_space = gym.spaces.Box(-1.0, 2.0, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.time += 1
        obs = np.array([self.time], np.float32)
        return obs, 1.0, False, self.time >= 6, {"cost": float(action[0])}


def meters(**more):
    return make_env(Meter, 2, constraints=("cost",), budgets=more.pop("budgets", BUDGETS), **more)


@pytest.mark.parametrize("how", [{}, {"vectorise": "process", "workers": 2, "lockstep": False}])
def test_the_share_that_is_left(how):
    env = meters(**how)
    try:
        obs = env.reset(0)
        assert obs.tolist() == [[0, 1], [0, 1]] and env.observation_space.shape == (2,)
        assert env.facts.native_observation_space.shape == (1,)
        assert env.facts.budget_names == ("cost",)
        shares = []
        for _ in range(6):
            step = env.step(np.array([[1.0], [2.0]]))
            shares.append(step.next_obs[:, 1].tolist())
        assert shares == [[0.75, 0.5], [0.5, 0], [0.25, -0.5], [0, -1], [-0.25, -1], [-0.5, -1]]
        assert step.truncated.all() and step.obs.tolist() == [[0, 1], [0, 1]]  # a new budget
        assert (step.cost == [[1], [2]]).all()  # costs are passed on
        env.step(np.array([[1.0], [2.0]]))
        kept = env.snapshot()
        after = env.step(np.array([[1.0], [0.5]]))
        assert env.restore(kept)[:, 1].tolist() == [0.75, 0.5]
        again = env.step(np.array([[1.0], [0.5]]))
        np.testing.assert_array_equal(after.obs, again.obs)
    finally:
        env.close()


def test_a_negative_cost_is_refused():
    env = meters()
    env.reset(0)
    with pytest.raises(ValueError, match="a budget needs costs that are not negative"):
        env.step(np.array([[1.0], [-0.5]]))


@pytest.mark.parametrize(("text", "late"), [("4 budget penalty 3", -3.0), ("4 ends", 0.0)])
def test_rewards_after_the_end_of_a_budget(text, late):
    limits = {"cost": parse_limit(text)}
    env = meters(budgets=Budgets.of(limits, penalise=True))
    env.reset(0)
    rewards = [env.step(np.array([[1.0], [2.0]])).reward.tolist() for _ in range(6)]
    assert np.array(rewards)[:, 0].tolist() == [1, 1, 1, 1, 1, late]  # 5 > 4 after five steps
    assert np.array(rewards)[:, 1].tolist() == [1, 1, 1, late, late, late]
    plain = meters(budgets=Budgets.of(limits, penalise=False))  # an evaluation
    plain.reset(0)
    assert all((plain.step(np.array([[1.0], [2.0]])).reward == 1).all() for _ in range(6))


def test_an_unknown_cost_is_named():
    with pytest.raises(ValueError, match="no constraint is called 'fuel'"):
        with_budgets(meters(budgets=None), Budgets.of({"fuel": parse_limit("4 in 95%")}, True))
    assert Budgets.of({"cost": parse_limit(4)}, True) is None


def test_native_batches_agree_with_and_without_workers():
    env_id, noise = "SafetyHopperVelocity-v1", np.random.default_rng(0)
    budgets = Budgets.of({"cost": parse_limit("2 in 90%")}, True)
    made = [make_env(env_id, 2, workers=w, lockstep=False, budgets=budgets) for w in (1, 2)]
    try:
        size, actions = made[0].observation_space.shape[0], made[0].action_space.shape[0]
        weight = noise.standard_normal((size, actions)).astype(np.float32)
        actor = Actor(((weight, np.zeros(actions, np.float32)),), np.ones(actions, np.float32))
        rows = [e.play_round(actor, Round(3)) if hasattr(e, "play_round") else None for e in made]
        rows = [play_round(e, actor, Round(3)) if r is None else r for e, r in zip(made, rows)]  # noqa: B905
        np.testing.assert_array_equal(rows[0], rows[1])
        assert made[1].facts.budget_names == ("cost",)
    finally:
        for env in made:
            env.close()
