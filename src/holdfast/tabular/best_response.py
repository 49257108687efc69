# SPDX-License-Identifier: Apache-2.0
"""The unconstrained problem max_π V_f(π) by policy iteration, and the bounds it gives.

Every λ ≥ 0 gives a priced signal r − λ·c. The best response to it bounds the constrained optimum
from above (weak duality):

    max over safe π of V_r(π)  ≤  max_π V_{r − λ·c}(π) + λ·b

with equality at the optimal multipliers.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from holdfast.tabular.cmdp import FiniteCMDP, Floats
from holdfast.tabular.resolvent import TOLERANCE, Resolvent

Actions = NDArray[np.intp]
LOOSE = 1e-7
"""Accuracy of the values in all but the last rounds of policy iteration."""
MOST_ROUNDS = 1_000


@dataclass(frozen=True, eq=False)
class Response:
    """A deterministic policy that maximises one signal from every state."""

    actions: Actions
    """[S]"""
    value: Floats
    """v [S] of the signal."""
    visits: Floats
    """ρ [S], the state occupancy."""
    reward_return: float
    """V_r."""
    cost_return: Floats
    """V_c [K]."""


def best_response(cmdp: FiniteCMDP, signal: Floats, start: Actions | None = None) -> Response:
    """Maximise V_f by policy iteration; `start` warm-starts it."""
    states = np.arange(cmdp.num_states)
    actions = np.argmax(signal, axis=1) if start is None else start
    scale = max(float(np.max(np.abs(signal))), 1e-300) / (1.0 - cmdp.gamma)
    value: Floats | None = None
    loose = True  # early rounds need no exact values; only the last verdict does
    for _ in range(MOST_ROUNDS):
        resolvent = Resolvent.of(cmdp, deterministic(cmdp, actions))
        accuracy = LOOSE if loose else TOLERANCE
        value = resolvent.forward(signal[states, actions], value, accuracy)
        action_value = signal + cmdp.gamma * np.asarray(cmdp.kernel @ value).reshape(signal.shape)
        better = np.argmax(action_value, axis=1)
        # Rounding must not swap equally good actions for ever: switch on a clear gain only.
        clear = 10.0 * accuracy * scale
        gain = action_value[states, better] - action_value[states, actions] > clear
        if np.any(gain):
            actions = np.where(gain, better, actions)
        elif loose:
            loose = False
        else:
            visits = resolvent.backward((1.0 - cmdp.gamma) * cmdp.initial)
            reward = float(visits @ cmdp.reward[states, actions])
            cost = cmdp.cost[:, states, actions] @ visits
            return Response(actions, value, visits, reward, cost)
    raise RuntimeError(f"policy iteration still improves after {MOST_ROUNDS} rounds")


def deterministic(cmdp: FiniteCMDP, actions: Actions) -> Floats:
    """π(a|s) [S, A] that always takes `actions[s]`."""
    policy = np.zeros(cmdp.reward.shape)
    policy[np.arange(cmdp.num_states), actions] = 1.0
    return policy


def priced(cmdp: FiniteCMDP, multiplier: Floats) -> Floats:
    """r − Σ_i λ_i c_i [S, A]."""
    return cmdp.reward - np.einsum("k,ksa->sa", multiplier, cmdp.cost)


def lagrangian_bound(cmdp: FiniteCMDP, multiplier: ArrayLike) -> float:
    """max_π V_{r−λc}(π) + λ·b, an upper bound on every safe policy's V_r for any λ ≥ 0 [K]."""
    price = np.asarray(multiplier, dtype=np.float64)
    if price.shape != cmdp.cost_limit.shape or np.any(price < 0.0):
        raise ValueError(
            f"multiplier={price.tolist()} must be {cmdp.num_constraints} numbers, none negative: "
            "with a negative price the bound does not hold."
        )
    return dual_objective(cmdp, price, best_response(cmdp, priced(cmdp, price)).value)


def dual_objective(cmdp: FiniteCMDP, multiplier: Floats, state_price: Floats) -> float:
    """(1−γ) μ·v + λ·b for prices v [S] of the states and λ [K] of the limits."""
    paid = multiplier > 0.0
    limits = float(np.sum(multiplier[paid] * cmdp.cost_limit[paid]))
    return (1.0 - cmdp.gamma) * float(cmdp.initial @ state_price) + limits
