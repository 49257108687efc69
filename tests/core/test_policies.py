# SPDX-License-Identifier: Apache-2.0
"""Policies against SciPy's distributions and against autodiff."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from holdfast.core.policies import (
    Categorical,
    Gaussian,
    init_categorical,
    init_gaussian,
    init_layers,
)
from holdfast.train.state import numpy_actor


def gaussian(seed=0, dtype=jnp.float32):
    policy = init_gaussian(jax.random.key(seed), 4, 3, (8, 8), dtype)
    return Gaussian(policy.layers, jax.random.normal(jax.random.key(seed + 9), (3,), dtype) * 0.3)


def categorical(seed=0, dtype=jnp.float32, sizes=(3, 2)):
    return init_categorical(jax.random.key(seed), 4, sizes, (8,), dtype)


def observations(dtype=jnp.float32):
    return jax.random.normal(jax.random.key(5), (7, 4), dtype)


def test_init_is_uniform_within_the_fan_in_bound():
    layers = init_layers(jax.random.key(0), [(27, 64), (64, 64), (64, 8)])
    for weight, bias in layers:
        bound = 1 / np.sqrt(weight.shape[0])
        both = np.concatenate([np.ravel(weight), bias])
        assert np.abs(both).max() <= bound
        assert np.abs(both).max() > 0.9 * bound and abs(both.mean()) < 0.2 * bound


def test_gaussian_log_prob_equals_scipy(float64):
    policy, obs = gaussian(dtype=jnp.float64), observations(jnp.float64)
    mean, log_std = policy.outputs(obs)
    action = jax.random.normal(jax.random.key(1), mean.shape)
    normal = stats.norm(np.asarray(mean), np.exp(log_std))
    ours = policy.log_prob((mean, log_std), action)
    np.testing.assert_allclose(ours, normal.logpdf(action).sum(-1), rtol=1e-12)


def test_gaussian_kl_equals_the_formula_and_integration(float64):
    p, q, obs = gaussian(0, jnp.float64), gaussian(1, jnp.float64), observations(jnp.float64)
    (m1, l1), (m2, l2) = p.outputs(obs), q.outputs(obs)
    s1, s2 = np.exp(l1), np.exp(l2)
    formula = (np.log(s2 / s1) + (s1**2 + (m1 - m2) ** 2) / (2 * s2**2) - 0.5).sum(-1)
    np.testing.assert_allclose(p.kl((m1, l1), (m2, l2)), formula, rtol=1e-12)
    x = np.linspace(-15, 15, 40001)
    a, b = stats.norm(m1[0, 0], s1[0]), stats.norm(m2[0, 0], s2[0])
    one = np.trapezoid(a.pdf(x) * (a.logpdf(x) - b.logpdf(x)), x)
    part = p.kl((m1[:1, :1], l1[:1]), (m2[:1, :1], l2[:1]))
    np.testing.assert_allclose(part[0], one, rtol=1e-8)


def test_gaussian_kl_is_exact_in_float32_for_tiny_changes():
    log_std = jnp.array([0.1, -0.4, 0.0])
    mean = jnp.ones((1, 3))
    moved = (mean, log_std + jnp.float32(1e-4))
    step = np.asarray(moved[1], np.float64) - np.asarray(log_std, np.float64)
    exact = (0.5 * (np.expm1(-2 * step) + 2 * step)).sum()
    np.testing.assert_allclose(Gaussian.kl((mean, log_std), moved)[0], exact, rtol=1e-2)


@pytest.mark.parametrize("sizes", [(4,), (3, 2), (2, 2, 5)])
def test_categorical_sums_over_components(sizes, float64):
    policy, obs = categorical(dtype=jnp.float64, sizes=sizes), observations(jnp.float64)
    other = categorical(3, jnp.float64, sizes)
    out, new = policy.outputs(obs), other.outputs(obs)
    action = jnp.stack([jnp.arange(7) % n for n in sizes], -1)
    expected = sum(np.asarray(block)[np.arange(7), action[:, d]] for d, block in enumerate(out))
    np.testing.assert_allclose(policy.log_prob(out, action), expected, rtol=1e-12)
    kl = sum(stats.entropy(np.exp(a), np.exp(b), axis=-1) for a, b in zip(out, new, strict=True))
    np.testing.assert_allclose(policy.kl(out, new), kl, rtol=1e-10)


@pytest.mark.parametrize("make", [gaussian, categorical])
def test_fisher_is_the_hessian_of_both_kls(make, float64):
    """In output space, through the parameters: F = ∂²KL/∂θ² at equal policies, either order."""
    from jax.flatten_util import ravel_pytree

    weight = np.linspace(0.5, 1.5, 7) / 7

    @jax.jit
    def matrices(policy, obs):
        """(Jᵀ M J by products, the Hessian of KL(old, new), that of KL(new, old))."""
        theta, unravel = ravel_pytree(policy)
        old = policy.outputs(obs)
        outputs, push = jax.linearize(lambda t: unravel(t).outputs(obs), theta)
        pull = jax.linear_transpose(push, theta)
        column = lambda v: pull(policy.fisher(outputs, push(v), weight))[0]
        orders = (lambda new: policy.kl(old, new)), (lambda new: policy.kl(new, old))
        hessian = lambda order: jax.hessian(
            lambda t: jnp.sum(weight * order(unravel(t).outputs(obs)))
        )(theta)
        return jax.vmap(column)(jnp.eye(theta.size)), *map(hessian, orders)

    columns, *hessians = matrices(make(dtype=jnp.float64), observations(jnp.float64))
    for hessian in hessians:
        np.testing.assert_allclose(columns, hessian, atol=1e-10)


@pytest.mark.parametrize("make", [gaussian, categorical])
def test_numpy_actor_samples_the_policy(make):
    """Frequencies of what the actor does against the policy's own probabilities."""
    policy = make()
    actor = numpy_actor(policy)
    obs = np.repeat(np.asarray(observations())[:1], 40_000, 0)
    noise = actor.draw(np.random.default_rng(0), (len(obs),))
    action, _ = actor.act(obs, noise)
    out = policy.outputs(jnp.asarray(obs[:1]))
    if isinstance(policy, Gaussian):
        mean, log_std = (np.asarray(x) for x in out)
        np.testing.assert_allclose(action.mean(0), mean[0], atol=4 * np.exp(log_std).max() / 200)
        np.testing.assert_allclose(action.std(0), np.exp(log_std), rtol=0.02)
    else:
        for d, block in enumerate(out):
            seen = np.bincount(action[:, d], minlength=block.shape[1]) / len(obs)
            np.testing.assert_allclose(seen, np.exp(block[0]), atol=4 * 0.5 / 200)
    likely, _ = actor.act(obs[:1], None)
    expected = out[0] if isinstance(policy, Gaussian) else [[int(b[0].argmax()) for b in out]]
    np.testing.assert_allclose(likely, expected, atol=1e-6)


def test_categorical_is_a_pytree_with_static_sizes():
    policy = Categorical(categorical().layers, (3, 2))
    doubled = jax.tree.map(lambda x: 2 * x, policy)
    assert doubled.sizes == (3, 2) and doubled.action_dims == 2


@pytest.mark.parametrize("at_once", [2**20, 0])
def test_layers_drawn_at_once_are_those_drawn_one_by_one(monkeypatch, at_once):
    """Each number follows from the key of its array and its place there, and from nothing else."""
    monkeypatch.setattr("holdfast.core.policies.DRAWN_AT_ONCE", at_once)
    shapes, key = [(5, 7), (7, 3)], jax.random.key(4)
    layers = jax.jit(lambda k: init_layers(k, shapes))(key)
    for layer, own, (fan_in, fan_out) in zip(
        layers, jax.random.split(key, len(shapes)), shapes, strict=True
    ):
        bound, arrays = 1 / math.sqrt(fan_in), ((fan_in, fan_out), (fan_out,))
        for got, k, shape in zip(layer, jax.random.split(own), arrays, strict=True):
            wanted = jax.random.uniform(k, shape, jnp.float32, -bound, bound)
            np.testing.assert_array_equal(got, wanted)
            other = jax.random.uniform(own, shape, jnp.float32, -bound, bound)  # the control
            assert not np.array_equal(got, other)
