# SPDX-License-Identifier: Apache-2.0
"""A policy as named arrays and metadata."""

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
    """Action space of the environment."""
    about: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Its origin as plain data; stored in the file."""
    observed: gym.spaces.Space[Any] | None = None
    """Observation space of the environment; None: flat."""
    budgets: tuple[str, ...] = ()
    """Names of the costs whose remaining budget is a separate input, `budget`."""

    @property
    def obs_size(self) -> int:
        return self.actor.obs_size

    @cached_property
    def given(self) -> gym.spaces.Space[Any]:
        """Observation space of the export: flat if the environment's is of an unsupported kind."""
        if self.observed is None or parts_of(self.observed) is None:
            size = self.obs_size - len(self.budgets)
            return gym.spaces.Box(-np.inf, np.inf, (size,), np.float64)
        return self.observed

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """The parts of an observation, and the remaining budgets."""
        left = (Part((), (len(self.budgets),), root=BUDGET),) if self.budgets else ()
        return (parts_of(self.given) or ()) + left

    @cached_property
    def plain(self) -> ActionSpace:
        """The policy's action space: flat, counted from 0."""
        return plain_action_space(self.space, "")

    @cached_property
    def starts(self) -> NDArray[np.int64]:
        """[D] number of the first choice of each component."""
        start = getattr(self.space, "start", np.zeros(len(self.actor.sizes), np.int64))
        return np.array(start, np.int64).reshape(-1)

    def act(
        self, obs: NDArray[Any], noise: Float32 | None = None, memory: Float32 | None = None
    ) -> NDArray[Any]:
        """Holdfast's own actions for obs [n, O], the reference of every export."""
        chosen = self.actor.act(self.actor.view(obs, memory), noise)[0]
        return to_native(self.space, action_map(self.plain, clip=True)(chosen), clip=True)

    def remembered(self, obs: NDArray[Any], memory: Float32 | None) -> Float32:
        """[n, memory] Holdfast's own memory after obs."""
        return self.actor.outputs(self.actor.view(obs, memory))[1]

    def scores(
        self, obs: NDArray[Any], noise: Float32 | None = None, memory: Float32 | None = None
    ) -> Any:
        """[n, ΣD] scores of the choices, block by block."""
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
        """The .npz file that `numpy_policy` reads; it contains no objects, so no pickle."""
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
