# SPDX-License-Identifier: Apache-2.0
"""Steps under linearised constraints, solved in the subspace of the gradients.

    CPO    maximise g·u      subject to  c + B u ≤ 0,  ½ uᵀ H u ≤ δ
    PCPO   minimise |u − v|²_H subject to  c + B u ≤ 0

The solutions are u = t x − Σ_i μ_i p_i with x = H⁻¹ g and p_i = H⁻¹ b_i. So only the numbers q =
g·x, r = B x, S = B H⁻¹ Bᵀ and c are needed. The tight constraints are found by trying all 2^K sets:
each has a closed form, and the best feasible one is the optimum. For one constraint this is CPO's
dual in closed form.
"""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

MOST_CONSTRAINTS = 8
"""Largest number of constraints: 2^8 sets take far less time than one product with the Fisher
matrix.
"""


def check_constraints(constraints: int, name: str) -> None:
    """Refuse more constraints than the enumeration supports."""
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


def _lengths(gram: Array) -> Array:
    """[K] |b_i| in the metric; in these units S has ones on its diagonal and costs have no unit."""
    square = jnp.diagonal(gram)
    return jnp.sqrt(jnp.where(square > 0, square, 1.0))


def _largest(dtype: jnp.dtype) -> float:
    """The largest multiplier, in lengths of the step, whose square leaves two digits in a sum."""
    return 0.1 / float(jnp.finfo(dtype).eps) ** 0.5


def _best(value: Array, violation: Array, tolerance: float, loose: float) -> Array:
    """The set with the best value among those feasible to a tolerance, the looser one if needed.

    A set of dependent constraints has no finite solution, or one dominated by rounding; its
    violation is infinite, so it is never chosen. It is not needed: an independent set attains the
    optimum too, up to the small angle between nearly dependent ones.
    """
    least = violation.min()
    level = jnp.where(least <= tolerance, tolerance, jnp.maximum(least, loose))
    return jnp.argmax(jnp.where(violation <= level, value, -jnp.inf))


def constrained_step(
    q: Array, r: Array, gram: Array, c: Array, radius: float
) -> tuple[Array, Array, Array]:
    """(t, μ [K], whether any u is feasible) of CPO's programme.

    With the constraints in T tight, u = t (x − P y_r) − P y_c where S_T y_r = r_T, S_T y_c = c_T.
    The region is exhausted at t = √(B / A), A = q − r_T·y_r, B = 2δ − c_T·y_c. A solution is judged
    by its residuals in S, not by its set of tight constraints.
    """
    eps, most = 100 * float(jnp.finfo(q.dtype).eps), _largest(q.dtype)
    unit, reach = _lengths(gram), jnp.sqrt(jnp.asarray(2 * radius, q.dtype))
    gram, r, c = gram / jnp.outer(unit, unit), r / unit, c / unit

    def attempt(tight: Array) -> tuple[Array, Array, Array, Array]:
        tight = tight.astype(q.dtype)
        small = _restricted(gram, tight)
        y_r, y_c = jnp.linalg.solve(small, jnp.stack([tight * r, tight * c], 1)).T
        a, b = q - (tight * r) @ y_r, 2 * radius - (tight * c) @ y_c
        free = a > eps * q
        t = jnp.where(free, jnp.sqrt(jnp.maximum(b, 0.0) / jnp.where(free, a, 1.0)), 0.0)
        mu = t * y_r + y_c
        violation = ((c + t * r - gram @ mu) / (reach + jnp.abs(c))).max()
        length = t * t * q - 2 * t * (mu @ r) + mu @ gram @ mu
        sound = (b >= 0) & (jnp.abs(mu).max() <= most * reach) & (length <= 1.05 * 2 * radius)
        sound = sound & jnp.isfinite(violation)
        return t * q - mu @ r, jnp.where(sound, violation, jnp.inf), t, mu

    value, violation, t, mu = jax.vmap(attempt)(_sets(c.shape[0]))
    best = _best(value, violation, eps, 1 / most)
    return t[best], mu[best] / unit, violation[best] <= 1 / most


def projection(gram: Array, excess: Array) -> Array:
    """[K] μ of the nearest point v − P μ with excess − S μ ≤ 0, where excess = c + B v.

    If no point satisfies all of them, the enumerated point with the smallest violation.
    """
    eps, most = 100 * float(jnp.finfo(excess.dtype).eps), _largest(excess.dtype)
    unit = _lengths(gram)
    gram, excess = gram / jnp.outer(unit, unit), excess / unit
    scale = jnp.abs(excess).max() + jnp.finfo(excess.dtype).tiny

    def attempt(tight: Array) -> tuple[Array, Array, Array]:
        tight = tight.astype(excess.dtype)
        mu = jnp.linalg.solve(_restricted(gram, tight), tight * excess)
        violation = ((excess - gram @ mu) / scale).max()
        length = mu @ gram @ mu
        sound = (mu @ mu <= most**2 * (scale**2 + length)) & jnp.isfinite(violation)
        return -length, jnp.where(sound, violation, jnp.inf), mu

    value, violation, mu = jax.vmap(attempt)(_sets(excess.shape[0]))
    return mu[_best(value, violation, eps, 1 / most)] / unit


def published_dual(q: Array, r: Array, s: Array, c: Array, radius: float) -> tuple[Array, Array]:
    """(t, μ) of one constraint from the dual variables λ, ν: t = 1/λ, μ = ν/λ.

    r has the opposite sign in ν, f_a and the intervals, whose ends are not guarded, as in the
    published code (D19); the step is not CPO's.
    """
    r = -r
    a, b = q - r * r / s, 2 * radius - c * c / s
    end = -r / (c + 1e-8)
    below, above = (0.0, end), (end, jnp.inf)
    root_a = jnp.sqrt(jnp.maximum(a, 0.0) / jnp.maximum(b, 1e-30))
    root_b = jnp.sqrt(q / (2 * radius))
    lam_a = jnp.where(c < 0, jnp.clip(root_a, *below), jnp.clip(root_a, *above))
    lam_b = jnp.where(c < 0, jnp.clip(root_b, *above), jnp.clip(root_b, *below))
    f_a = -0.5 * (a / (lam_a + 1e-8) + b * lam_a) + r * c / s
    f_b = -0.5 * (q / (lam_b + 1e-8) + 2 * radius * lam_b)
    lam = jnp.where(f_a >= f_b, lam_a, lam_b)
    nu = jnp.maximum(0.0, lam * c + r) / s
    return 1 / (lam + 1e-8), nu / (lam + 1e-8)
