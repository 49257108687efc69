# SPDX-License-Identifier: Apache-2.0
"""Policies and their occupancies: exact values, advantages, gradients and metrics.

    (I − γ P_πᵀ) ρ = (1−γ) μ        d(s,a) = ρ(s) π(a|s)        V_f = ⟨f, d⟩
    v = (I − γ P_π)⁻¹ f_π           A(s,a) = f + γ P v − v

One factorisation of I − γ P_π solves both systems for all signals. For the softmax policy with
logits θ[s,a] the policy gradient theorem reads ∂V_f/∂θ = d·A_f, and the natural gradient is the
advantage itself, so the Jacobian ∂d/∂θ is never needed.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from holdfast.tabular.cmdp import FiniteCMDP, Floats, check_policy
from holdfast.tabular.resolvent import Resolvent


@dataclass(frozen=True, eq=False)
class ExactValues:
    """Exact values of one policy."""

    policy: Floats
    """π(a|s) [S, A]."""
    occupancy: Floats
    """d(s,a) [S, A], sums to 1."""
    value_r: Floats
    """v_r [S], discounted, not normalised."""
    value_c: Floats
    """v_c [K, S]."""
    adv_r: Floats
    """A_r [S, A]."""
    adv_c: Floats
    """A_c [K, S, A]."""
    reward_return: float
    """V_r = ⟨r, d⟩."""
    cost_return: Floats
    """V_c [K]."""
    slack: Floats
    """b − V_c [K]; positive inside the safe set."""

    @property
    def visits(self) -> Floats:
        """ρ(s) = Σ_a d(s,a) [S]."""
        return self.occupancy.sum(axis=1)


def evaluate(cmdp: FiniteCMDP, policy: ArrayLike) -> ExactValues:
    """Evaluate a policy exactly: one factorisation, 2 + K solves."""
    pi = check_policy(cmdp, policy)
    resolvent = Resolvent.of(cmdp, pi)
    visits = resolvent.backward((1.0 - cmdp.gamma) * cmdp.initial)
    d = visits[:, None] * pi
    signals = np.concatenate([cmdp.reward[None], cmdp.cost])
    value = resolvent.forward(np.einsum("ksa,sa->sk", signals, pi)).T
    adv = _advantage(cmdp, signals, value)
    cost_return = np.einsum("ksa,sa->k", cmdp.cost, d)
    return ExactValues(
        policy=pi,
        occupancy=d,
        value_r=value[0],
        value_c=value[1:],
        adv_r=adv[0],
        adv_c=adv[1:],
        reward_return=float(np.sum(cmdp.reward * d)),
        cost_return=cost_return,
        slack=cmdp.cost_limit - cost_return,
    )


def _advantage(cmdp: FiniteCMDP, signals: Floats, value: Floats) -> Floats:
    """A = f + γ P v − v for signals [n, S, A] and state values [n, S]."""
    ahead = np.asarray(cmdp.kernel @ value.T).T.reshape(signals.shape)
    return signals + cmdp.gamma * ahead - value[:, :, None]


def occupancy(cmdp: FiniteCMDP, policy: ArrayLike) -> Floats:
    """d_π(s,a) [S, A]: the discounted share of time in (s,a)."""
    pi = check_policy(cmdp, policy)
    visits = Resolvent.of(cmdp, pi).backward((1.0 - cmdp.gamma) * cmdp.initial)
    return visits[:, None] * pi


def policy_of(d: Floats) -> Floats:
    """π = d / Σ_a d; uniform in states that d never visits."""
    visits = d.sum(axis=1, keepdims=True)
    uniform = np.full_like(d, 1.0 / d.shape[1])
    return np.divide(d, visits, out=uniform, where=visits > 0.0)


def state_value(cmdp: FiniteCMDP, policy: ArrayLike, signal: Floats) -> Floats:
    """v_f [..., S] = (I − γ P_π)⁻¹ f_π for signals f [..., S, A]."""
    pi = check_policy(cmdp, policy)
    flat = np.einsum("...sa,sa->...s", signal, pi).reshape(-1, cmdp.num_states)
    value = Resolvent.of(cmdp, pi).forward(flat.T).T
    return value.reshape(signal.shape[:-1])


def advantage(cmdp: FiniteCMDP, policy: ArrayLike, signal: Floats) -> Floats:
    """A_f [..., S, A] = f + γ P v_f − v_f for signals f [..., S, A]."""
    value = state_value(cmdp, policy, signal).reshape(-1, cmdp.num_states)
    flat = signal.reshape(-1, *cmdp.reward.shape)
    return _advantage(cmdp, flat, value).reshape(signal.shape)


def policy_advantage(old: ExactValues, adv: Floats, policy: Floats) -> Floats:
    """𝔸_f(π) = Σ_s d_k(s) Σ_a π(a|s) A_f(s,a), the surrogate, for advantages [..., S, A]."""
    return np.einsum("s,...sa,sa->...", old.visits, adv, policy)


def mean_kl(first: Floats, second: Floats, visits: Floats) -> float:
    """Σ_s ρ(s) KL(first(·|s) ‖ second(·|s)); +inf if `second` excludes an action of `first`."""
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(first > 0.0, first * (np.log(first) - np.log(second)), 0.0)
    return float(np.sum(visits[:, None] * np.where(visits[:, None] > 0.0, terms, 0.0)))


def softmax(logits: Floats) -> Floats:
    """π(a|s) ∝ exp θ[s,a]."""
    weight = np.exp(logits - logits.max(axis=1, keepdims=True))
    return weight / weight.sum(axis=1, keepdims=True)


def gradient(cmdp: FiniteCMDP, policy: ArrayLike, signal: Floats) -> Floats:
    """∂V_f/∂θ [..., S, A] for softmax logits, by the policy gradient theorem: d·A_f."""
    return occupancy(cmdp, policy) * advantage(cmdp, policy, signal)


def softmax_jacobian(pi: Floats) -> Floats:
    """∂π(a|s)/∂θ[s,a'] = π(a) (1[a=a'] − π(a')) [S, A, A]."""
    return pi[:, :, None] * (np.eye(pi.shape[1]) - pi[:, None, :])


def gramian(cmdp: FiniteCMDP, policy: ArrayLike) -> Floats:
    """G_K = E_d[∇log π ∇log πᵀ] [S·A, S·A] in softmax logits: ρ(s) (diag π − π πᵀ) for each s."""
    pi = check_policy(cmdp, policy)
    states, actions = pi.shape
    metric = np.zeros((states, actions, states, actions))
    here = np.arange(states)
    visits = occupancy(cmdp, pi).sum(axis=1)
    metric[here, :, here, :] = visits[:, None, None] * softmax_jacobian(pi)
    return metric.reshape(states * actions, states * actions)


def constrained_gramian(cmdp: FiniteCMDP, policy: ArrayLike, curvature: ArrayLike) -> Floats:
    """G_C = G_K + Σ_i w_i ∇V_{c_i} ∇V_{c_i}ᵀ with w_i = β_i φ''(b_i − V_{c_i}) [K]."""
    grads = gradient(cmdp, policy, cmdp.cost).reshape(cmdp.num_constraints, -1)
    weight = np.broadcast_to(np.asarray(curvature, float), (cmdp.num_constraints,))
    return gramian(cmdp, policy) + np.einsum("k,ki,kj->ij", weight, grads, grads)
