# SPDX-License-Identifier: Apache-2.0
"""Record of a foreign environment's seeds and actions, from which its state is reproduced.

The state of a foreign simulator cannot be read. But every episode starts with a reset whose seed
follows from (seed of the environment, number of the episode). So this seed and the actions of the
current episode reproduce the state, if all randomness comes from the seed.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.envs.base import Bools, Floats, NotReproducible, Snapshot


def episode_seed(seed: int, episode: int) -> int:
    """The seed of an environment's episode: the environment's own for the first, then one for
    each.
    """
    if episode == 0:
        return seed
    return int(np.random.SeedSequence([seed, episode]).generate_state(1)[0] >> 1)


def shown_in(snapshot: Snapshot, label: str, shape: tuple[int, ...]) -> Floats:
    """The observations of a snapshot; ValueError if it is of another batch."""
    shown, names = snapshot.get("obs"), ("seed", "episode", "age", "actions")
    rows = [snapshot[name].shape[:1] for name in names if name in snapshot]
    if shown is None or shown.shape != shape or rows != [shape[:1]] * len(names):
        raise ValueError(
            f"the snapshot is not one of {shape[0]} environments like {label}: restore the result "
            "of `snapshot`, with the same num_envs."
        )
    return shown


def refuse_others(label: str, obs: Floats, shown: Floats, first: int = 0) -> None:
    """Refuse an environment whose repeated episode leads to other observations."""
    differs = (obs != shown).any(1)
    if differs.any():
        raise NotReproducible(
            f"{label} is not reproducible: the same seed and actions led environment "
            f"{first + int(differs.argmax())} to another observation. Draw all randomness from "
            "self.np_random, which reset(seed) seeds, and set all state in reset()."
        )


class Tape:
    """The actions of the current episodes of a batch."""

    def __init__(self, seed: NDArray[np.int64]) -> None:
        self._seed = seed
        """[N]"""
        self._episode = np.zeros_like(seed)
        """[N] number of finished episodes."""
        self._age = np.zeros_like(seed)
        """[N] number of steps of the current episodes."""
        self._actions: list[NDArray[Any]] = []
        """[N, ...] of the last steps, at least as many as the oldest episode has."""

    def seed_of(self, i: int) -> int:
        """The seed of the current episode of environment i."""
        return episode_seed(int(self._seed[i]), int(self._episode[i]))

    def describe(self, i: int) -> str:
        """The position of environment i, in words."""
        return f"after {int(self._age[i])} steps of its episode {int(self._episode[i]) + 1}"

    def record(self, action: NDArray[Any], ended: Bools) -> None:
        """Record a step."""
        self._actions.append(action.copy())
        self._age = np.where(ended, 0, self._age + 1)
        self._episode = self._episode + ended
        if len(self._actions) > 64 + 2 * self._age.max():
            self._actions = self._kept()

    def _kept(self) -> list[NDArray[Any]]:
        return self._actions[len(self._actions) - int(self._age.max()) :]

    def save(self, action: NDArray[Any]) -> Snapshot:
        """Arrays with one row for each environment; `action` is any of the batch."""
        kept = self._kept()
        actions = np.stack(kept, 1) if kept else np.empty((len(action), 0, *action.shape[1:]))
        for row, age in zip(actions, self._age, strict=True):
            row[: len(row) - age] = 0  # of earlier episodes
        return {"seed": self._seed, "episode": self._episode, "age": self._age, "actions": actions}

    @classmethod
    def load(cls, saved: Snapshot) -> "Tape":
        """The inverse of `save`."""
        tape = cls(saved["seed"])
        tape._episode, tape._age = saved["episode"], saved["age"]
        tape._actions = list(saved["actions"].swapaxes(0, 1))
        return tape
