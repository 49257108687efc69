# SPDX-License-Identifier: Apache-2.0
"""An environment that fails, in a file of its own: a worker that opens it imports little."""

import time

import gymnasium as gym
import numpy as np
from gymnasium import spaces


class Moody(gym.Env):
    """Episodes of ten steps; from its `after`-th step on it does what `fault` says."""

    observation_space = spaces.Box(-1.0, 1.0, (2,), np.float64)
    action_space = spaces.Box(-1.0, 1.0, (1,), np.float32)

    def __init__(self, fault="", after=0):
        self.fault, self.after, self.made = fault, after, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return np.zeros(2), {}

    def step(self, action):
        self.time, self.made = self.time + 1, self.made + 1
        obs, cost = np.full(2, 0.1), {"cost": 1.0}
        if self.fault and self.made > self.after:
            match self.fault:
                case "raise":
                    raise KeyError("valve")  # raise
                case "mute":
                    raise KeyError  # mute
                case "sleep":
                    time.sleep(60)
                case "spin":
                    while True:
                        pass
                case "shape":
                    obs = np.zeros(5)
                case "values":
                    return obs, 0.0, False
        return obs, 1.0, False, self.time == 10, cost
