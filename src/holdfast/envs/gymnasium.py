# SPDX-License-Identifier: Apache-2.0
"""Any Gymnasium or Safety-Gymnasium environment as a VecEnv.

Costs come from where the environment keeps them (see `cost`), or from a function of the user's.
Environments run in a plain loop (a few microseconds on top of each step) or in worker processes;
the numbers are the same.

A foreign simulator cannot be asked for its state. A snapshot holds the seeds and the actions of the
current episodes, and restoring plays these again (see `tape`).
"""

import os
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from holdfast.envs.base import Floats, NotReproducible, Snapshot, Step
from holdfast.envs.cost import CostFunction
from holdfast.envs.opening import (
    EnvSource,
    close_all,
    inspect_env,
    is_instance,
    label_of,
    open_env,
    resolve,
)
from holdfast.envs.process import Workers
from holdfast.envs.share import Share
from holdfast.envs.tape import Tape

Vectorise = Literal["sync", "process"]


class GymVecEnv:
    """N environments of one kind.

    source        a Gymnasium id, a function that makes one environment, or (for num_envs=1) an
                  environment
    constraints   ("hazards", "vases") makes info["cost_hazards"] and info["cost_vases"] two
                  constraints; without it the single summed cost is the one constraint
    cost          a function of (obs, action, next_obs) or (obs, action, next_obs, info), all in the
                  environment's own terms, that returns a number or one for each constraint
    workers       processes for vectorise="process"; 0 means one for each core
    clip_actions  whether to clip actions to the bounds of the environment's Box
    """

    can_snapshot = True

    def __init__(
        self,
        source: EnvSource,
        num_envs: int = 1,
        *,
        constraints: Sequence[str] | None = None,
        cost: CostFunction | None = None,
        vectorise: Vectorise = "sync",
        workers: int = 0,
        clip_actions: bool = True,
    ) -> None:
        _check(source, num_envs, vectorise, workers)
        source = resolve(source)
        first = open_env(source)
        opened = [first]
        try:
            layout = inspect_env(first, label_of(first), constraints, cost, clip_actions)
            if vectorise == "process":
                close_all(opened)
                workers = min(workers or os.cpu_count() or 1, num_envs)
                self._running: Share | Workers = Workers(source, layout, num_envs, workers)
            else:
                _open_others(source, opened, num_envs, layout.label)
                self._running = Share(opened, layout)
        except BaseException:
            if not is_instance(source):
                close_all(opened)
            raise
        self.num_envs = num_envs
        self.observation_space = layout.observation_space
        self.action_space = layout.action_space
        self.cost_names = layout.cost.names
        self.time_limit = layout.time_limit
        self._label = layout.label
        self._action_shape = (num_envs, *(self.action_space.shape or ()))
        self._tape: Tape | None = None
        self._obs: Floats = np.empty(0)

    def reset(self, seed: int) -> Floats:
        self._obs = self._running.reset(seed)
        self._tape = Tape(np.arange(seed, seed + self.num_envs))
        return self._obs.copy()

    def step(self, action: NDArray[Any]) -> Step:
        action = np.asarray(action)
        if action.shape != self._action_shape:
            raise ValueError(
                f"action has shape {action.shape}, expected {self._action_shape}: "
                "pass one action for each environment."
            )
        step = self._running.step(action)
        if self._tape is not None:
            self._tape.record(action, step.terminated | step.truncated)
        self._obs = step.obs
        return step

    def snapshot(self) -> Snapshot:
        """The seeds and actions that lead to where the environments stand, and what they show."""
        if self._tape is None:
            raise ValueError(f"Env {self._label} has no state before its first reset(seed).")
        return self._tape.save(np.empty(self._action_shape)) | {"obs": self._obs.copy()}

    def restore(self, snapshot: Snapshot) -> Floats:
        """Play the current episodes again, and see whether they lead to the same place."""
        shown = snapshot.get("obs")
        expected = (self.num_envs, *self.observation_space.shape)
        if shown is None or shown.shape != expected or "actions" not in snapshot:
            raise ValueError(
                f"the snapshot is not one of {self.num_envs} environments like {self._label}: "
                "restore what `snapshot` gave, with the same num_envs."
            )
        saved = {name: array for name, array in snapshot.items() if name != "obs"}
        self._obs, self._tape = self._running.restore(saved), Tape.load(saved)
        differs = (self._obs != shown).any(1)
        if differs.any():
            raise NotReproducible(
                f"Env {self._label} is not reproducible: the same seed and actions led environment "
                f"{int(differs.argmax())} to another observation. Draw all randomness from "
                "self.np_random and set all state in reset()."
            )
        return self._obs.copy()

    def close(self) -> None:
        self._running.close()


def _open_others(source: EnvSource, opened: list[Any], num_envs: int, label: str) -> None:
    while len(opened) < num_envs:
        env = open_env(source)
        if any(env is other for other in opened):
            raise ValueError(
                f"the factory of Env {label} returned the same environment twice: "
                "make a new one in each call."
            )
        opened.append(env)


def _check(source: EnvSource, num_envs: int, vectorise: str, workers: int) -> None:
    if num_envs < 1:
        raise ValueError(f"num_envs={num_envs} must be at least 1.")
    if workers < 0:
        raise ValueError(f"workers={workers} must be at least 0; 0 means one for each core.")
    if vectorise not in ("sync", "process"):
        raise ValueError(
            f"vectorise={vectorise!r} must be 'sync' (a loop in this process) or 'process'."
        )
    if is_instance(source) and (num_envs > 1 or vectorise == "process"):
        raise ValueError(
            f"one instance of Env {label_of(source)} cannot serve num_envs={num_envs} with "
            f"vectorise={vectorise!r}: pass a function that makes one, such as lambda: MyEnv()."
        )
