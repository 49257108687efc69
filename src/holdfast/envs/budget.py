# SPDX-License-Identifier: Apache-2.0
"""Budgets as part of observations: the remaining share of each.

    left = (b − C_t) / b, clipped to [−1, 1]     C_t the cost so far, one number for each budget

With it a stationary policy can be optimal under a limit on the tail or on a chance, because its
actions can depend on the remaining budget. In training, a `budget` or `ends` also replaces the
reward of the steps after it is spent (`Limit`); an evaluation uses the original rewards.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from holdfast.core.limits import Limit
from holdfast.core.tails import above
from holdfast.envs.base import Floats, Snapshot, Step, VecEnv, kept_in, native_spaces

SPENT = "budget_spent"
"""Name of the costs so far in a snapshot."""


@dataclass(frozen=True)
class Budgets:
    """The costs with a budget, and whether a spent budget changes the reward."""

    limits: tuple[tuple[str, Limit], ...]
    penalise: bool = True

    @classmethod
    def of(cls, limits: Mapping[str, Limit], penalise: bool) -> Budgets | None:
        """The budgets of limits beyond the mean; None without such limits."""
        found = tuple((name, limit) for name, limit in limits.items() if limit.kind != "mean")
        return cls(found, penalise) if found else None

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.limits)

    @property
    def amounts(self) -> NDArray[np.float64]:
        """[k] b of each budget."""
        return np.array([limit.amount for _, limit in self.limits])

    def columns(self, cost_names: tuple[str, ...]) -> list[int]:
        """Indices of the costs with a budget; ValueError if one is not reported."""
        for name in self.names:
            if name not in cost_names:
                raise ValueError(
                    f"no constraint is called '{name}'; this environment reports "
                    f"{', '.join(cost_names)}."
                )
        return [cost_names.index(name) for name in self.names]

    def left(self, spent: Any, xp: Any = np) -> Any:
        """[..., k] the remaining share of each budget."""
        amounts = self.amounts.astype(spent.dtype)
        return xp.clip((amounts - spent) / amounts, -1.0, 1.0)

    def rewarded(self, reward: Any, spent: Any, xp: Any = np) -> Any:
        """The reward of a step, given the costs `spent` [..., k] before it."""
        if not self.penalise:
            return reward
        for i, (_, limit) in enumerate(self.limits):
            if not limit.is_constraint:
                gone = above(spent[..., i], limit.amount)
                reward = xp.where(gone, xp.asarray(-limit.penalty, reward.dtype), reward)
        return reward

    def widened(self, space: gym.spaces.Box) -> gym.spaces.Box:
        """The observation space with the shares appended."""
        extra = np.ones(len(self.limits), space.dtype)
        low = np.concatenate([space.low.reshape(-1), -extra])
        high = np.concatenate([space.high.reshape(-1), extra])
        return gym.spaces.Box(low, high, dtype=np.dtype(str(space.dtype)).type)


class Budgeted:
    """A batch with the remaining budgets appended to each observation."""

    def __init__(self, env: VecEnv, budgets: Budgets) -> None:
        self.inner, self._budgets = env, budgets
        self._columns = budgets.columns(env.cost_names)
        self.num_envs, self.cost_names = env.num_envs, env.cost_names
        self.action_space, self.can_snapshot = env.action_space, env.can_snapshot
        self.observation_space = budgets.widened(env.observation_space)
        self.facts = replace(
            env.facts, budget_names=budgets.names, native_observation_space=native_spaces(env)[0]
        )
        self._spent = np.zeros((env.num_envs, len(budgets.limits)))

    def reset(self, seed: int) -> Floats:
        self._spent[:] = 0.0
        return self._shown(self.inner.reset(seed), self._spent)

    def step(self, action: NDArray[Any]) -> Step:
        step = self.inner.step(action)
        cost = step.cost[:, self._columns]
        if (cost < 0).any():
            name = self._budgets.names[int((cost < 0).any(0).argmax())]
            raise ValueError(
                f"a step cost {cost.min():g} of '{name}', and a budget needs costs that are not "
                f"negative: use a limit on the mean (--limit {name}=NUMBER), or correct the cost."
            )
        spent = self._spent + cost
        reward = self._budgets.rewarded(step.reward, self._spent)
        ended = step.terminated | step.truncated
        self._spent = np.where(ended[:, None], 0.0, spent)
        obs = self._shown(step.obs, self._spent)
        next_obs = obs if step.obs is step.next_obs else self._shown(step.next_obs, spent)
        return Step(obs, next_obs, reward, step.cost, step.terminated, step.truncated)

    def _shown(self, obs: Floats, spent: NDArray[Any]) -> Floats:
        return np.concatenate([obs, self._budgets.left(spent).astype(obs.dtype)], 1)

    def snapshot(self) -> Snapshot:
        return self.inner.snapshot() | {SPENT: self._spent.copy()}

    def restore(self, snapshot: Snapshot) -> Floats:
        spent = kept_in(snapshot, SPENT, self._spent, "a batch with the same budgets").copy()
        rest = {name: value for name, value in snapshot.items() if name != SPENT}
        obs = self.inner.restore(rest)
        self._spent = spent
        return self._shown(obs, spent)

    def close(self) -> None:
        self.inner.close()


def with_budgets(env: VecEnv, budgets: Budgets | None) -> Any:
    """The batch with budgets; the batch itself without any."""
    return env if budgets is None else Budgeted(env, budgets)
