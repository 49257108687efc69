# SPDX-License-Identifier: Apache-2.0
"""Steps under linearised constraints, solved in the few dimensions that matter.

    CPO    maximise g·u      subject to  c + B u ≤ 0,  ½ uᵀ H u ≤ δ
    PCPO   minimise |u − v|²_H subject to  c + B u ≤ 0

The answers are u = t x − Σ_i μ_i p_i with x = H⁻¹ g and p_i = H⁻¹ b_i, so only the numbers
q = g·x, r = B x, S = B H⁻¹ Bᵀ and c enter. Which constraints are tight is found by trying all 2^K
sets: each has a closed form, and the best one that is feasible is the optimum. For one constraint
this is CPO's dual in closed form.
"""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

MOST_CONSTRAINTS = 8
"""2^8 sets of tight constraints are still nothing beside one product with the Fisher matrix."""


def check_constraints(constraints: int, name: str) -> None:
    """Refuse more constraints than the enumeration is made for."""
    if constraints > MOST_CONSTRAINTS:
        raise ValueError(
            f"{name} has {constraints} constraints, but tries all sets of tight ones and supports "
            f"{MOST_CONSTRAINTS} at most; merge some of them or use 'c-trpo'."
        )


def _sets(constraints: int) -> Array:
    """[2^K, K] of 0 and 1: every set of tight constraints, the empty one first."""
    return jnp.asarray(np.array(list(itertools.product((0, 1), repeat=constraints))))


def _restricted(gram: Array, tight: Array) -> Array:
    """S on the tight rows and columns, the identity elsewhere."""
    return jnp.outer(tight, tight) * gram + jnp.diag(1 - tight)


def constrained_step(
    q: Array, r: Array, gram: Array, c: Array, radius: float
) -> tuple[Array, Array, Array]:
    """(t, μ [K], whether any u is feasible) of CPO's programme.

    With the constraints in T tight, u = t (x − P y_r) − P y_c where S_T y_r = r_T, S_T y_c = c_T,
    and t = √(B / A) exhausts the region: A = q − r_T·y_r, B = 2δ − c_T·y_c.
    """
    eps = 100 * jnp.finfo(q.dtype).eps
    size = jnp.sqrt(2 * radius * jnp.diagonal(gram))

    def attempt(tight: Array) -> tuple[Array, Array, Array]:
        tight = tight.astype(q.dtype)
        small = _restricted(gram, tight)
        y_r, y_c = jnp.linalg.solve(small, jnp.stack([tight * r, tight * c], 1)).T
        a, b = q - (tight * r) @ y_r, 2 * radius - (tight * c) @ y_c
        free = a > eps * q
        t = jnp.where(free, jnp.sqrt(jnp.maximum(b, 0.0) / jnp.where(free, a, 1.0)), 0.0)
        mu = t * y_r + y_c
        left = c + t * r - gram @ mu
        feasible = (b >= 0) & jnp.all((left <= eps * (size + jnp.abs(c))) | (tight > 0))
        return jnp.where(feasible, t * q - mu @ r, -jnp.inf), t, mu

    value, t, mu = jax.vmap(attempt)(_sets(c.shape[0]))
    best = jnp.argmax(value)
    return t[best], mu[best], jnp.isfinite(value[best])


def projection(gram: Array, excess: Array) -> Array:
    """[K] μ ≥ 0 of the nearest point v − P μ with excess − S μ ≤ 0, where excess = c + B v."""
    eps = 100 * jnp.finfo(excess.dtype).eps
    scale = eps * (jnp.abs(excess).max() + jnp.finfo(excess.dtype).tiny)

    def attempt(tight: Array) -> tuple[Array, Array]:
        tight = tight.astype(excess.dtype)
        mu = jnp.linalg.solve(_restricted(gram, tight), tight * excess)
        feasible = jnp.all((excess - gram @ mu <= scale) | (tight > 0))
        return jnp.where(feasible, mu @ gram @ mu, jnp.inf), mu

    distance, mu = jax.vmap(attempt)(_sets(excess.shape[0]))
    return mu[jnp.argmin(distance)]


def published_dual(
    q: Array, r: Array, s: Array, c: Array, radius: float, flipped: bool = False
) -> tuple[Array, Array]:
    """(t, μ) of one constraint from the dual variables λ, ν: t = 1/λ, μ = ν/λ.

    `flipped` gives r the opposite sign in ν, f_a and the intervals, without guarding their ends, as
    the published code did (D19); the step it then takes is not CPO's.
    """
    sign = -1.0 if flipped else 1.0
    r = sign * r
    a, b = q - r * r / s, 2 * radius - c * c / s
    end = -r / (c + 1e-8)
    if not flipped:
        end = jnp.maximum(end, 0.0)
    inf = jnp.inf
    below, above = (0.0, end), (end, inf)
    root_a = jnp.sqrt(jnp.maximum(a, 0.0) / jnp.maximum(b, 1e-30))
    root_b = jnp.sqrt(q / (2 * radius))
    lam_a = jnp.where(c < 0, jnp.clip(root_a, *below), jnp.clip(root_a, *above))
    lam_b = jnp.where(c < 0, jnp.clip(root_b, *above), jnp.clip(root_b, *below))
    f_a = -0.5 * (a / (lam_a + 1e-8) + b * lam_a) + r * c / s
    f_b = -0.5 * (q / (lam_b + 1e-8) + 2 * radius * lam_b)
    lam = jnp.where(f_a >= f_b, lam_a, lam_b)
    if not flipped:  # an empty interval is skipped: c < 0 and r ≤ 0 leaves only b, c ≥ 0 only a
        lam = jnp.where((c < 0) & (r <= 0), lam_b, jnp.where((c >= 0) & (r > 0), lam_a, lam))
    nu = jnp.maximum(0.0, lam * c + r) / s
    return 1 / (lam + 1e-8), nu / (lam + 1e-8)
