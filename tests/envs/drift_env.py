# SPDX-License-Identifier: Apache-2.0
"""An environment in a file of its own: a point that drifts; being right of 0 costs."""

import gymnasium as gym
import numpy as np


class Drift(gym.Env):
    observation_space = gym.spaces.Box(-10, 10, (1,), np.float64)
    action_space = gym.spaces.Box(-1, 1, (1,), np.float64)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x, self.age = self.np_random.normal(), 0
        return np.array([self.x]), {}

    def step(self, action):
        self.age += 1
        self.x = float(np.clip(self.x + 0.3 * action[0] + 0.1 * self.np_random.normal(), -9, 9))
        return np.array([self.x]), self.x, False, self.age == 50, {"cost": float(self.x > 0)}
