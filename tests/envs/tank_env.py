# SPDX-License-Identifier: Apache-2.0
"""The tank of the examples, in a file of its own: a process that opens it imports little."""

import importlib.util
from pathlib import Path

FILE = Path(__file__).parents[2] / "docs" / "examples" / "tank.py"
spec = importlib.util.spec_from_file_location("tank_of_tests", FILE)
tank = importlib.util.module_from_spec(spec)
spec.loader.exec_module(tank)


class Tank(tank.Tank):
    """Episodes of different lengths, so that a batch is out of step."""

    def step(self, action):
        obs, reward, _, cut, info = super().step(action)
        return obs, reward, self.level > 1.05, cut, info
