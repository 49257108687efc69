# SPDX-License-Identifier: Apache-2.0
"""A Gymnasium task with a cost of one's own: walk, and carry a tray.

Gymnasium's Walker2d-v5 as it is, episodes of at most 1000 steps; a step in which the torso leans
more than 0.2 rad to either side costs 1, for the glasses on the tray.
"""

from typing import Any

import gymnasium
import numpy as np

LEAN = 0.2


class Tray(gymnasium.Wrapper[np.ndarray, np.ndarray, np.ndarray, np.ndarray]):
    """Walker2d-v5 with `info["cost"]`; the second observation is the angle of the torso."""

    def __init__(self, **settings: Any):
        super().__init__(gymnasium.make("Walker2d-v5", **settings))

    def step(self, action: np.ndarray) -> tuple[np.ndarray, Any, bool, bool, dict[str, Any]]:
        obs, reward, terminated, truncated, info = self.env.step(action)
        return obs, reward, terminated, truncated, info | {"cost": float(abs(obs[1]) > LEAN)}
