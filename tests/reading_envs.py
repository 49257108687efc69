# SPDX-License-Identifier: Apache-2.0
"""Two tasks that depend on how an observation is read, with known answers."""

from typing import Any

import gymnasium as gym
import numpy as np


class Recall(gym.Env[Any, Any]):
    """A cue of ±1, a pause, a question: say which cue it was.

    The question looks the same after both cues, so whatever a policy without memory says, it is
    right with probability 1/2: its return is 1/2, its cost 1/2. With a memory: 1 and 0.
    """

    observation_space = gym.spaces.Box(-1.0, 1.0, (2,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, pause: int = 1) -> None:
        self.pause = pause

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.time, self.cue = 0, int(self.np_random.integers(2))
        return self._see(), {}

    def step(self, action: Any) -> Any:
        asked, right = self.time > self.pause, int(action) == self.cue
        self.time += 1
        reward, cost = float(asked and right), float(asked and not right)
        return self._see(), reward, bool(asked), False, {"cost": cost}

    def _see(self) -> Any:
        cue = 2.0 * self.cue - 1.0 if self.time == 0 else 0.0
        return np.array([cue, self.time > self.pause], np.float32)


class Tiles(gym.Env[Any, Any]):
    """One look at an image of black and white pixels in tiles of 2 x 2: which kind are they?

    In each tile the upper left pixel is white where its two neighbours agree, or in the other kind
    where they do not; all else are coins. Any two pixels are independent, in both kinds alike: what
    tells is three at once, the same way in every tile. Guessing is right half of the time.
    """

    action_space = gym.spaces.Discrete(2)

    def __init__(self, size: int = 12, colours_first: bool = False) -> None:
        self.size, self.colours_first = size, colours_first
        shape = (1, size, size) if colours_first else (size, size, 1)
        self.observation_space = gym.spaces.Box(0, 255, shape, np.uint8)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.kind = int(self.np_random.integers(2))
        pixels = self.np_random.integers(0, 2, (self.size, self.size))
        agree = pixels[::2, 1::2] == pixels[1::2, ::2]
        pixels[::2, ::2] = agree != bool(self.kind)
        self.image = (255 * pixels).astype(np.uint8)
        return self._see(), {}

    def step(self, action: Any) -> Any:
        right = int(action) == self.kind
        return self._see(), float(right), True, False, {"cost": float(not right)}

    def _see(self) -> Any:
        return self.image[None] if self.colours_first else self.image[..., None]


class Signpost(Tiles):
    """Tiles beside a vector: say the kind of the tiles and the sign of the vector's first number.

    The two are independent coins. Who reads only one of them is right with probability 1/2 at most,
    and who reads neither with 1/4.
    """

    action_space = gym.spaces.Discrete(4)

    def __init__(self, size: int = 12, colours_first: bool = False) -> None:
        super().__init__(size, colours_first)
        sign = gym.spaces.Box(np.float32([-2.0, -np.inf]), np.float32([2.0, np.inf]))
        parts = {"camera": self.observation_space, "gear": gym.spaces.Discrete(3), "sign": sign}
        self.observation_space = gym.spaces.Dict(parts)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        gym.Env.reset(self, seed=seed)
        self.turn, self.gear = int(self.np_random.integers(2)), int(self.np_random.integers(3))
        self.noise = self.np_random.normal()
        return super().reset(options=options)

    def step(self, action: Any) -> Any:
        right = int(action) == 2 * self.kind + self.turn
        return self._see(), float(right), True, False, {"cost": float(not right)}

    def _see(self) -> Any:
        sign = np.float32([2.0 * (2 * self.turn - 1), self.noise])
        return {"camera": super()._see(), "gear": np.int64(self.gear), "sign": sign}
