# SPDX-License-Identifier: Apache-2.0
"""CPO's and PCPO's programmes against hand-computed optima and a generic solver."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize, nnls

from full import repeats
from holdfast.core.cpo_step import (
    check_constraints,
    constrained_step,
    projection,
    published_dual,
)

Floats = np.ndarray
pytestmark = pytest.mark.usefixtures("float64")
SOLVE = jax.jit(constrained_step)
PROJECT = jax.jit(projection)
DUAL = jax.jit(published_dual)


def step(h: Floats, g: Floats, rows: Floats, c: Floats, radius: float) -> tuple[Floats, bool]:
    """The programme's u in full coordinates."""
    x, p = np.linalg.solve(h, g), np.linalg.solve(h, rows.T).T
    numbers = (g @ x, rows @ x, rows @ p.T, c)
    t, mu, feasible = SOLVE(*map(jnp.asarray, numbers), radius)
    return np.asarray(t * x - mu @ p), bool(feasible)


def generic(h: Floats, g: Floats, rows: Floats, c: Floats, radius: float, start: Floats) -> Floats:
    found = minimize(
        lambda u: -g @ u,
        start,
        jac=lambda u: -g,
        method="SLSQP",
        constraints=[
            {"type": "ineq", "fun": lambda u: -(c + rows @ u), "jac": lambda u: -rows},
            {"type": "ineq", "fun": lambda u: radius - 0.5 * u @ h @ u, "jac": lambda u: -(h @ u)},
        ],
        options={"ftol": 1e-13, "maxiter": 500},
    )
    return found.x


# The toy at (0.6, 0.4): state weights 0.62 and 0.38, advantage differences 0.82, 2.18 of the reward
# and -0.2114, 1.3014 of the cost; unrounded, since 1e-6 is asked of the answer.
WEIGHT = 0.24 * np.array([0.62, 0.38])
C19 = (np.diag(WEIGHT), WEIGHT * [0.82, 2.18], (WEIGHT * [-0.2114, 1.3014])[None])


@pytest.mark.parametrize(
    ("c", "expected"), [(-0.00852, (0.789696, 0.281082)), (0.01, (0.813312, 0.131301))]
)
def test_c19(c: float, expected: tuple[float, float]) -> None:
    u, feasible = step(*C19, np.array([c]), 0.05)
    assert feasible
    np.testing.assert_allclose(u, expected, atol=1e-6)


def test_c19_infeasible() -> None:
    assert not step(*C19, np.array([0.2]), 0.05)[1]
    h, _, rows = C19
    p = np.linalg.solve(h, rows[0])
    np.testing.assert_allclose(
        -np.sqrt(0.1 / (rows[0] @ p)) * p, (0.16655, -1.025297), atol=1e-5
    )  # the recovery step, which CPO takes by itself


def random_programme(
    rng: np.random.Generator, constraints: int, radius: float
) -> tuple[Floats, Floats, Floats, Floats]:
    root = rng.normal(size=(4, 4))
    h = root @ root.T + 0.1 * np.eye(4)
    rows = rng.normal(size=(constraints, 4))
    reach = np.sqrt(2 * radius * np.einsum("ki,ij,kj->k", rows, np.linalg.inv(h), rows))
    return h, rng.normal(size=4), rows, rng.uniform(-1.3, 1.3, constraints) * reach


@pytest.mark.repeats
def test_c26_random_programmes() -> None:
    """300 programmes in full: as good as a generic solver's optimum, and feasible."""
    rng, radius, solved, count = np.random.default_rng(0), 0.05, 0, repeats(60, 300)
    for _ in range(count):
        h, g, rows, c = random_programme(rng, 1, radius)
        u, feasible = step(h, g, rows, c, radius)
        reach = np.sqrt(2 * radius * (rows[0] @ np.linalg.solve(h, rows[0])))
        assert feasible == (c[0] <= reach)
        if not feasible:
            continue
        solved += 1
        assert c[0] + rows[0] @ u <= 1e-9 and 0.5 * u @ h @ u <= radius * (1 + 1e-9)
        other = generic(h, g, rows, c, radius, 0.9 * u)
        assert g @ u >= g @ other - 1e-4 * abs(g @ other)
    assert solved > count * 2 / 3


@pytest.mark.repeats
@pytest.mark.parametrize("constraints", [2, 3])
def test_several_constraints(constraints: int) -> None:
    rng, radius, tight = np.random.default_rng(constraints), 0.05, 0
    for _ in range(repeats(30, 60)):
        h, g, rows, c = random_programme(rng, constraints, radius)
        u, feasible = step(h, g, rows, c, radius)
        if not feasible:
            # then the least violation inside the region is positive
            worst = minimize(
                lambda z, rows=rows, c=c: np.maximum(c + rows @ z, 0).sum() ** 2,
                np.zeros(4),
                method="SLSQP",
                constraints={"type": "ineq", "fun": lambda z, h=h: radius - 0.5 * z @ h @ z},
            )
            assert np.maximum(c + rows @ worst.x, 0).sum() > 1e-6
            continue
        left = c + rows @ u
        assert np.all(left <= 1e-9) and 0.5 * u @ h @ u <= radius * (1 + 1e-9)
        tight += int((left > -1e-9).sum() > 1)
        other = generic(h, g, rows, c, radius, 0.9 * u)
        assert g @ u >= g @ other - 1e-4 * abs(g @ other)
    assert tight > 0  # corners, where two limits bind, are among them


def dual(q: float, r: float, s: float, c: float, radius: float) -> tuple[float, float]:
    """(t, μ) = (1/λ, ν/λ) of the paper's dual: the better of the ends of two intervals of λ."""
    a, b = q - r * r / s, 2 * radius - c * c / s
    end = max(-r / (c + 1e-8), 0.0)
    below, above = (0.0, end), (end, np.inf)
    root_a, root_b = np.sqrt(max(a, 0.0) / max(b, 1e-30)), np.sqrt(q / (2 * radius))
    lam_a = np.clip(root_a, *(below if c < 0 else above))
    lam_b = np.clip(root_b, *(above if c < 0 else below))
    f_a = -0.5 * (a / (lam_a + 1e-8) + b * lam_a) + r * c / s
    f_b = -0.5 * (q / (lam_b + 1e-8) + 2 * radius * lam_b)
    lam = lam_a if f_a >= f_b else lam_b
    if c < 0 and r <= 0:  # an empty interval is skipped
        lam = lam_b
    elif c >= 0 and r > 0:
        lam = lam_a
    nu = max(0.0, lam * c + r) / s
    return 1 / (lam + 1e-8), nu / (lam + 1e-8)


@pytest.mark.repeats
def test_dual_in_closed_form_is_the_same_step() -> None:
    rng, radius = np.random.default_rng(5), 0.05
    for _ in range(repeats(60, 200)):
        h, g, rows, c = random_programme(rng, 1, radius)
        x, p = np.linalg.solve(h, g), np.linalg.solve(h, rows[0])
        q, r, s = g @ x, g @ p, rows[0] @ p
        if 2 * radius - c[0] ** 2 / s < 0:
            continue  # cases 3 and 0 have no dual step
        t, mu = dual(q, r, s, c[0], radius)
        u, _ = step(h, g, rows, c, radius)
        np.testing.assert_allclose(t * x - mu * p, u, rtol=1e-4, atol=1e-6)


def test_flipped_sign_differs_where_the_limit_matters() -> None:
    """D19: on C19's programme the published formula gives a step that is not the optimum."""
    h, g, rows = C19
    x, p = np.linalg.solve(h, g), np.linalg.solve(h, rows[0])
    numbers = [jnp.asarray(v) for v in (g @ x, g @ p, rows[0] @ p, -0.00852)]
    t, mu = DUAL(*numbers, 0.05)
    u = np.asarray(t * x - mu * p)
    # r > 0 and c < 0: the interval [0, r/c] ends below 0, so λ is clamped to r/c or falls to b
    lam = 1 / float(t) - 1e-8
    assert lam == pytest.approx(float(numbers[1]) / (-0.00852 + 1e-8)) or lam == pytest.approx(
        np.sqrt(float(numbers[0]) / 0.1)
    )
    assert np.abs(u - np.array([0.789696, 0.281082])).max() > 0.05


@pytest.mark.repeats
@pytest.mark.parametrize("constraints", [1, 2, 3])
def test_projection_is_the_nearest_feasible_point(constraints: int) -> None:
    rng = np.random.default_rng(constraints)
    for _ in range(repeats(30, 100)):
        h, v, rows, c = random_programme(rng, constraints, 0.05)
        c = c + rng.normal(size=constraints)
        p = np.linalg.solve(h, rows.T).T
        mu = np.asarray(PROJECT(jnp.asarray(rows @ p.T), jnp.asarray(c + rows @ v)))
        # the dual of the projection is a non-negative least squares problem
        root = np.linalg.cholesky(rows @ p.T)
        expected, _ = nnls(root.T, np.linalg.solve(root, c + rows @ v))
        np.testing.assert_allclose(mu, expected, atol=1e-8)
        u = v - mu @ p
        assert np.all(c + rows @ u <= 1e-8)


def test_no_constraint_gradient_and_no_reward_gradient() -> None:
    zero = jnp.zeros(1)
    t, mu, feasible = SOLVE(jnp.zeros(()), zero, jnp.eye(1), zero - 1.0, 0.05)
    assert (float(t), float(mu[0]), bool(feasible)) == (0.0, 0.0, True)


def test_too_many_constraints() -> None:
    with pytest.raises(ValueError, match="supports 8 at most"):
        check_constraints(9, "CPO")
