# SPDX-License-Identifier: Apache-2.0
"""A seeded random walk as a Gymnasium environment, played, and what two such plays share."""

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from holdfast.envs.foreign.spaces import sample_actions


class Walk(gym.Env):
    """A seeded random walk that terminates beyond 1.5 and is cut after 7 steps."""

    def __init__(self, info=lambda x: {"cost": abs(x)}, observe=None, space=None, actions=None):
        default = spaces.Box(-9.0, 9.0, (2,), np.float64)
        self.observation_space = default if space is None else space
        default = spaces.Box(-1.0, 1.0, (1,), np.float32)
        self.action_space = default if actions is None else actions
        self.info, self.observe = info, observe or (lambda x, t: np.array([x, t]))
        self.seen = []

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x, self.t = self.np_random.normal() * 0.3, 0
        return self.observe(self.x, 0.0), {}

    def step(self, action):
        self.seen.append(action)
        self.x += self.np_random.normal() * 0.5
        self.t += 1
        ended = abs(self.x) > 1.5
        return self.observe(self.x, self.t), -self.x, ended, self.t >= 7, self.info(self.x)


def info_named(x):
    return {"cost_hazards": x, "cost_vases": 2.0}


def play(env, steps=40, seed=5):
    rng = np.random.default_rng(0)
    obs = [env.reset(seed)]
    taken = [env.step(sample_actions(env.action_space, env.num_envs, rng)) for _ in range(steps)]
    return obs, taken


def assert_same(a, b):
    assert np.array_equal(a[0][0], b[0][0]) and a[0][0].dtype == b[0][0].dtype
    for left, right in zip(a[1], b[1], strict=True):
        for name in left.__dataclass_fields__:
            x, y = getattr(left, name), getattr(right, name)
            assert np.array_equal(x, y) and x.dtype == y.dtype
