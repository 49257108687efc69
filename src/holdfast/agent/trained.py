# SPDX-License-Identifier: Apache-2.0
"""A trained policy as a value, and the batches and limits that its fresh episodes need."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.envs.acting import Actor, action_map
from holdfast.envs.base import VecEnv
from holdfast.envs.foreign.references import is_other
from holdfast.envs.foreign.spaces import read_observations, to_native
from holdfast.envs.make import is_given
from holdfast.judge.evaluate import Limits, LimitValue, evaluation_limits, limits_elsewhere
from holdfast.judge.perturb import Perturbation, perturbed
from holdfast.process import versions
from holdfast.run import Run
from holdfast.runs.space_json import describe_space
from holdfast.ship.export import Portable
from holdfast.train.environment import Given, Spaces, open_env
from holdfast.train.state import State, actor_of


@dataclass(frozen=True)
class Trained:
    """A state of training, with the run and the spaces that it belongs to."""

    run: Run
    spaces: Spaces
    state: State

    @property
    def actor(self) -> Actor:
        """The policy in NumPy."""
        return actor_of(self.run, self.state)

    def predict(
        self, obs: Any, memory: Any, budget: Any, noise: Callable[[Actor, int], Any]
    ) -> Any:
        """Actions in the environment's form; `noise` is for an actor and a number of rows."""
        spaces, actor = self.spaces, self.actor
        flat, single = read_observations(spaces.native_observation, obs)
        flat = spaces.with_left(flat, budget)
        kept = actor.recall(memory, len(flat))
        drawn = noise(actor, len(flat))
        given = None if drawn is None else actor.fitting(drawn, len(flat))
        chosen, kept = actor.act(actor.view(flat, kept), given)
        action = action_map(spaces.action, True)(chosen)
        if spaces.native_action is not spaces.action:
            action = to_native(spaces.native_action, action, True)
        action, kept = (action[0], kept[0]) if single else (action, kept)
        return (action, kept) if actor.network.memory else action

    @contextmanager
    def batch(
        self, run: Run, given: Given, trusted: bool, perturb: Perturbation | None
    ) -> Generator[VecEnv]:
        """Environments of `run` for fresh episodes of this policy, closed after the block."""
        if perturb is not None:
            run = replace(run, workers=1)  # whose simulators can be reached
        envs = open_env(run, *given, to_evaluate=True, trusted=trusted)
        try:
            self.spaces.refuse_other(Spaces.of(replace(run, limits=self.spaces.limits), envs))
            yield envs if perturb is None else perturbed(envs, perturb, self._noise_unit())
        finally:
            if not is_given(given[0]):
                envs.close()

    def _noise_unit(self) -> NDArray[Any]:
        """[O] the unit of sensor noise; 0 for remaining budgets, which are known exactly."""
        seen = np.sqrt(self.state.normaliser.var)
        unit = np.ones_like(seen) if self.actor.normaliser is None else seen
        unit[len(unit) - len(self.spaces.budgets) :] = 0.0
        return unit

    def limits(self, env: str, envs: VecEnv, given: Limits | None) -> dict[str, LimitValue]:
        """The limits that judge this policy: given ones, those of training, or of another task."""
        known = {**self.spaces.limits, **self.run.kinds}
        if given is None and is_other(self.run.env, env):
            known = limits_elsewhere(self.spaces.limits, envs.facts.cost_limits, env)
        return evaluation_limits(known, given)

    def refuse_to_continue(self, run: Run, spaces: Spaces) -> None:
        """Refuse a run whose environments do not fit the state."""
        if not self.spaces.fits(spaces) or len(self.state.obs) != run.num_envs:
            raise ValueError(
                "this agent learned on other spaces, constraints or num_envs and cannot "
                "continue here; make a new Agent."
            )

    def portable(self) -> Portable:
        """The policy for use without Holdfast."""
        run, spaces, space = self.run, self.spaces, self.spaces.native_action
        about = {
            "algorithm": run.name,
            "env": run.env,
            "seed": run.seed,
            "epoch": self.state.epoch,
            "limits": spaces.limits | run.limits,
            "budgets": {name: spaces.limits[name] for name in spaces.budgets},
            "noise_time": self.state.noise.time,
            "action_space": describe_space(space),
            "holdfast": versions()["holdfast"],
        }
        return Portable(self.actor, space, about, spaces.native_observation, spaces.budgets)
