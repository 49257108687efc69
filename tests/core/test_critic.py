# SPDX-License-Identifier: Apache-2.0
"""The critics' regression against a plain loop, and its small rules."""

from dataclasses import replace
from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.flatten_util import ravel_pytree
from scipy import stats

from holdfast.core.critic import CriticFit, init_critics, orders, together, values
from holdfast.core.policies import init_gaussian
from holdfast.core.types import Learner, sampled_batch


@cache
def setting(size=50, constraints=2):
    keys = jax.random.split(jax.random.key(0), 4)
    fit = CriticFit(critic_minibatch=16, critic_passes=2)
    learner = Learner(
        init_gaussian(keys[0], 3, 1, (4,)), init_critics(keys[1], 3, constraints, (8,)), None
    )
    zero = jnp.zeros((size, constraints))
    batch = sampled_batch(
        jax.random.normal(keys[2], (size, 3)),
        jnp.zeros((size, 1)),
        zero[:, 0],
        zero,
        cost_return=zero[0],
        cost_limit=zero[0] + 1,
        target=jax.random.normal(keys[3], (size, 1 + constraints)) * 3,
    )
    return fit, learner, batch


@partial(jax.jit, static_argnums=(0, 1))
def one_minibatch(lr, l2, layers, moments, rate, stale, max_norm, obs, target):
    """One step of the regression by optax's own pieces, critic by critic."""

    def loss(p):
        total = 0.0
        for i in range(target.shape[1]):
            one = jax.tree.map(lambda x, i=i: x[i], p)
            x = obs
            for w, b in one[:-1]:
                x = jnp.tanh(x @ w + b)
            v = (x @ one[-1][0] + one[-1][1])[:, 0]
            total += jnp.mean((v - target[:, i]) ** 2)
            total += l2 * sum(jnp.sum(q**2) for q in jax.tree.leaves(one))
        return total

    grad = jax.grad(loss)(layers)
    norm = jnp.sqrt(sum(jnp.sum(g**2) for g in jax.tree.leaves(grad)) + stale**2)
    scale = jnp.minimum(1.0, max_norm / (norm + 1e-6))
    scaled = jax.tree.map(lambda g: g * scale, grad)
    update, moments = optax.adam(lr).update(scaled, moments)
    update = jax.tree.map(lambda u: rate * u, update)
    return optax.apply_updates(layers, update), moments, stale * scale


def by_hand(fit, learner, batch, key, stale=0.0):
    """The same regression as a Python loop over minibatches."""
    index, used = fit.minibatches(key, batch.obs.shape[0])
    obs, target = np.asarray(batch.obs), np.asarray(batch.target)
    layers = jax.tree.map(np.asarray, learner.critics.layers)
    moments = optax.adam(fit.critic_lr).init(layers)
    for step, (rows, real) in enumerate(zip(index, used, strict=True)):
        rate = 1 - step / len(index) if fit.critic_decay else 1.0
        given = rate, stale, fit.critic_max_norm, obs[rows[real]], target[rows[real]]
        layers, moments, stale = one_minibatch(
            fit.critic_lr, fit.critic_l2, layers, moments, *given
        )
    return layers


def test_scan_equals_a_plain_loop():
    fit, learner, batch = setting()
    for clip in (40.0, 0.5):
        chosen = replace(fit, critic_max_norm=clip)
        picked = chosen.minibatches(jax.random.key(5), len(batch.weight))
        fitted, metrics = jax.jit(chosen.fit)(learner.critics, batch, picked)
        expected = by_hand(chosen, learner, batch, jax.random.key(5))
        for a, b in zip(jax.tree.leaves(fitted.layers), jax.tree.leaves(expected), strict=True):
            np.testing.assert_allclose(a, b, atol=2e-6)
        assert np.isfinite(metrics["critic_loss"])


def test_the_rate_may_fall_to_0_within_each_fit():
    """By hand, and apart; a constant rate ends elsewhere."""
    fit, learner, batch = setting()
    falling = replace(fit, critic_decay=True)
    picked = fit.minibatches(jax.random.key(5), len(batch.weight))
    fitted, _ = jax.jit(falling.fit)(learner.critics, batch, picked)
    constant, _ = jax.jit(fit.fit)(learner.critics, batch, picked)
    expected = by_hand(falling, learner, batch, jax.random.key(5))
    for a, b in zip(jax.tree.leaves(fitted.layers), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, atol=2e-6)
    assert not np.allclose(
        ravel_pytree(fitted.layers)[0], ravel_pytree(constant.layers)[0], atol=1e-4
    )
    free = replace(falling, critic_max_norm=np.inf)
    joint, _ = jax.jit(free.fit)(learner.critics, batch, picked)
    for a, b in zip(
        jax.tree.leaves(joint.layers),
        jax.tree.leaves(apart(free, learner, batch, jax.random.key(5)).layers),
        strict=True,
    ):
        np.testing.assert_allclose(a, b, atol=2e-6)


def test_stale_gradient_counts_in_the_published_clip_norm():
    fit, learner, batch = setting()
    published = replace(fit, critic_stale_norm=True, critic_max_norm=2.0)
    picked = published.minibatches(jax.random.key(5), len(batch.weight))
    fitted, _ = jax.jit(published.fit)(learner.critics, batch, picked, np.float32(30.0))
    expected = by_hand(published, learner, batch, jax.random.key(5), stale=30.0)
    for a, b in zip(jax.tree.leaves(fitted.layers), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, atol=2e-6)
    without, _ = jax.jit(replace(published, critic_stale_norm=False).fit)(
        learner.critics, batch, picked, np.float32(30.0)
    )
    assert ravel_pytree(without.layers)[0] is not None
    assert not np.allclose(
        ravel_pytree(without.layers)[0], ravel_pytree(fitted.layers)[0], atol=1e-6
    )


@cache
def compiled(fit):
    return jax.jit(fit.fit_one)


def apart(fit, learner, batch, key):
    """All critics by `fit_one`, joined."""
    one = compiled(fit)
    picked = fit.minibatches(key, len(batch.weight))
    return together([one(learner.critics, batch, picked, i)[0] for i in range(3)])


def test_critics_apart_are_each_a_fit_of_one():
    """By hand: the plain loop, for a learner that has only the one critic and its target."""
    fit, learner, batch = setting()
    for clip in (40.0, 0.5):
        chosen = replace(fit, critic_max_norm=clip, critic_apart=True)
        fitted = apart(chosen, learner, batch, jax.random.key(5))
        for i in range(3):
            cut = lambda x, i=i: np.asarray(x)[i : i + 1]
            critics = replace(learner.critics, layers=jax.tree.map(cut, learner.critics.layers))
            own = replace(learner, critics=critics), replace(batch, target=cut(batch.target.T).T)
            expected = by_hand(chosen, *own, jax.random.key(5))
            found = jax.tree.map(cut, fitted.layers)
            for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
                np.testing.assert_allclose(a, b, atol=2e-6)


def test_critics_apart_are_those_of_a_joint_fit_unless_the_clip_binds():
    """Moments included, and in the same places; where it binds the joint norm is another."""
    fit, learner, batch = setting()
    picked = fit.minibatches(jax.random.key(5), len(batch.weight))
    for clip, same in ((np.inf, True), (0.5, False)):
        chosen = replace(fit, critic_max_norm=clip)
        together_fit = jax.jit(chosen.fit)
        joint, _ = together_fit(learner.critics, batch, picked)
        joint, _ = together_fit(joint, batch, picked)  # from moments that are not 0
        once = apart(chosen, learner, batch, jax.random.key(5))
        twice = apart(chosen, replace(learner, critics=once), batch, jax.random.key(5))
        assert jax.tree.structure(joint) == jax.tree.structure(twice)
        close = [
            np.allclose(a, b, atol=2e-6)
            for a, b in zip(jax.tree.leaves(joint), jax.tree.leaves(twice), strict=True)
        ]
        assert all(close) if same else not any(close[:4])


def test_the_reward_critic_may_weigh_more_apart_too():
    """Without a clip Adam does not see a factor, so a tight one shows whose loss is doubled."""
    fit, learner, batch = setting()
    fit = replace(fit, critic_max_norm=1e-9)  # 1e-9 / (norm + 1e-6): far from Adam's own scale
    plain = apart(fit, learner, batch, jax.random.key(5))
    picked = fit.minibatches(jax.random.key(5), 50)
    loss = lambda chosen, i: compiled(chosen)(learner.critics, batch, picked, i)[1]["critic_loss"]
    double = replace(fit, critic_reward_weight=2.0)
    np.testing.assert_allclose(loss(double, 0), 2 * loss(fit, 0), rtol=1e-3)
    np.testing.assert_allclose(loss(double, 1), loss(fit, 1), rtol=1e-6)
    assert plain.layers[0][0].shape == learner.critics.layers[0][0].shape


def test_the_published_norm_is_refused_where_critics_are_apart():
    with pytest.raises(ValueError, match=r"critic_stale_norm=True cannot be used with critic_apar"):
        CriticFit(critic_apart=True, critic_stale_norm=True)


def test_every_sample_is_used_once_in_a_pass():
    fit = CriticFit(critic_minibatch=16, critic_passes=3)
    index, used = fit.minibatches(jax.random.key(0), 50)
    assert index.shape == (12, 16)
    for p in range(3):
        rows = np.asarray(index[4 * p : 4 * p + 4])[np.asarray(used[4 * p : 4 * p + 4])]
        assert sorted(rows.tolist()) == list(range(50))


@pytest.mark.parametrize("size", [1, 2, 3, 1000])
def test_orders_are_permutations(size):
    found = np.asarray(jax.jit(lambda key: orders(key, 5, size))(jax.random.key(1)))
    np.testing.assert_array_equal(np.sort(found, axis=1), np.tile(np.arange(size), (5, 1)))


@pytest.mark.parametrize("size", [1, 3, 1000, 20_000])
def test_numpy_finds_the_same_orders(size):
    key = jax.random.key(3)
    compiled = jax.jit(lambda k: orders(k, 2, size))
    np.testing.assert_array_equal(orders(key, 2, size, np), compiled(key))
    if size > 3:
        assert (orders(key, 2, size, np) != compiled(jax.random.key(4))).any()


def test_orders_are_uniform_and_independent():
    """All 24 orders of four numbers, and all pairs of two passes, are equally frequent."""
    draw = jax.jit(lambda key: jax.vmap(lambda k: orders(k, 2, 4))(jax.random.split(key, 24_000)))
    found = np.asarray(draw(jax.random.key(2))) @ [64, 16, 4, 1]
    _, counts = np.unique(found[:, 0], return_counts=True)
    assert len(counts) == 24 and stats.chisquare(counts).pvalue > 0.01
    assert len(np.unique(found[:, 0] * 256 + found[:, 1])) == 24 * 24


def test_critics_learn_the_targets():
    fit, learner, batch = setting()
    weights = np.arange(9, dtype="f4").reshape(3, 3) - 4
    batch = replace(batch, target=np.asarray(batch.obs) @ weights / 4)
    fit = replace(fit, critic_passes=400, critic_l2=0.0)
    error = lambda x: float(np.mean((jax.jit(values)(x.layers, batch.obs) - batch.target) ** 2))
    picked = fit.minibatches(jax.random.key(1), len(batch.weight))
    fitted, _ = jax.jit(fit.fit)(learner.critics, batch, picked)
    assert error(fitted) < 0.2 * error(learner.critics)


def test_l2_can_leave_biases_out():
    fit, learner, batch = setting()
    weight = np.ones(batch.obs.shape[0], "f4")
    both, only = (
        jax.jit(chosen.loss)(learner.critics.layers, batch.obs, batch.target, weight)
        for chosen in (fit, replace(fit, critic_l2_biases=False))
    )
    biases = sum(np.sum(np.asarray(b) ** 2) for _, b in learner.critics.layers)
    np.testing.assert_allclose(both - only, 1e-3 * biases, rtol=1e-3)


def test_the_reward_critic_may_weigh_more():
    """C3PO's loss is 2 · reward + cost, each its squared error and its own L2 term."""
    fit = CriticFit(critic_l2=0.1)
    critics = init_critics(jax.random.key(0), 3, 2, (4,))
    obs, target = np.random.default_rng(1).normal(size=(2, 10, 3)).astype("f4")
    weight = np.full(10, 0.1, "f4")
    loss = jax.jit(fit.loss)

    def alone(i):
        layers = jax.tree.map(lambda x: np.asarray(x)[i : i + 1], critics.layers)
        return loss(layers, obs, target[:, i : i + 1], weight)

    doubled = jax.jit(replace(fit, critic_reward_weight=2.0).loss)
    one, two, three = (float(alone(i)) for i in range(3))
    np.testing.assert_allclose(
        doubled(critics.layers, obs, target, weight), 2 * one + two + three, rtol=1e-5
    )
    np.testing.assert_allclose(
        loss(critics.layers, obs, target, weight), one + two + three, rtol=1e-5
    )
