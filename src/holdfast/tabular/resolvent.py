# SPDX-License-Identifier: Apache-2.0
"""(I − γ P_π)⁻¹ and its transpose: one preparation, many right-hand sides.

Dense kernels are factored. Sparse ones are not: on random graphs the factors fill up (a thousand
states take a second). The system itself is well conditioned, because the spectrum of γ P_π is in
the disc of radius γ, and BiCGSTAB needs tens of products with the kernel. Each solution is checked
by its residual; if the Krylov method stagnates, the contraction x ← f + γ P x completes it, which
always converges.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from scipy import linalg, sparse
from scipy.sparse import linalg as sparse_linalg

from holdfast.tabular.cmdp import FiniteCMDP, Floats

INVERT_UP_TO = 64
"""Largest number of states for which a dense system is inverted. At condition numbers near
(1+γ)/(1−γ) that loses no digits, and for tiny systems LAPACK's threaded triangular solves take ten
times as long.
"""
FACTOR_UP_TO = 300
"""Largest number of states for which a sparse kernel is solved as a dense one."""
TOLERANCE = 1e-13
"""Residual, relative to the right-hand side, at which an iterative solution is accepted."""


class Solve(Protocol):
    """Solves for right-hand sides [S] or [S, n]; a guess and a looser tolerance save iterations."""

    def __call__(
        self, f: Floats, guess: Floats | None = None, tolerance: float = TOLERANCE
    ) -> Floats: ...


@dataclass(frozen=True)
class Resolvent:
    """Solvers of the two systems of a policy; right-hand sides [S] or [S, n]."""

    forward: Solve
    """x with (I − γ P_π) x = f: state values."""
    backward: Solve
    """x with (I − γ P_π)ᵀ x = f: visitation."""

    @staticmethod
    def of(cmdp: FiniteCMDP, policy: Floats) -> "Resolvent":
        moves = policy_kernel(cmdp, policy)
        if not cmdp.is_sparse:
            return _dense(moves, cmdp.gamma)
        if cmdp.num_states <= FACTOR_UP_TO:
            return _dense(moves.toarray(), cmdp.gamma)
        return Resolvent(
            _iterative(moves, cmdp.gamma),
            # Policy iteration never looks back until its last round: transpose on demand.
            lambda f, guess=None, tolerance=TOLERANCE: _iterative(moves.T.tocsr(), cmdp.gamma)(
                f, guess, tolerance
            ),
        )


def policy_kernel(cmdp: FiniteCMDP, policy: Floats) -> Any:
    """P_π(s,s') = Σ_a π(a|s) P(s'|s,a) [S, S], dense or sparse like the kernel."""
    if not cmdp.is_sparse:
        return np.einsum("sa,sat->st", policy, cmdp.transition)
    states, actions = policy.shape
    # Only actions that are taken: a deterministic policy then selects rows of the kernel.
    state, action = np.nonzero(policy)
    pointer = np.concatenate([[0], np.cumsum(np.bincount(state, minlength=states))])
    chooser = sparse.csr_array(
        (policy[state, action], state * actions + action, pointer), shape=(states, states * actions)
    )
    return chooser @ cmdp.kernel


def _dense(moves: Floats, gamma: float) -> Resolvent:
    system = np.eye(len(moves)) - gamma * moves
    if len(moves) <= INVERT_UP_TO:
        inverse = np.linalg.inv(system)
        return Resolvent(_exactly(lambda f: inverse @ f), _exactly(lambda f: inverse.T @ f))
    factors = linalg.lu_factor(system)
    return Resolvent(
        _exactly(lambda f: linalg.lu_solve(factors, f)),
        _exactly(lambda f: linalg.lu_solve(factors, f, trans=1)),
    )


def _exactly(solve: Callable[[Floats], Floats]) -> Solve:
    """A direct solver, which ignores guesses and tolerances."""
    return lambda f, guess=None, tolerance=TOLERANCE: solve(f)


def _iterative(moves: Any, gamma: float) -> Solve:
    system = (sparse.eye_array(moves.shape[0], format="csr") - gamma * moves).tocsr()

    def column(f: Floats, guess: Floats | None, tolerance: float) -> Floats:
        scale = float(np.max(np.abs(f), initial=0.0))
        if scale == 0.0:
            return np.zeros_like(f)
        # The loops below test the residual themselves: Krylov methods drift from their own.
        x, _ = sparse_linalg.bicgstab(system, f, guess, rtol=tolerance, atol=0.0, maxiter=500)
        x = x if np.all(np.isfinite(x)) else f.copy()
        while float(np.max(np.abs(residual := f - system @ x))) > tolerance * scale / (1 - gamma):
            x = x + residual
        return x

    def solve(f: Floats, guess: Floats | None = None, tolerance: float = TOLERANCE) -> Floats:
        if f.ndim == 1:
            return column(f, guess, tolerance)
        start = lambda i: None if guess is None else guess[:, i]
        return np.stack([column(f[:, i], start(i), tolerance) for i in range(f.shape[1])], axis=1)

    return solve
