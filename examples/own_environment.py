# SPDX-License-Identifier: Apache-2.0
"""Your own environment: a Gymnasium class that reports a cost.

    python examples/own_environment.py

A heater is paid for comfort. A step above 24 degrees costs 1: info["cost"].
"""

import argparse

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from holdfast import Agent, check_env


class Heater(gym.Env):
    """Keep a room warm while it is cold outside; too hot is a cost."""

    observation_space = spaces.Box(-50.0, 50.0, (2,), np.float32)
    action_space = spaces.Box(0.0, 1.0, (1,), np.float32)  # power

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.inside, self.outside, self.time = 15.0, float(self.np_random.uniform(-5, 10)), 0
        return self.observe(), {}

    def step(self, action):
        heat, loss = 4.0 * float(action[0]), 0.1 * (self.inside - self.outside)
        self.inside += heat - loss + 0.3 * float(self.np_random.normal())
        self.time += 1
        comfort = 1.0 - abs(self.inside - 23.0) / 10.0
        cost = float(self.inside > 24.0)
        return self.observe(), comfort, False, self.time >= 50, {"cost": cost}

    def observe(self):
        return np.array([self.inside, self.outside], np.float32)


if __name__ == "__main__":  # the file is imported again where environments run in processes
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=100_000, help="steps of training")
    args = parser.parse_args()

    print(check_env(Heater))  # what is wrong with it, and the remedy
    agent = Agent("c-trpo").learn(Heater, args.steps, epoch_steps=5_000, cost_limit=5.0)
    result = agent.evaluate(episodes=50)
    print(f"return {result.summary()['return']['mean']:.1f}; safe: {result.verdict}")
