# SPDX-License-Identifier: Apache-2.0
"""What brings a foreign environment back: the seeds of its episodes and the actions since.

A foreign simulator cannot be asked for its state. But every episode starts with a reset whose seed
follows from (seed of the environment, number of the episode), so that seed and the actions of the
current episode lead to where it stands, if it draws all randomness from its seed.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.envs.base import Bools, Floats, NotReproducible, Snapshot


def episode_seed(seed: int, episode: int) -> int:
    """The seed of an environment's episode: its own for the first, then one for each."""
    if episode == 0:
        return seed
    return int(np.random.SeedSequence([seed, episode]).generate_state(1)[0] >> 1)


def shown_in(snapshot: Snapshot, label: str, shape: tuple[int, ...]) -> Floats:
    """What the environments showed when the snapshot was taken; of another batch it is refused."""
    shown, names = snapshot.get("obs"), ("seed", "episode", "age", "actions")
    rows = [snapshot[name].shape[:1] for name in names if name in snapshot]
    if shown is None or shown.shape != shape or rows != [shape[:1]] * len(names):
        raise ValueError(
            f"the snapshot is not one of {shape[0]} environments like {label}: restore what "
            "`snapshot` gave, with the same num_envs."
        )
    return shown


def refuse_others(label: str, obs: Floats, shown: Floats, first: int = 0) -> None:
    """Playing an episode again must lead to the same place."""
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
        """[N] episodes that have ended."""
        self._age = np.zeros_like(seed)
        """[N] steps of the current ones."""
        self._actions: list[NDArray[Any]] = []
        """[N, ...] of the last steps, at least as many as the oldest episode has."""

    def seed_of(self, i: int) -> int:
        """The seed of the current episode of environment i."""
        return episode_seed(int(self._seed[i]), int(self._episode[i]))

    def describe(self, i: int) -> str:
        """How far environment i has come."""
        return f"after {int(self._age[i])} steps of its episode {int(self._episode[i]) + 1}"

    def record(self, action: NDArray[Any], ended: Bools) -> None:
        """After a step."""
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
