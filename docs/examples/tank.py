# SPDX-License-Identifier: Apache-2.0
"""A tank that leaks: one's own environment in a file, with two costs.

holdfast check docs/examples/tank.py:Tank
"""

import gymnasium as gym
import numpy as np
from gymnasium import spaces


class Tank(gym.Env):
    """Keep the level high by opening none, one or two valves; do not spill, do not run dry."""

    def __init__(self, size=1.0, steps=20):
        self.size, self.steps = size, steps
        self.observation_space = spaces.Dict(
            {"level": spaces.Box(-9.0, 9.0, (1,), np.float32), "open": spaces.Discrete(3)}
        )
        self.action_space = spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.level, self.time, self.valves = 0.5 + 0.1 * self.np_random.normal(), 0, 0
        return self.observe(), {}

    def step(self, action):
        self.valves, self.time = int(action), self.time + 1
        self.level += 0.1 * self.valves - 0.1 + 0.02 * self.np_random.normal()
        costs = {"cost_spill": float(self.level > self.size), "cost_dry": float(self.level < 0.2)}
        return self.observe(), self.level, False, self.time >= self.steps, costs

    def observe(self):
        return {"level": np.array([self.level], np.float32), "open": self.valves}
