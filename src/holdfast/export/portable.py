# SPDX-License-Identifier: Apache-2.0
"""A policy as named arrays: all that an action depends on, and what to call it."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from holdfast.envs.acting import Actor, Arrays, Float32, action_map, box_scale


@dataclass(frozen=True)
class Portable:
    """A policy with the space it acts in; actions are always inside it."""

    actor: Actor
    space: gym.spaces.Box | gym.spaces.Discrete | gym.spaces.MultiDiscrete
    about: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Where it comes from, as plain data; kept in the file."""

    @property
    def obs_size(self) -> int:
        return self.actor.obs_size

    def act(
        self, obs: NDArray[Any], noise: Float32 | None = None, memory: Float32 | None = None
    ) -> NDArray[Any]:
        """What Holdfast itself does for obs [n, O]: the measure of every export."""
        to_env = action_map(self.space, clip=True)
        return to_env(self.actor.act(self.actor.view(obs, memory), noise)[0])

    def remembered(self, obs: NDArray[Any], memory: Float32 | None) -> Float32:
        """[n, memory] what Holdfast itself remembers after obs."""
        return self.actor.outputs(self.actor.view(obs, memory))[1]

    def scores(
        self, obs: NDArray[Any], noise: Float32 | None = None, memory: Float32 | None = None
    ) -> Any:
        """[n, ΣD] what a choice is the largest of, in each of its blocks."""
        out = self.actor.outputs(self.actor.view(obs, memory))[0]
        return out if noise is None else out + noise

    def arrays(self) -> Arrays:
        """Named arrays, as in the .npz file."""
        actor, space = self.actor, self.space
        arrays: Arrays = {}
        if actor.normaliser is not None:
            arrays |= {"mean": actor.normaliser.mean, "scale": actor.normaliser.scale}
        for i, (weight, bias) in enumerate(actor.layers):
            arrays |= {f"weight{i}": weight, f"bias{i}": bias}
        if actor.std is not None and isinstance(space, gym.spaces.Box):
            middle, half = box_scale(space)
            arrays |= {"std": actor.std, "middle": middle, "half": half}
            return arrays | {"low": space.low, "high": space.high}
        arrays["sizes"] = np.array(actor.sizes, np.int64)
        if isinstance(space, gym.spaces.Discrete):
            arrays["start"] = np.array(space.start, np.int64)
        return arrays

    def npz(self) -> bytes:
        """The .npz file that `numpy_policy` reads; it holds no objects, so no pickle."""
        target = io.BytesIO()
        texts = {"about": dict(self.about), "network": asdict(self.actor.network)}
        words = {name: np.array(json.dumps(text)) for name, text in texts.items()}
        np.savez(target, **words, **self.arrays())  # pyright: ignore[reportArgumentType]
        return target.getvalue()
