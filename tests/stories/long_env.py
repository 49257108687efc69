# SPDX-License-Identifier: Apache-2.0
"""A random walk, in a file of its own: a worker that opens it imports little."""

import gymnasium as gym
import numpy as np


class Drift(gym.Env):
    """A random walk that ends beyond 3; it costs to be off the middle. `seen` holds all actions."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (2,), np.float64)
    action_space = gym.spaces.Box(-0.5, 0.5, (1,), np.float32)
    seen: list

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.seen = getattr(self, "seen", [])
        self.x, self.v = self.np_random.normal(size=2)
        return np.array([self.x, self.v]), {}

    def step(self, action):
        self.seen.append(float(action[0]))
        self.v = 0.9 * self.v + float(action[0]) + 0.1 * self.np_random.normal()
        self.x += 0.1 * self.v
        obs, off = np.array([self.x, self.v]), abs(self.x)
        return obs, -off, bool(off > 3), False, {"cost": float(off > 1)}
