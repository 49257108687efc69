# SPDX-License-Identifier: Apache-2.0
"""CG and Woodbury against dense solves (C20)."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from full import repeats
from holdfast.core.linearise import conjugate_gradients, dense, mean_diagonal, woodbury


def spd(seed, n=8):
    root = np.random.default_rng(seed).normal(size=(n, n))
    return jnp.asarray(root @ root.T + 0.1 * np.eye(n))


@pytest.mark.repeats
@given(st.integers(0, 2**31))
@settings(max_examples=repeats(8, 30), deadline=None)
def test_cg_equals_solve(seed):
    with jax.enable_x64(True):
        matrix, v = spd(seed), jnp.asarray(np.random.default_rng(seed + 1).normal(size=8))
        x = conjugate_gradients(lambda p: matrix @ p, v, steps=60)
        np.testing.assert_allclose(x, np.linalg.solve(matrix, v), rtol=1e-6, atol=1e-8)


def test_cg_on_a_singular_consistent_system(float64):
    """A softmax policy's Fisher matrix has null directions; the gradient lies in its range."""
    matrix = jnp.diag(jnp.array([2.0, 0.5, 0.0]))
    x = conjugate_gradients(lambda p: matrix @ p, jnp.array([1.0, 1.0, 0.0]), steps=20)
    np.testing.assert_allclose(x, [0.5, 2.0, 0.0], atol=1e-12)


def test_cg_of_zero_is_zero():
    x = conjugate_gradients(lambda p: 2 * p, jnp.zeros(4), steps=5)
    np.testing.assert_array_equal(x, 0)


def test_published_eps_is_the_reference_recursion(float64):
    """With eps = 1e-6 every iterate equals the published recursion, written out here."""
    matrix, v = spd(3), jnp.asarray(np.random.default_rng(4).normal(size=8))
    x, r = np.zeros(8), np.array(v)
    p, rr = r.copy(), r @ r
    for _ in range(5):
        z = matrix @ p
        a = rr / (p @ z + 1e-6)
        x, r = x + a * p, r - a * z
        new = r @ r
        p, rr = r + new / (rr + 1e-6) * p, new
    ours = conjugate_gradients(lambda u: matrix @ u, v, steps=5, eps=1e-6)
    np.testing.assert_allclose(ours, x, rtol=1e-12)


@pytest.mark.parametrize("constraints", [1, 2, 3])
@pytest.mark.parametrize("weight", [1e-4, 1.0, 1e6])
def test_woodbury_equals_the_dense_solve(constraints, weight, float64):
    rng = np.random.default_rng(constraints)
    v, rows = jnp.asarray(rng.normal(size=8)), jnp.asarray(rng.normal(size=(constraints, 8)))
    w = jnp.full(constraints, weight)
    exact = np.linalg.solve(0.3 * np.eye(8) + rows.T @ (w[:, None] * rows), v)
    np.testing.assert_allclose(woodbury(rows, w, 0.3)(v), exact, rtol=1e-8, atol=1e-8)


def test_woodbury_ignores_weightless_rows(float64):
    v, rows = jnp.arange(8.0), jnp.ones((2, 8))
    np.testing.assert_array_equal(woodbury(rows, jnp.zeros(2), 0.5)(v), v / 0.5)


@pytest.mark.parametrize("apart", [0.0, 1e-8, 1e-3])
@pytest.mark.parametrize("weight", [1.0, 1e6, 1e10])
def test_woodbury_with_dependent_rows_in_single_precision(apart, weight):
    """Equal and nearly equal rows, stiffer than the rest by more than the precision."""
    rng = np.random.default_rng(6)
    a, v = rng.normal(size=50), rng.normal(size=50).astype(np.float32)
    rows = np.stack([a, a, a + apart * rng.normal(size=50), 0 * a]).astype(np.float32)
    found = woodbury(jnp.asarray(rows), jnp.full(4, weight, jnp.float32), 0.1)(jnp.asarray(v))
    wide = rows.astype(np.float64)
    exact = np.linalg.solve(0.1 * np.eye(50) + weight * wide.T @ wide, v)
    np.testing.assert_allclose(found, exact, atol=1e-3 * np.abs(exact).max())


@pytest.mark.parametrize("weight", [0.0, 1e-2, 1e2, 1e6])
def test_cg_with_walls_is_exact_in_single_precision(weight):
    """(A + M) x = v for M = 0.1 + w a aᵀ up to 1e8 times A: the wall costs no digit and no step."""
    rng = np.random.default_rng(5)
    matrix = np.diag(np.geomspace(1e-3, 1.0, 40))
    v, a = rng.normal(size=40), 3 * rng.normal(size=40)
    exact = np.linalg.solve(matrix + 0.1 * np.eye(40) + weight * np.outer(a, a), v)
    single = lambda x: jnp.asarray(x, jnp.float32)
    rows, w = single(a)[None], single([weight])
    found = conjugate_gradients(
        lambda p: single(matrix) @ p,
        single(v),
        steps=15,
        inverse=woodbury(rows, w, 0.1),
    )
    np.testing.assert_allclose(found, exact, atol=2e-4 * np.abs(exact).max())


def test_dense_is_the_pseudo_inverse(float64):
    matrix = jnp.diag(jnp.array([2.0, 0.5, 0.0]))
    x = dense(lambda p: matrix @ p, jnp.array([1.0, 1.0, 1.0]), 1e-12)
    np.testing.assert_allclose(x, [0.5, 2.0, 0.0], atol=1e-12)


def test_mean_diagonal_of_a_diagonal_matrix_is_exact(float64):
    diagonal = jnp.arange(1.0, 9.0)
    estimate = mean_diagonal(lambda v: diagonal * v, 8, jnp.float64)
    np.testing.assert_allclose(estimate, diagonal.mean(), rtol=1e-12)
