# SPDX-License-Identifier: Apache-2.0
"""Linear systems with a matrix that is only known by its products.

conjugate_gradients   A x = v by products alone, or (A + M) x = v if M is easily inverted
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
    product: Product,
    v: Array,
    steps: int,
    tol: float = 1e-10,
    eps: float = 0.0,
    inverse: Product | None = None,
) -> Array:
    """x with A x ≈ v after at most `steps` products, or once the residual's norm is below `tol`.

    With `inverse`, which applies M⁻¹, x solves (A + M) x = v, preconditioned by M. M itself is
    never applied, as M p follows from the residuals, so entries of any size in it do no harm.
    `eps` is added to both denominators; the published runs used 1e-6, which slows the last steps.
    """
    easy: Product = inverse or (lambda r: r)

    def body(state: tuple[Array, ...]) -> tuple[Array, ...]:
        i, x, r, p, mp, rr = state
        z = product(p) + (mp if inverse else 0.0)
        a = _ratio(rr, p @ z + eps)
        x, r = x + a * p, r - a * z
        near = easy(r)
        new = r @ near
        b = _ratio(new, rr + eps)
        return i + 1, x, r, near + b * p, r + b * mp, new

    def unfinished(state: tuple[Array, ...]) -> Array:
        return (state[0] < steps) & (jnp.linalg.norm(state[2]) >= tol)

    first = easy(v)
    start = (jnp.zeros((), jnp.int32), jnp.zeros_like(v), v, first, v, v @ first)
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
