# SPDX-License-Identifier: Apache-2.0
"""Linear systems with a matrix that is only known by its products.

conjugate_gradients   (A + 0) x = v by products alone
woodbury              (A + Σ_i w_i a_i a_iᵀ) x = v from solutions of A only, exact for any w
dense                 pseudo-inverse of the matrix formed column by column, for tiny problems
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import Array

Product = Callable[[Array], Array]
"""v [P] → A v [P] for a symmetric positive semi-definite A."""


def conjugate_gradients(
    product: Product, v: Array, steps: int, tol: float = 1e-10, eps: float = 0.0
) -> Array:
    """x with A x ≈ v after at most `steps` products, or once the residual's norm is below `tol`.

    `eps` is added to both denominators; the published runs used 1e-6, which slows the last steps.
    """

    def body(state: tuple[Array, ...]) -> tuple[Array, ...]:
        i, x, r, p, rr = state
        z = product(p)
        a = _ratio(rr, p @ z + eps)
        x, r = x + a * p, r - a * z
        new = r @ r
        return i + 1, x, r, r + _ratio(new, rr + eps) * p, new

    def unfinished(state: tuple[Array, ...]) -> Array:
        return (state[0] < steps) & (jnp.sqrt(state[-1]) >= tol)

    start = (jnp.zeros((), jnp.int32), jnp.zeros_like(v), v, v, v @ v)
    return jax.lax.while_loop(unfinished, body, start)[1]


def _ratio(a: Array, b: Array) -> Array:
    return jnp.where(b > 0, a / jnp.where(b > 0, b, 1.0), 0.0)


def woodbury(solved: Array, x: Array, rows: Array, weight: Array) -> Array:
    """(A + Σ_i w_i a_i a_iᵀ)⁻¹ v from x = A⁻¹ v [P] and `solved` = A⁻¹ a_i [K, P].

    x − Xₐ (W⁻¹ + Aᵀ Xₐ)⁻¹ Aᵀ x, written as (I + W Aᵀ Xₐ)⁻¹ W so that w_i = 0 needs no special case.
    """
    small = jnp.eye(rows.shape[0], dtype=rows.dtype) + weight[:, None] * (rows @ solved.T)
    return x - jnp.linalg.solve(small, weight * (rows @ x)) @ solved


def dense(product: Product, v: Array, rcond: float) -> Array:
    """Least-norm x with A x = v; directions below `rcond` of the largest eigenvalue are dropped."""
    matrix = jax.vmap(product)(jnp.eye(v.shape[0], dtype=v.dtype))
    return jnp.linalg.pinv(0.5 * (matrix + matrix.T), rtol=rcond, hermitian=True) @ v


def mean_diagonal(product: Product, size: int, dtype: jnp.dtype, probes: int = 8) -> Array:
    """trace(A) / P by Rademacher probes: E[zᵀ A z] = trace(A). The probes are always the same."""
    z = jax.random.rademacher(jax.random.key(0), (probes, size), dtype)
    return jax.lax.map(lambda v: v @ product(v), z).mean() / size
