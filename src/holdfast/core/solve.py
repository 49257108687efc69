# SPDX-License-Identifier: Apache-2.0
"""Linear systems with a matrix that is only known by its products.

conjugate_gradients   A x = v by products alone, or (A + M) x = v if M is easily inverted
woodbury              (shift + Σ_i w_i a_i a_iᵀ) x = v in closed form, for any w and any a
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
    """x with A x ≈ v after at most `steps` products, or once the residual is below `tol` of v.

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
        return (state[0] < steps) & (jnp.linalg.norm(state[2]) > enough)

    first, enough = easy(v), tol * jnp.linalg.norm(v)
    start = (jnp.zeros((), jnp.int32), jnp.zeros_like(v), v, first, v, v @ first)
    return jax.lax.while_loop(unfinished, body, start)[1]


def _ratio(a: Array, b: Array) -> Array:
    return jnp.where(b > 0, a / jnp.where(b > 0, b, 1.0), 0.0)


def woodbury(rows: Array, weight: Array, shift: float) -> Product:
    """v → (shift + Σ_i w_i a_i a_iᵀ)⁻¹ v for rows a_i [K, P] and w_i ≥ 0.

    The rows √w_i a_i span directions v_j with singular values σ_j; there the matrix is
    shift + σ_j², elsewhere shift. Nothing is inverted that could be singular: rows may depend on
    each other, be zero or be stiffer than `shift` by more than the precision. What rounding alone
    adds to the span is dropped.
    """
    _, sigma, span = jnp.linalg.svd(jnp.sqrt(weight)[:, None] * rows, full_matrices=False)
    sigma = jnp.where(sigma > 10 * jnp.finfo(sigma.dtype).eps * sigma[0], sigma, 0.0)
    held = sigma**2 / (shift + sigma**2)
    return lambda v: (v - (held * (span @ v)) @ span) / shift


def dense(product: Product, v: Array, rcond: float) -> Array:
    """Least-norm x with A x = v; directions below `rcond` of the largest eigenvalue are dropped."""
    matrix = jax.vmap(product)(jnp.eye(v.shape[0], dtype=v.dtype))
    return jnp.linalg.pinv(0.5 * (matrix + matrix.T), rtol=rcond, hermitian=True) @ v


def mean_diagonal(product: Product, size: int, dtype: jnp.dtype, probes: int = 8) -> Array:
    """trace(A) / P by Rademacher probes: E[zᵀ A z] = trace(A). The probes are always the same."""
    z = jax.random.rademacher(jax.random.key(0), (probes, size), dtype)
    return jax.lax.map(lambda v: v @ product(v), z).mean() / size
