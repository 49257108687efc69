# SPDX-License-Identifier: Apache-2.0
"""Foreign spaces as training wants them: flat float observations, plain Box or categorical actions.

observations   Box of any shape, Discrete (one-hot), MultiBinary, MultiDiscrete, Dict, Tuple
actions        Box of any shape, Discrete, MultiDiscrete, MultiBinary, all counted from 0
"""

from typing import Any, TypeGuard, cast

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from holdfast.envs.base import Floats

ActionSpace = spaces.Box | spaces.Discrete | spaces.MultiDiscrete


def flat_observation_space(space: Any, label: str) -> spaces.Box:
    """The Box of shape (O,) that `flatten` fills."""
    if not is_space(space):
        raise ValueError(
            f"Env {label} has observation_space {space!r}, which is not a Gymnasium space: "
            "set it to one, for example gymnasium.spaces.Box(-1.0, 1.0, (3,))."
        )
    if not space.is_np_flattenable:
        raise ValueError(
            f"Env {label} has observations of variable size ({type(space).__name__}), which an MLP "
            "cannot read: wrap it so that it returns a Box, Discrete, Dict or Tuple of fixed size."
        )
    flat = cast("spaces.Box", spaces.flatten_space(space))
    dtype = np.float64 if flat.dtype == np.float64 else np.float32
    return spaces.Box(flat.low.astype(dtype), flat.high.astype(dtype), flat.shape, dtype)


def flatten(space: gym.Space[Any], obs: Any) -> NDArray[Any]:
    """One observation as an array of its numbers; a Box keeps its shape."""
    if isinstance(space, spaces.Box):
        return np.asarray(obs)
    return cast("NDArray[Any]", spaces.flatten(space, obs))


def plain_action_space(space: Any, label: str) -> ActionSpace:
    """What the policy acts in: flat, counted from 0."""
    match space:
        case spaces.Box():
            if not np.issubdtype(np.dtype(space.dtype), np.floating):
                raise ValueError(
                    f"Env {label} has a Box of {space.dtype} as action space: use a float dtype, "
                    "or Discrete or MultiDiscrete for whole numbers."
                )
            return spaces.Box(space.low.reshape(-1), space.high.reshape(-1), dtype=dtype_of(space))
        case spaces.Discrete():
            return spaces.Discrete(int(space.n))
        case spaces.MultiDiscrete():
            return spaces.MultiDiscrete(space.nvec.reshape(-1))
        case spaces.MultiBinary():
            return spaces.MultiDiscrete([2] * int(np.prod(space.shape)))
        case _:
            raise ValueError(
                f"Env {label} has action space {space!r}, but policies act in Box, Discrete, "
                "MultiDiscrete or MultiBinary: wrap it to one of these."
            )


def to_native(space: gym.Space[Any], action: NDArray[Any], clip: bool) -> NDArray[Any]:
    """Plain actions of n environments, [n, ...], in the environment's own space."""
    shaped = action.reshape(len(action), *(space.shape or ()))
    match space:
        case spaces.Box():
            # Gymnasium's contract: actions lie in the space. Many environments assert it.
            shaped = np.clip(shaped, space.low, space.high) if clip else shaped
        case spaces.Discrete() | spaces.MultiDiscrete():
            shaped = shaped + space.start
        case _:
            pass
    return shaped.astype(dtype_of(space))  # a copy: environments may keep or change their action


def still_action(space: ActionSpace) -> NDArray[Any]:
    """A plain action that draws no random number: 0, or the bound nearest to it."""
    if isinstance(space, spaces.Box):
        return np.clip(np.zeros(space.shape, dtype_of(space)), space.low, space.high)
    return np.zeros(space.shape or (), np.int64)


def sample_actions(space: ActionSpace, num_envs: int, rng: np.random.Generator) -> NDArray[Any]:
    """Random plain actions: uniform where bounded, normal where not."""
    match space:
        case spaces.Discrete():
            return rng.integers(0, int(space.n), num_envs)
        case spaces.MultiDiscrete():
            return rng.integers(0, space.nvec, (num_envs, len(space.nvec)))
        case spaces.Box():
            normal = rng.normal(size=(num_envs, *space.shape))
            bounded = np.isfinite(space.low) & np.isfinite(space.high)
            low, high = np.where(bounded, space.low, 0.0), np.where(bounded, space.high, 1.0)
            uniform = low + (high - low) * rng.random((num_envs, *space.shape))
            sampled: Floats = np.where(bounded, uniform, np.clip(normal, space.low, space.high))
            return sampled.astype(dtype_of(space))


def is_space(space: Any) -> TypeGuard[gym.Space[Any]]:
    return isinstance(space, gym.Space)


def dtype_of(space: gym.Space[Any]) -> Any:
    """Its dtype; untyped, since Gymnasium declares a Box of any kind of number."""
    return space.dtype
