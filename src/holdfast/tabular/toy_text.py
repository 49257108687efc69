# SPDX-License-Identifier: Apache-2.0
"""Finite CMDPs from and to Gymnasium's toy-text environments.

`from_gymnasium` reads the transition table `P` of FrozenLake, CliffWalking, Taxi or any environment
that has one, and adds a cost: a function of (state, action, next state, reward). Transitions that
end an episode lead to one extra absorbing state without reward and cost, or, with `restart=True`,
back to the initial distribution. `CMDPEnv` turns any FiniteCMDP into an environment that reports
its first cost in `info["cost"]` and all of them in `info["costs"]`.
"""

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
from scipy import sparse

from holdfast.tabular.cmdp import FiniteCMDP, Floats

Cost = Callable[[int, int, int, float], float]
"""(state, action, next state, reward) ↦ cost."""


def hole_cost(env: gym.Env[Any, Any]) -> Cost:
    """FrozenLake: 1 for falling into a hole."""
    tiles: Any = env.unwrapped
    marks = tiles.desc.astype(str).reshape(-1)
    return lambda s, a, t, r: float(marks[t] == "H")


def cliff_cost(env: gym.Env[Any, Any]) -> Cost:
    """CliffWalking: 1 for stepping off the cliff (reward −100)."""
    return lambda s, a, t, r: float(r <= -100)


def illegal_cost(env: gym.Env[Any, Any]) -> Cost:
    """Taxi: 1 for an illegal pickup or drop-off (reward −10)."""
    return lambda s, a, t, r: float(r <= -10)


COSTS: dict[str, Callable[[gym.Env[Any, Any]], Cost]] = {
    "FrozenLake": hole_cost,
    "CliffWalking": cliff_cost,
    "Taxi": illegal_cost,
}
"""The natural cost of each toy-text environment, by the beginning of its id."""


def from_gymnasium(
    env: str | gym.Env[Any, Any],
    cost: Cost | None = None,
    cost_limit: float = np.inf,
    gamma: float = 0.95,
    restart: bool = False,
) -> FiniteCMDP:
    """The exact CMDP of an environment with a transition table; without `cost`, its natural one."""
    made = gym.make(env) if isinstance(env, str) else env
    table: Any = getattr(made.unwrapped, "P", None)
    if table is None:
        raise ValueError(
            f"{made} has no transition table `P`, so it is not a finite CMDP; "
            "use FrozenLake, CliffWalking, Taxi or an environment like them."
        )
    price = cost or _natural_cost(made)
    states, actions = len(table), len(table[0])
    start: Floats = np.zeros(states + (not restart))
    start[:states] = np.asarray(getattr(made.unwrapped, "initial_state_distrib"), float)  # noqa: B009
    total = len(start)
    reward, spent = np.zeros((total, actions)), np.zeros((1, total, actions))
    rows: list[tuple[int, int, float]] = []
    for s in range(states):
        for a in range(actions):
            for prob, t, gain, ends in table[s][a]:
                reward[s, a] += prob * gain
                spent[0, s, a] += prob * price(s, a, int(t), float(gain))
                rows += _successors(s * actions + a, float(prob), int(t), ends, restart, start)
    rows += [] if restart else [(states * actions + a, states, 1.0) for a in range(actions)]
    row, column, weight = zip(*rows, strict=True)
    kernel = sparse.coo_array((weight, (row, column)), shape=(total * actions, total))
    return FiniteCMDP(kernel, reward, spent, np.array([cost_limit]), start / start.sum(), gamma)


def _successors(
    row: int, prob: float, target: int, ends: bool, restart: bool, start: Floats
) -> list[tuple[int, int, float]]:
    if not ends:
        return [(row, target, prob)]
    if not restart:
        return [(row, len(start) - 1, prob)]
    law = start / start.sum()
    return [(row, int(t), prob * float(law[t])) for t in np.flatnonzero(law)]


def _natural_cost(env: gym.Env[Any, Any]) -> Cost:
    name = env.spec.id if env.spec else type(env.unwrapped).__name__
    for prefix, make in COSTS.items():
        if name.startswith(prefix):
            return make(env)
    raise ValueError(
        f"'{name}' has no natural cost; pass `cost=` a function of (state, action, next, reward)."
    )


class CMDPEnv(gym.Env[Any, Any]):
    """A FiniteCMDP as a Gymnasium environment that never terminates; add a TimeLimit as needed."""

    metadata = {"render_modes": []}  # noqa: RUF012 (gymnasium's own signature)

    def __init__(self, cmdp: FiniteCMDP) -> None:
        self.cmdp = cmdp
        self.observation_space = gym.spaces.Discrete(cmdp.num_states)
        self.action_space = gym.spaces.Discrete(cmdp.num_actions)
        self._kernel = sparse.csr_array(cmdp.kernel)
        self._state = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        self._state = int(self.np_random.choice(self.cmdp.num_states, p=self.cmdp.initial))
        return self._state, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        row = self._state * self.cmdp.num_actions + int(action)
        window = slice(self._kernel.indptr[row], self._kernel.indptr[row + 1])
        law = np.cumsum(self._kernel.data[window])
        pick = int(np.searchsorted(law, self.np_random.random() * law[-1], side="right"))
        costs = self.cmdp.cost[:, self._state, int(action)]
        reward = float(self.cmdp.reward[self._state, int(action)])
        self._state = int(self._kernel.indices[window][min(pick, len(law) - 1)])
        info = {"cost": float(costs[0]) if len(costs) else 0.0, "costs": costs.copy()}
        return self._state, reward, False, False, info
