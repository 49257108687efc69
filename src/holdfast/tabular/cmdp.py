# SPDX-License-Identifier: Apache-2.0
"""Finite constrained Markov decision processes, for exact computations.

    maximise V_r(π)  subject to  V_{c_i}(π) ≤ b_i,   V_f(π) = (1−γ) E_π[Σ_t γ^t f(s_t, a_t)]

Performances are normalised by (1−γ), so that limits are in the units of one step's cost; state
values and advantages are not. With this convention no further factor of (1−γ) appears. S states, A
actions, K constraints; all arrays are float64 and read-only.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

Floats = NDArray[np.float64]
Kernel = Any
"""A dense [S·A, S] array or a scipy sparse array of that shape; both support `@`, `.T` and
slicing.
"""


@dataclass(frozen=True, eq=False)
class FiniteCMDP:
    """A validated finite CMDP. Arrays may be given as anything NumPy can read."""

    transition: Any
    """P(s'|s,a): dense [S, A, S], or scipy sparse [S·A, S] whose row s·A + a is P(·|s,a)."""
    reward: Floats
    """r [S, A]."""
    cost: Floats
    """c_i [K, S, A]; K = 0 is an ordinary MDP."""
    cost_limit: Floats
    """b_i [K], bounds on the normalised values V_{c_i}; `inf` switches a constraint off."""
    initial: Floats
    """μ [S], the distribution of the first state."""
    gamma: float
    """γ in [0, 1)."""

    def __post_init__(self) -> None:
        sizes = {"reward": 2, "cost": 3, "cost_limit": 1, "initial": 1}
        for name, rank in sizes.items():
            object.__setattr__(self, name, read_array(name, getattr(self, name), rank))
        object.__setattr__(self, "transition", _kernel(self.transition))
        object.__setattr__(self, "gamma", float(read_array("gamma", self.gamma, 0)))
        _check_shapes(self)
        _check_values(self)

    @property
    def num_states(self) -> int:
        return self.reward.shape[0]

    @property
    def num_actions(self) -> int:
        return self.reward.shape[1]

    @property
    def num_constraints(self) -> int:
        return self.cost.shape[0]

    @property
    def is_sparse(self) -> bool:
        return sparse.issparse(self.transition)

    @property
    def kernel(self) -> Kernel:
        """P as a matrix [S·A, S], dense or sparse as it was given."""
        if self.is_sparse:
            return self.transition
        return self.transition.reshape(-1, self.num_states)

    def with_limit(self, *cost_limit: float) -> "FiniteCMDP":
        """The same process under other limits."""
        return replace(self, cost_limit=np.array(cost_limit, float))

    def as_dense(self) -> "FiniteCMDP":
        """The same process with a dense kernel [S, A, S]."""
        dense = self.transition.toarray() if self.is_sparse else self.transition
        return replace(self, transition=dense.reshape(*self.reward.shape, -1))


def read_array(name: str, value: ArrayLike, rank: int) -> Floats:
    """A read-only copy with so many axes; ValueError with the fault."""
    try:
        array = np.array(value, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(
            f"{name} is not a rectangular array of numbers ({error}); give one."
        ) from error
    if array.ndim != rank:
        raise ValueError(f"{name} has shape {array.shape}; give it {rank} axis(es).")
    array.setflags(write=False)
    return array


def _kernel(transition: Any) -> Any:
    if not sparse.issparse(transition):
        return read_array("transition", transition, 3)
    given: Any = transition
    matrix = sparse.csr_array(given, dtype=np.float64, copy=True)
    matrix.sum_duplicates()
    return matrix


def _check_shapes(cmdp: FiniteCMDP) -> None:
    states, actions = cmdp.reward.shape
    constraints = cmdp.cost_limit.shape[0]
    if states == 0 or actions == 0:
        raise ValueError(
            f"reward has shape {cmdp.reward.shape}; a CMDP needs a state and an action."
        )
    flat = (states * actions, states)
    wanted = {
        "transition": flat if cmdp.is_sparse else (states, actions, states),
        "cost": (constraints, states, actions),
        "initial": (states,),
    }
    for name, shape in wanted.items():
        found = getattr(cmdp, name).shape
        if tuple(found) != shape:
            raise ValueError(
                f"{name} has shape {tuple(found)}, but reward {cmdp.reward.shape} and cost_limit "
                f"({constraints},) ask for {shape}: make them agree."
            )


def _check_values(cmdp: FiniteCMDP) -> None:
    if not 0.0 <= cmdp.gamma < 1.0:
        raise ValueError(
            f"gamma={cmdp.gamma} must lie in [0, 1): with 1 the discounted sums diverge."
        )
    for name in ("reward", "cost", "initial"):
        if not np.all(np.isfinite(getattr(cmdp, name))):
            raise ValueError(f"{name} contains a value that is not finite; replace it by a number.")
    if np.any(np.isnan(cmdp.cost_limit)) or np.any(np.isneginf(cmdp.cost_limit)):
        raise ValueError(
            f"cost_limit={cmdp.cost_limit.tolist()} must be numbers; inf switches a limit off."
        )
    _check_law("initial", cmdp.initial[None], "state")
    entries = cmdp.transition.data if cmdp.is_sparse else cmdp.kernel
    if not np.all(np.isfinite(entries)) or np.min(entries, initial=0.0) < 0.0:
        raise ValueError("transition contains a negative or non-finite entry; give probabilities.")
    total = np.asarray(cmdp.kernel.sum(axis=1)).reshape(-1)
    worst = int(np.argmax(np.abs(total - 1.0)))
    if abs(total[worst] - 1.0) > 1e-9:
        state, action = divmod(worst, cmdp.num_actions)
        raise ValueError(
            f"transition[{state}, {action}] sums to {total[worst]:.12g} instead of 1; "
            "normalise each row P(·|s,a)."
        )


def _check_law(name: str, rows: Floats, noun: str) -> None:
    total = rows.sum(axis=1)
    worst = int(np.argmax(np.abs(total - 1.0)))
    if rows.min() < 0.0 or abs(total[worst] - 1.0) > 1e-9:
        raise ValueError(
            f"{name} must be a probability distribution over {noun}s, but it sums to "
            f"{total[worst]:.12g} "
            f"with smallest entry {rows.min():.3g}; normalise it."
        )


def check_policy(cmdp: FiniteCMDP, policy: ArrayLike) -> Floats:
    """The policy π(a|s) as a float64 array [S, A]; ValueError with the fault."""
    array = np.asarray(policy, dtype=np.float64)
    if array.shape != cmdp.reward.shape:
        raise ValueError(
            f"policy has shape {array.shape}, but this CMDP has {cmdp.num_states} states and "
            f"{cmdp.num_actions} actions: give one row of action probabilities for each state."
        )
    _check_law("policy", array, "action")
    return array


def toy(cost_limit: float = 0.2) -> FiniteCMDP:
    """The 2×2 CMDP of the C-TRPO paper: a1 stays, a2 switches; s2 has more reward and more cost."""
    stay_or_switch = [[[1, 0], [0, 1]], [[0, 1], [1, 0]]]
    return FiniteCMDP(
        transition=np.array(stay_or_switch, float),
        reward=np.array([[1.0, 0.0], [2.0, 0.0]]),
        cost=np.array([[[0.1, 0.0], [1.0, 0.01]]]),
        cost_limit=np.array([cost_limit]),
        initial=np.array([0.8, 0.2]),
        gamma=0.9,
    )


def implicit_bias(cost_limit: float = 0.95) -> FiniteCMDP:
    """The toy with a third action that copies a1 at half the cost in s2: a face of optima.

    The limit is slack, so every mix of a1 and a3 in s2 is optimal, and the geometry alone
    determines the end of the flow.
    """
    base = toy(cost_limit)
    cost = np.concatenate([base.cost, [[[0.1], [0.5]]]], axis=2)
    return replace(
        base,
        transition=base.transition[:, [0, 1, 0]],
        reward=base.reward[:, [0, 1, 0]],
        cost=cost,
    )


def two_action_policy(*first: float) -> Floats:
    """π from the probabilities of the first of two actions, one for each state."""
    prob = np.array(first, float)
    return np.stack([prob, 1.0 - prob], axis=1)
