# SPDX-License-Identifier: Apache-2.0
"""Two levers, in a file of their own: a worker that opens it imports little."""

import gymnasium as gym
import numpy as np


class Choices(gym.Env):
    """Two levers; episodes of 5 to 14 steps."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (2,), np.float64)
    action_space = gym.spaces.MultiDiscrete([3, 2])

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.left, self.x = int(self.np_random.integers(5, 15)), self.np_random.normal(size=2)
        return self.x.copy(), {}

    def step(self, action):
        self.left -= 1
        self.x = self.x + 0.1 * (action - 1) + 0.1 * self.np_random.normal(size=2)
        return self.x.copy(), float(self.x[0]), self.left == 0, False, {"cost": float(action[1])}
