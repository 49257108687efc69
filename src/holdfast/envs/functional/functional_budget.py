# SPDX-License-Identifier: Apache-2.0
"""Budgets of functional environments: `envs.budget.Budgeted` inside the compiled scan.

The costs so far are part of the state, so an epoch stays one compiled program.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from holdfast.envs.budget import Budgets
from holdfast.envs.functional.states import Dynamics, StepResult


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class SpentState:
    """A state of the environment and the cost so far of its episode."""

    inner: Any
    spent: Array
    """[k] one for each budget."""


@dataclass(frozen=True)
class BudgetedDynamics(Dynamics):
    """An environment with the remaining budgets appended to each observation."""

    base: Dynamics
    budgets: Budgets

    @classmethod
    def of(cls, dynamics: Dynamics, budgets: Budgets) -> BudgetedDynamics:
        budgets.columns(dynamics.cost.names)
        own = {field.name: getattr(dynamics, field.name) for field in fields(dynamics)}
        own["observation_space"] = budgets.widened(dynamics.observation_space)
        own["facts"] = replace(
            dynamics.facts,
            budget_names=budgets.names,
            native_observation_space=dynamics.observation_space,
        )
        return cls(**own, base=dynamics, budgets=budgets)

    def start(self, key: Array) -> SpentState:
        return SpentState(self.base.start(key), jnp.zeros(len(self.budgets.limits), jnp.float32))

    def observe(self, state: SpentState) -> Array:
        return self._shown(self.base.observe(state.inner), state.spent)

    def move(self, state: SpentState, action: Array) -> tuple[SpentState, StepResult]:
        reached, out = self.base.move(state.inner, action)
        columns = jnp.asarray(self.budgets.columns(self.cost.names))
        # A program cannot raise: a negative cost makes the observation NaN, which ends the run.
        cost = out.cost[columns]
        spent = jnp.where(cost < 0, jnp.nan, state.spent + cost)
        reward = self.budgets.rewarded(out.reward, state.spent, jnp)
        return SpentState(reached, spent), replace(
            out, obs=self._shown(out.obs, spent), reward=reward
        )

    def _shown(self, obs: Array, spent: Array) -> Array:
        return jnp.concatenate([obs, self.budgets.left(spent, jnp).astype(obs.dtype)])
