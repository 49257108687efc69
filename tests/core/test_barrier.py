# SPDX-License-Identifier: Apache-2.0
"""Barriers by closed form and by law (C12, C21)."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.special import lambertw

from full import repeats
from holdfast.core.barrier import BARRIERS, recovery_weights

GENERATORS = {
    "entropy": (lambda x: x * np.log(x), lambda x: np.log(x) + 1),
    "log": (lambda x: -np.log(x), lambda x: -1 / x),
}


def value(kind, slack, spent):
    with jax.enable_x64(True):
        return np.asarray(
            BARRIERS[kind].divergence(jnp.asarray(slack, float), jnp.asarray(spent, float))
        )


def test_reference_values():
    entropy = [0.15072829, 0.18906978, 0.90138771, 3.0]
    np.testing.assert_allclose(value("entropy", 3.0, [-1, 1, 2, 3]), entropy, atol=5e-9)
    log = [0.04565126, 0.07213177, 0.43194562]
    np.testing.assert_allclose(value("log", 3.0, [-1, 1, 2]), log, atol=5e-9)


def test_inverse_by_lambert():
    """The largest spending that a budget k buys."""
    k, slack = 0.1, 3.0
    log = slack * (1 + lambertw(-np.exp(-1 - k), 0).real)
    entropy = slack * (1 - np.exp(1 + lambertw((k / slack - 1) / np.e, -1).real))
    np.testing.assert_allclose([entropy, log], [0.74049159, 1.14954950], atol=5e-9)
    np.testing.assert_allclose(value("entropy", slack, entropy), k, atol=1e-12)
    np.testing.assert_allclose(value("log", slack, log), k, atol=1e-12)


def test_the_wrong_sign_would_be_negative():
    """Erratum E2: with −φ'(slack)·spent the 'divergence' dips below 0."""
    x = np.linspace(-2.9, 2.9, 101)
    for phi, slope in GENERATORS.values():
        wrong = phi(3 - x) - phi(3.0) - slope(3.0) * x
        assert wrong.min() < 0
        right = phi(3 - x) - phi(3.0) + slope(3.0) * x
        assert right.min() > -1e-12


@pytest.mark.repeats
@pytest.mark.parametrize("kind", ["entropy", "log"])
@given(slack=st.floats(1e-3, 1e3), share=st.floats(-5, 0.999))
@example(slack=1.0, share=0.40625)
@settings(max_examples=repeats(40, 200), deadline=None)
def test_equals_the_definition(kind, slack, share):
    phi, slope = GENERATORS[kind]
    spent = slack * share
    direct = phi(slack - spent) - phi(slack) + slope(slack) * spent
    # What rounding of its three terms and of slack − spent can do to the direct form.
    scale = abs(phi(slack - spent)) + abs(phi(slack)) + abs(slope(slack) * spent)
    scale += slack * (abs(slope(slack - spent)) + abs(slope(slack)))
    assert abs(value(kind, slack, spent) - direct) <= 4e-16 * scale


@pytest.mark.repeats
@given(slack=st.floats(1e-3, 1e3), share=st.floats(-5, 0.999))
@settings(max_examples=repeats(30, 100), deadline=None)
def test_reversed_entropy_is_the_bregman_divergence_with_swapped_arguments(slack, share):
    left, spent = slack * (1 - share), slack * share
    swapped = slack * np.log(slack / left) - spent
    np.testing.assert_allclose(
        value("reversed-entropy", slack, spent), swapped, rtol=1e-9, atol=1e-12 * slack
    )


@pytest.mark.repeats
@pytest.mark.parametrize("kind", BARRIERS)
@given(slack=st.floats(1e-2, 1e2), a=st.floats(-3, 0.99), b=st.floats(-3, 0.99))
@settings(max_examples=repeats(30, 100), deadline=None)
def test_laws(kind, slack, a, b):
    """Zero at nothing spent, never negative, convex, infinite beyond the limit."""
    x, y = slack * a, slack * b
    fx, fy, middle = value(kind, slack, [x, y, (x + y) / 2])
    assert value(kind, slack, 0.0) == 0.0
    assert fx >= 0 and fy >= 0
    assert middle <= (fx + fy) / 2 + 1e-12 * (fx + fy)
    assert np.isinf(value(kind, slack, slack * 1.0001))


@pytest.mark.parametrize("kind", BARRIERS)
def test_slope_grows_without_bound_at_the_limit(kind, float64):
    slope = jax.grad(lambda x: BARRIERS[kind].divergence(jnp.asarray(3.0), x))
    near = [float(slope(jnp.asarray(3.0 * (1 - 10.0**-k)))) for k in (1, 4, 8, 12)]
    assert near == sorted(near) and near[-1] > 20


@pytest.mark.parametrize("kind", BARRIERS)
@pytest.mark.parametrize("slack", [0.00852, 3.0, 25.0])
def test_curvature_is_the_second_derivative_at_zero(kind, slack, float64):
    barrier = BARRIERS[kind]
    second = jax.grad(jax.grad(lambda x: barrier.divergence(jnp.asarray(slack), x)))(0.0)
    np.testing.assert_allclose(second, barrier.curvature(jnp.asarray(slack)), rtol=1e-12)


@pytest.mark.parametrize("kind", BARRIERS)
def test_float32_keeps_its_digits_when_little_is_spent(kind):
    """The textbook difference is wrong by a factor there; ours must be right to rounding."""
    spent = np.array([1e-5, 1e-3, 0.01, 0.5, 0.74, 0.76, 2.0, -0.01, -1.0, -30.0])
    single = BARRIERS[kind].divergence(jnp.float32(25.0), jnp.asarray(spent, jnp.float32))
    assert single.dtype == jnp.float32
    exact = value(kind, 25.0, spent.astype(np.float32))
    np.testing.assert_allclose(single, exact, rtol=5e-6)


def test_gradient_is_finite_up_to_the_limit():
    for kind, barrier in BARRIERS.items():
        slope = jax.grad(lambda x, b=barrier: b.divergence(jnp.float32(2.0), x))
        for spent in (-1.0, 0.0, 0.03, 1.0, 1.99):
            assert np.isfinite(slope(jnp.float32(spent))), (kind, spent)


def test_recovery_weights_are_in_proportion_to_relative_excess() -> None:
    violated = jnp.array([True, False, True])
    share = recovery_weights(violated, jnp.array([5.0, 9.0, 20.0]), jnp.array([10.0] * 3))
    np.testing.assert_allclose(share, [0.2, 0.0, 0.8], rtol=1e-6)
    # the third cost in units of 1/100: its advantages are a hundredth, so its weight is 100 fold
    small = recovery_weights(violated, jnp.array([5.0, 9.0, 0.2]), jnp.array([10.0, 10.0, 0.1]))
    np.testing.assert_allclose(small[2] / small[0], 100 * share[2] / share[0], rtol=1e-5)
    np.testing.assert_allclose(
        recovery_weights(jnp.array([True]), jnp.zeros(1), jnp.ones(1)), [1.0]
    )
    assert float(recovery_weights(jnp.array([False]), jnp.ones(1), jnp.ones(1))[0]) == 0.0
