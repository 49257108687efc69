# SPDX-License-Identifier: Apache-2.0
"""CPO's and PCPO's programmes in single precision with constraints that depend on each other.

Exact and near duplicates, opposites, sums of others, in units from 1e-3 to 1e3. The referees are
independent of the enumeration: the least distance to the feasible set (Lawson and Hanson, by
non-negative least squares in double precision), and a dual bound on the best gain.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize, nnls

from full import repeats
from holdfast.core.cpo_step import constrained_step, projection

RADIUS, SIZE = 0.05, 6
SOLVE = jax.jit(constrained_step, static_argnums=4)
PROJECT = jax.jit(projection)
LOOSE = 0.01
"""Of the reach of a step: what single precision and nearly dependent constraints may cost."""

programmes = {
    "seed": st.integers(0, 2**32 - 1),
    "apart": st.sampled_from([0.0, 1e-8, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1]),
    "kind": st.sampled_from(["same", "opposite", "sum"]),
    "constraints": st.sampled_from([2, 3, 4]),
}


def programme(seed, apart, kind, constraints):
    """(v, whitened rows [K, 6], c) in float32, H = I; the last row depends on the others."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(constraints, SIZE))
    other = {"same": rows[0], "opposite": -rows[0], "sum": rows[:-1].sum(0)}[kind]
    rows[-1] = other + apart * rng.normal(size=SIZE)
    c = rng.uniform(-1.3, 1.3, constraints) * np.sqrt(2 * RADIUS) * np.linalg.norm(rows, axis=1)
    if rng.random() < 0.5:
        c[-1] = c[0]  # as for one cost that is given twice
    unit = 10.0 ** rng.integers(-3, 4, constraints)
    single = lambda x: np.asarray(x, np.float32)
    return single(rng.normal(size=SIZE)), single(rows * unit[:, None]), single(c * unit)


def nearest(rows, c):
    """The least w with c + rows w ≤ 0, or None: E y ≈ f in Lawson and Hanson's reduction."""
    length = np.linalg.norm(rows, axis=1)
    rows, c = rows / length[:, None], c / length
    e, f = np.vstack([-rows.T, c]), np.eye(SIZE + 1)[-1]
    residual = e @ nnls(e, f)[0] - f
    if residual[-1] > -1e-9:  # it is −|residual|²: nothing satisfies all
        return None
    return -residual[:-1] / residual[-1]


def bound(g, rows, c):
    """An upper bound on g·u over the feasible u, from weak duality; as small as a search finds."""
    length = np.linalg.norm(rows, axis=1)
    rows, c = rows / length[:, None], c / length

    def dual(nu):
        rest = g - nu @ rows
        size = np.linalg.norm(rest) + 1e-300
        reach = np.sqrt(2 * RADIUS)
        return reach * size - nu @ c, -reach * (rows @ rest) / size - c

    starts = [np.zeros(len(c)), np.ones(len(c))]
    found = [minimize(dual, s, jac=True, bounds=[(0, None)] * len(c)).fun for s in starts]
    return min(found)


@pytest.mark.repeats
@given(**programmes)
@settings(max_examples=repeats(40, 300), deadline=None)
def test_cpo_steps_are_finite_feasible_and_best(seed, apart, kind, constraints):
    g, rows, c = programme(seed, apart, kind, constraints)
    numbers = map(jnp.asarray, (g @ g, rows @ g, rows @ rows.T, c))
    t, mu, feasible = SOLVE(*numbers, RADIUS)
    assert bool(jnp.isfinite(t)) and bool(jnp.isfinite(mu).all())
    g, rows, c = (x.astype(np.float64) for x in (g, rows, c))
    reach = np.sqrt(2 * RADIUS)
    scale = reach * np.linalg.norm(rows, axis=1) + np.abs(c)

    def distance(limits):
        closest = nearest(rows, limits)
        return np.inf if closest is None else np.linalg.norm(closest)

    really = distance(c) < (1 - 2 * LOOSE) * reach
    nearly = distance(c - LOOSE * scale) < (1 + 2 * LOOSE) * reach
    assert really <= bool(feasible) <= nearly
    if not feasible:
        return
    u = float(t) * g - np.asarray(mu, np.float64) @ rows
    assert np.linalg.norm(u) <= 1.03 * reach
    assert np.all(c + rows @ u <= LOOSE * scale)
    if really:
        assert g @ u >= bound(g, rows, c) - 3 * LOOSE * reach * np.linalg.norm(g)


@pytest.mark.repeats
@given(**programmes)
@settings(max_examples=repeats(40, 300), deadline=None)
def test_pcpo_projections_are_finite_feasible_and_nearest(seed, apart, kind, constraints):
    v, rows, c = programme(seed, apart, kind, constraints)
    excess = c + rows @ v
    mu = PROJECT(jnp.asarray(rows @ rows.T), jnp.asarray(excess))
    assert bool(jnp.isfinite(mu).all())
    rows, excess = rows.astype(np.float64), excess.astype(np.float64)
    w = -np.asarray(mu, np.float64) @ rows
    length = np.linalg.norm(rows, axis=1)
    scale = np.abs(excess / length).max()
    closest = nearest(rows, excess)
    if closest is None or np.linalg.norm(closest) > 3 * scale:
        return  # nothing, or nothing near, satisfies all: any finite answer will do
    assert np.all((excess + rows @ w) / length <= LOOSE * scale)
    assert np.linalg.norm(w) <= (1 + LOOSE) * np.linalg.norm(closest) + 3 * LOOSE * scale


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_singular_set_never_wins(sign):
    """Two equal (or opposite) constraints: what their common system gives is no number."""
    gram = jnp.asarray([[1.0, sign], [sign, 1.0]], jnp.float32)
    excess = jnp.asarray([0.2, sign * 0.3], jnp.float32)
    broken = jnp.linalg.solve(gram, jnp.asarray([0.3, 0.2], jnp.float32))
    assert not bool(jnp.isfinite(broken).all())  # the trap is really there
    mu = PROJECT(gram, excess)
    left = np.asarray(excess) - np.asarray(gram) @ np.asarray(mu)
    assert np.all(left <= 1e-6)
