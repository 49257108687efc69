# SPDX-License-Identifier: Apache-2.0
"""Example CMDPs: random ones with a guaranteed interior, and hazard gridworlds."""

from dataclasses import replace
from typing import Any, Literal

import numpy as np
from scipy import sparse

from holdfast.tabular.cmdp import FiniteCMDP, Floats
from holdfast.tabular.lp import optimum
from holdfast.tabular.occupancy import evaluate


def uniform_policy(cmdp: FiniteCMDP) -> Floats:
    """Every action equally likely in every state [S, A]."""
    return np.full(cmdp.reward.shape, 1.0 / cmdp.num_actions)


def random_cmdp(
    rng: np.random.Generator,
    num_states: int = 10,
    num_actions: int = 3,
    num_constraints: int = 1,
    gamma: float = 0.9,
    margin: float = 0.03,
) -> FiniteCMDP:
    """A dense random CMDP in which the uniform policy satisfies every limit by `margin`.

    Costs correlate with rewards, so that limits bind; the interior of the safe set is never empty.
    Every state can be the first one, so policies and occupancies correspond one to one.
    """
    if margin <= 0.0:
        raise ValueError(f"margin={margin} must be positive, or the safe set may have no interior.")
    shape = (num_states, num_actions)
    signals = _signals(rng, num_constraints, shape)
    kernel = rng.dirichlet(np.full(num_states, 0.5), size=shape)
    initial = 0.1 / num_states + 0.9 * rng.dirichlet(np.ones(num_states))
    return _safe_if_uniform(kernel, *signals, initial, gamma, margin)


def tied_cmdp(
    rng: np.random.Generator,
    num_states: int = 6,
    num_actions: int = 3,
    num_constraints: int = 1,
    gamma: float = 0.9,
) -> FiniteCMDP:
    """A `random_cmdp` with a face of optima: every action has a twin that differs only in a last
    cost.

    Twins share transitions, reward and the other costs, so every mix of an optimum's twins is
    optimal if it keeps the last limit. The last cost of the optimum's main actions is high, that of
    their twins low. The limit is above the uniform policy's cost and, unless that is high, below
    the cost of an even mix of the optimal twins. So some optima meet it with equality, others are
    inside, and without its barrier the flow from the uniform policy would cross it.
    """
    base = random_cmdp(rng, num_states, num_actions, num_constraints, gamma)
    best = optimum(base).policy
    dear = 0.1 * rng.uniform(size=(num_states, 2 * num_actions))
    dear[np.arange(num_states), best.argmax(axis=1)] += 0.9
    twice = lambda array, axis: np.concatenate([array, array], axis=axis)
    cmdp = FiniteCMDP(
        transition=twice(base.transition, 1),
        reward=twice(base.reward, 1),
        cost=np.concatenate([twice(base.cost, 2), dear[None]]),
        cost_limit=np.append(base.cost_limit, np.inf),
        initial=base.initial,
        gamma=gamma,
    )
    spends = lambda policy: float(evaluate(cmdp, policy).cost_return[-1])
    cheap = np.concatenate([np.zeros_like(best), best], axis=1)
    floor = max(spends(uniform_policy(cmdp)), spends(cheap))
    limit = floor + max(0.5 * (spends(0.5 * twice(best, 1)) - floor), 0.03)
    return cmdp.with_limit(*base.cost_limit, limit)


def sparse_cmdp(
    rng: np.random.Generator,
    num_states: int,
    num_actions: int = 4,
    num_constraints: int = 1,
    successors: int = 4,
    gamma: float = 0.95,
) -> FiniteCMDP:
    """A random CMDP with few successors of each action, for 10^5 states and more."""
    rows = num_states * num_actions
    target = rng.integers(num_states, size=(rows, successors))
    weight = rng.dirichlet(np.ones(successors), size=rows)
    pointer = np.arange(rows + 1) * successors
    kernel = sparse.csr_array(
        (weight.reshape(-1), target.reshape(-1), pointer), shape=(rows, num_states)
    )
    signals = _signals(rng, num_constraints, (num_states, num_actions))
    initial = np.full(num_states, 1.0 / num_states)
    return _safe_if_uniform(kernel, *signals, initial, gamma, 0.03)


def _signals(
    rng: np.random.Generator, num_constraints: int, shape: tuple[int, int]
) -> tuple[Floats, Floats]:
    """Random rewards [S, A] and costs [K, S, A] that correlate with them."""
    reward = rng.uniform(size=shape)
    return reward, 0.6 * reward + 0.4 * rng.uniform(size=(num_constraints, *shape))


def _safe_if_uniform(
    kernel: Any, reward: Floats, cost: Floats, initial: Floats, gamma: float, margin: float
) -> FiniteCMDP:
    """The CMDP with limits `margin` above the costs of the uniform policy."""
    cmdp = FiniteCMDP(kernel, reward, cost, np.full(len(cost), np.inf), initial, gamma)
    return replace(cmdp, cost_limit=evaluate(cmdp, uniform_policy(cmdp)).cost_return + margin)


MAPS = {
    "lava": ("S..H...G", "...H....", "...H....", ".......H", "..HH....", "........"),
    "bridge": ("HHHHHHHH", "S......G", "HHHHHHHH", "........", "........"),
    "corridor": ("S.H.G", "....."),
}
"""Small worlds by name: S start, G goal, H hazard, # wall, . floor."""
MOVES = ((0, -1), (1, 0), (0, 1), (-1, 0))
"""Left, down, right, up, as (row, column) steps: the order Gymnasium's FrozenLake uses."""


def gridworld(
    layout: tuple[str, ...] | Literal["lava", "bridge", "corridor"] = "lava",
    cost_limit: float = 0.02,
    slip: float = 0.1,
    gamma: float = 0.95,
) -> FiniteCMDP:
    """A gridworld: each step on a hazard has cost 1, each step at the absorbing goal reward 1.

    With probability `slip` a move goes to one of the two sides instead. Hazards can be crossed:
    only the constraint excludes them, not the dynamics. The kernel is sparse.
    """
    rows = MAPS[layout] if isinstance(layout, str) else layout
    cells = [(i, j) for i, row in enumerate(rows) for j, mark in enumerate(row) if mark != "#"]
    index = {cell: number for number, cell in enumerate(cells)}
    marks = np.array([rows[i][j] for i, j in cells])
    _check_layout(rows, marks)
    entries = [
        (index[cell] * 4 + action, index[_next_cell(cell, turn, index)], prob)
        for cell in cells
        for action in range(4)
        for turn, prob in _turns(action, slip if rows[cell[0]][cell[1]] != "G" else None)
    ]
    row, column, prob = zip(*entries, strict=True)
    at = lambda mark: np.repeat((marks == mark).astype(float)[:, None], 4, axis=1)
    start = (marks == "S").astype(float)
    return FiniteCMDP(
        transition=sparse.coo_array((prob, (row, column)), shape=(4 * len(cells), len(cells))),
        reward=at("G"),
        cost=at("H")[None],
        cost_limit=np.array([cost_limit]),
        initial=start / start.sum(),
        gamma=gamma,
    )


def _check_layout(rows: tuple[str, ...], marks: np.ndarray) -> None:
    if len({len(row) for row in rows}) != 1:
        raise ValueError(f"layout rows have lengths {[len(r) for r in rows]}; make them equal.")
    if unknown := sorted(set(marks.tolist()) - set("SGH.")):
        raise ValueError(
            f"layout contains {unknown}; use S start, G goal, H hazard, # wall, . floor."
        )
    if "S" not in marks:
        raise ValueError("layout has no start; mark at least one cell with S.")


def _turns(action: int, slip: float | None) -> tuple[tuple[int | None, float], ...]:
    """Targets of a move with probabilities; None stays in place, which makes the goal absorbing."""
    if slip is None:
        return ((None, 1.0),)
    return ((action, 1.0 - slip), ((action - 1) % 4, slip / 2), ((action + 1) % 4, slip / 2))


def _next_cell(
    cell: tuple[int, int], move: int | None, index: dict[tuple[int, int], int]
) -> tuple[int, int]:
    """The next cell; at walls and edges the agent stays."""
    if move is None:
        return cell
    ahead = (cell[0] + MOVES[move][0], cell[1] + MOVES[move][1])
    return ahead if ahead in index else cell
