# SPDX-License-Identifier: Apache-2.0
"""The costs of random actions, as a reference for choosing a limit."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count

import numpy as np
from numpy.typing import NDArray

from holdfast.console import counted
from holdfast.envs.base import VecEnv
from holdfast.envs.foreign.costs import CostFunction
from holdfast.envs.foreign.source import EnvSource
from holdfast.envs.foreign.spaces import sample_actions
from holdfast.envs.make import is_given, make_env
from holdfast.envs.rollout import add_up


@dataclass(frozen=True)
class Chance:
    """Episodes of uniformly random actions."""

    costs: dict[str, NDArray[np.float64]]
    """Constraint → [n] cost of each episode, undiscounted."""
    lengths: NDArray[np.int64]
    in_parts: bool = False
    """Whether the environment by default sums these costs to one."""

    def __repr__(self) -> str:
        each = ", ".join(f"{name} {x.mean():.4g}" for name, x in self.costs.items())
        return f"Chance({counted(len(self.lengths), 'episode')} of random actions: mean {each})"

    def __str__(self) -> str:
        shown = self.costs | (
            {"their sum": np.sum([*self.costs.values()], 0)} if self.in_parts else {}
        )
        each = [
            f"{name} {x.mean():.4g} (from {x.min():.4g} to {x.max():.4g})"
            for name, x in shown.items()
        ]
        flags = " ".join(f"--limit {name}=NUMBER" for name in self.costs)
        how = f"\nEach may have its own ({flags}), or their sum (--cost-limit NUMBER)."
        return (
            f"Random actions cost, on average over {len(self.lengths)} episodes of "
            f"{self.lengths.mean():.4g} steps: {', '.join(each)}.\n"
            "The limit is the mean cost of an episode that you accept. A limit above these "
            "figures may have no effect; far below them it must be learned; 0 cannot be used with "
            "a barrier."
            f"{how if self.in_parts else ''}"
        )


def suggest_limit(
    env: EnvSource,
    *,
    env_args: Mapping[str, object] | None = None,
    constraints: Sequence[str] | None = None,
    cost: CostFunction | str | None = None,
) -> Chance:
    """The costs of random actions, for choosing a limit; each of several costs. Print the
    result.
    """
    count = 1 if is_given(env) else 10
    envs = make_env(env, count, env_args=env_args, constraints=constraints, cost=cost)
    parts = envs.facts.cost_parts
    if parts:
        if not is_given(env):
            envs.close()
        envs = make_env(env, count, env_args=env_args, constraints=parts)
    try:
        return replace(cost_of_chance(envs), in_parts=bool(parts))
    finally:
        if not is_given(env):
            envs.close()


def cost_of_chance(env: VecEnv, episodes: int = 100, seed: int = 0) -> Chance:
    """Rounds of one episode for each environment, as the first episodes to end would be the short
    ones.
    """
    rows: list[NDArray[np.float64]] = []
    rng, n = np.random.default_rng(seed), env.num_envs
    steps = (env.step(sample_actions(env.action_space, n, rng)) for _ in count())
    for first in range(0, episodes, n):
        env.reset(seed + first)
        rows.append(add_up(env, steps))
    table = np.concatenate(rows)[:episodes]
    costs = {name: table[:, 2 + i] for i, name in enumerate(env.cost_names)}
    return Chance(costs, table[:, 1].astype(np.int64))
