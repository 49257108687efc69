# SPDX-License-Identifier: Apache-2.0
"""A road, in a file of its own: a worker that opens it imports little."""

import gymnasium as gym
import numpy as np


class Road(gym.Env):
    """Two costs, and no time limit that anything declares."""

    observation_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)
    action_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.time += 1
        costs = {"cost_heat": float(action[0] > 0), "cost_speed": 0.5}
        return np.zeros(1, np.float32), 1.0, False, self.time == 20, costs
