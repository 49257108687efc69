# SPDX-License-Identifier: Apache-2.0
"""Budgets inside the compiled scan are those of the wrapper outside it."""

import gymnasium as gym
import jax.numpy as jnp
import numpy as np

from holdfast.core.limits import parse_limit
from holdfast.envs.acting import Actor
from holdfast.envs.budget import Budgeted, Budgets
from holdfast.envs.functional.states import EnvState
from holdfast.envs.make import make_env
from holdfast.envs.rollout import collect

BUDGETS = Budgets.of({"cost": parse_limit("2 in 90%")}, penalise=True)


class Drift:
    """A point that is pushed; above 0 it costs what it is above. Episodes of 8 steps."""

    action_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)
    time_limit = 8

    def reset(self, key):
        start = 0.1 * jnp.float32(key.sum() % 7)
        return EnvState(start, jnp.array([start]), info={"cost": jnp.float32(0)})

    def step(self, state, action):
        place = state.inner + 0.5 * action[0]
        info = {"cost": jnp.maximum(place, 0.0)}
        return EnvState(place, jnp.array([place]), place, jnp.bool_(False), info)


def test_the_scan_shows_what_the_wrapper_shows():
    inside = make_env(Drift(), 3, constraints=("cost",), budgets=BUDGETS)
    outside = Budgeted(make_env(Drift(), 3, constraints=("cost",)), BUDGETS)
    assert inside.observation_space.shape == (2,) == outside.observation_space.shape
    assert inside.facts.budget_names == ("cost",)
    assert inside.facts.native_observation_space.shape == (1,)
    rng = np.random.default_rng(0)
    weight = rng.standard_normal((2, 1)).astype(np.float32)
    actor = Actor(((weight, np.ones(1, np.float32)),), np.ones(1, np.float32))
    noise = rng.standard_normal((30, 3, 1)).astype(np.float32)
    inside.reset(0)
    scanned = inside.collect(actor, noise)
    stepped, last, _ = collect(outside, outside.reset(0), actor, noise)
    for name in ("seen", "reward", "cost", "truncated", "next_obs"):
        one, two = np.asarray(getattr(scanned, name)), getattr(stepped, name)
        np.testing.assert_allclose(one, two, atol=1e-5, err_msg=name)
    assert stepped.seen[..., 1].min() < 0 < stepped.seen[..., 1].max()  # a budget ran out
    kept = inside.snapshot()
    np.testing.assert_allclose(inside.restore(kept), last, atol=1e-5)
