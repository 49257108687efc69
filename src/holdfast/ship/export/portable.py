# SPDX-License-Identifier: Apache-2.0
"""A policy as named arrays: all that an action depends on, and what to call it."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from holdfast.envs.acting import Actor, Arrays, Float32, action_map, box_scale
from holdfast.envs.base import ActionSpace
from holdfast.envs.foreign.spaces import plain_action_space, to_native
from holdfast.ship.export.parts import BUDGET, Part, parts_of


@dataclass(frozen=True)
class Portable:
    """A policy with the spaces of its environment; actions are always inside theirs."""

    actor: Actor
    space: gym.spaces.Space[Any]
    """Of actions, as the environment takes them."""
    about: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Where it comes from, as plain data; kept in the file."""
    observed: gym.spaces.Space[Any] | None = None
    """Of observations, as the environment gives them; None: flat."""
    budgets: tuple[str, ...] = ()
    """Costs of whose budgets the share that is left is an input of its own, `budget`."""

    @property
    def obs_size(self) -> int:
        return self.actor.obs_size

    @cached_property
    def given(self) -> gym.spaces.Space[Any]:
        """Of observations as an export takes them: flat where they are of no known kind."""
        if self.observed is None or parts_of(self.observed) is None:
            size = self.obs_size - len(self.budgets)
            return gym.spaces.Box(-np.inf, np.inf, (size,), np.float64)
        return self.observed

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """What an observation consists of, and what is left of the budgets."""
        left = (Part((), (len(self.budgets),), root=BUDGET),) if self.budgets else ()
        return (parts_of(self.given) or ()) + left

    @cached_property
    def plain(self) -> ActionSpace:
        """What the policy acts in: flat, counted from 0."""
        return plain_action_space(self.space, "")

    @cached_property
    def starts(self) -> NDArray[np.int64]:
        """[D] what the first choice of each component is called."""
        start = getattr(self.space, "start", np.zeros(len(self.actor.sizes), np.int64))
        return np.array(start, np.int64).reshape(-1)

    def act(
        self, obs: NDArray[Any], noise: Float32 | None = None, memory: Float32 | None = None
    ) -> NDArray[Any]:
        """What Holdfast itself does for obs [n, O]: the measure of every export."""
        chosen = self.actor.act(self.actor.view(obs, memory), noise)[0]
        return to_native(self.space, action_map(self.plain, clip=True)(chosen), clip=True)

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
        actor, space = self.actor, self.plain
        arrays: Arrays = {}
        if actor.normaliser is not None:
            arrays |= {"mean": actor.normaliser.mean, "scale": actor.normaliser.scale}
        for i, (weight, bias) in enumerate(actor.layers):
            arrays |= {f"weight{i}": weight, f"bias{i}": bias}
        if actor.std is not None and isinstance(space, gym.spaces.Box):
            middle, half = box_scale(space)
            arrays |= {"std": actor.std, "middle": middle, "half": half}
            return arrays | {"low": space.low, "high": space.high}
        return arrays | {"sizes": np.array(actor.sizes, np.int64), "starts": self.starts}

    def npz(self) -> bytes:
        """The .npz file that `numpy_policy` reads; it holds no objects, so no pickle."""
        target = io.BytesIO()
        texts = {
            "about": dict(self.about),
            "network": asdict(self.actor.network),
            "parts": [asdict(part) for part in self.parts],
            "action": {"shape": self.space.shape, "dtype": str(self.space.dtype)},
        }
        words = {name: np.array(json.dumps(text)) for name, text in texts.items()}
        np.savez(target, **words, **self.arrays())  # pyright: ignore[reportArgumentType]
        return target.getvalue()
