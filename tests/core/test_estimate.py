# SPDX-License-Identifier: Apache-2.0
"""GAE, the normaliser and the episode estimates against direct definitions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from full import repeats
from holdfast.core.critic import Critics
from holdfast.core.episodes import Episodes
from holdfast.core.estimate import estimate, gae, standardise
from holdfast.envs.acting import Normaliser


def by_definition(signal, value, next_value, terminated, done, gamma, lam):
    """A_t = Σ_k (γλ)^k δ_{t+k}, one sum for each t."""
    steps, envs = signal.shape
    delta = signal + gamma * np.where(terminated, 0, next_value) - value
    out = np.zeros_like(signal)
    for n in range(envs):
        for t in range(steps):
            for k in range(t, steps):
                out[t, n] += (gamma * lam) ** (k - t) * delta[k, n]
                if done[k, n]:
                    break
    return out


@pytest.mark.parametrize("seed", range(5))
def test_gae_equals_its_definition(seed, float64):
    rng = np.random.default_rng(seed)
    signal, value, next_value = rng.normal(size=(3, 12, 3))
    terminated = rng.random((12, 3)) < 0.15
    done = terminated | (rng.random((12, 3)) < 0.15)
    ahead = np.where(terminated, 0.0, next_value)
    ours = gae(*map(jnp.asarray, (signal, value, ahead, done)), gamma=0.9, lam=0.8)
    direct = by_definition(signal, value, next_value, terminated, done, 0.9, 0.8)
    np.testing.assert_allclose(ours, direct, atol=1e-12)


def test_gae_with_lambda_one_is_the_return_minus_the_value(float64):
    """Closed form: one episode of ones that terminates after 5 steps."""
    ones = jnp.ones((5, 1))
    end = jnp.arange(5)[:, None] == 4
    adv = gae(ones, 0.3 * ones, jnp.where(end, 0.0, 0.3), end, gamma=0.5, lam=1.0)
    returns = np.array([(1 - 0.5 ** (5 - t)) / 0.5 for t in range(5)])
    np.testing.assert_allclose(adv[:, 0], returns - 0.3, atol=1e-12)


def test_truncation_bootstraps_and_termination_does_not(float64):
    """Critics that say 1 everywhere; of two environments one ends in a terminal state."""
    layers = ((jnp.zeros((2, 3, 1)), jnp.ones((2, 1))),)
    flags = jnp.array([[True, False]])
    rollout = {
        "obs": jnp.zeros((1, 2, 3)),
        "next_obs": jnp.zeros((1, 2, 3)),
        "reward": jnp.full((1, 2), 5.0),
        "cost": jnp.full((1, 2, 1), 7.0),
        "terminated": flags,
        "truncated": ~flags,
    }
    options = {"gamma": (0.9, 0.8), "lam": (0.95, 0.95), "standardise_cost": False}
    parts = estimate(
        Critics(layers, None), rollout, jax.random.key(0), **options, cost_value_noise=0.0
    )
    np.testing.assert_allclose(parts["target"], [[5.0, 7.0], [5.9, 7.8]], atol=1e-12)


def test_standardise_uses_the_sample_deviation(float64):
    x = jnp.array([1.0, 2.0, 3.0, 6.0])
    np.testing.assert_allclose(standardise(x), (x - 3) / (np.std(x, ddof=1) + 1e-8), rtol=1e-12)


@pytest.mark.repeats
@given(st.lists(st.integers(1, 20), min_size=1, max_size=6), st.integers(0, 2**31))
@settings(max_examples=repeats(15, 50), deadline=None)
def test_normaliser_merges_to_the_moments_of_everything_seen(sizes, seed):
    rng = np.random.default_rng(seed)
    pieces = [rng.normal(3, 2, (n, 2)) for n in sizes]
    running = Normaliser.create(2)
    for piece in pieces:
        running = running.merge(piece)
    seen = np.concatenate(pieces)
    # The start counts as 1e-4 observations of mean 0 and variance 1.
    count = 1e-4 + len(seen)
    mean = seen.sum(0) / count
    var = (1e-4 * (1 + mean**2) + ((seen - mean) ** 2).sum(0)) / count
    np.testing.assert_allclose(running.mean, mean, rtol=1e-9)
    np.testing.assert_allclose(running.var, var, rtol=1e-7)
    shown = running(seen)
    np.testing.assert_allclose(shown, (seen - mean) / np.sqrt(var + 1e-8), rtol=1e-4, atol=1e-5)


def test_window_estimate_by_hand():
    """Each finished episode joins the window; the epoch's value is the mean of its means."""
    cost = np.array([[[3.0]], [[5.0]], [[1.0]], [[2.0]]])
    done = np.array([[True], [True], [False], [True]])
    episodes = Episodes.create(1, 1).advance(cost[..., 0], cost, done, gamma=0.5)
    costs = np.array([3.0, 5.0, 3.0])
    records = [3.0, 4.0, 11 / 3]
    assert episodes.ended == 3
    assert episodes.smooth[2] == pytest.approx(np.mean(records))
    assert episodes.raw[2] == pytest.approx(costs.mean())
    assert episodes.raw_error[2] == pytest.approx(costs.std(ddof=1) / np.sqrt(3))
    assert episodes.raw[3] == pytest.approx((3 + 5 + (1 + 0.5 * 2)) / 3)  # discounted


def test_each_estimate_has_its_own_standard_error():
    """20 episodes an epoch: the window's error is 0.6 of the epoch's, as its weights say."""
    rng, done = np.random.default_rng(0), np.ones((20, 1), np.bool_)
    episodes, smooth, errors = Episodes.create(1, 1), [], []
    for epoch in range(2_000):
        cost = rng.normal(10.0, 4.0, (20, 1, 1))
        episodes = episodes.advance(cost[..., 0], cost, done, gamma=0.9)
        if epoch >= 4:
            smooth.append(episodes.smooth[2])
            errors.append((episodes.smooth_error[2], episodes.raw_error[2]))
    own, other = np.mean(errors, axis=0)
    assert own == pytest.approx(np.std(smooth), rel=0.04)
    assert other == pytest.approx(4.0 / np.sqrt(20), rel=0.02)
    assert other > 1.6 * own, "the epoch's error does not serve for the window"


def test_published_weights_of_the_window():
    """20 episodes an epoch: weights 0.21, 0.40, 0.345, 0.045 on the last four policies."""
    weights = []
    for lag in range(4):
        episodes = Episodes.create(1, 1)
        for epoch in range(8):
            cost = np.full((20, 1, 1), float(epoch == 7 - lag))
            episodes = episodes.advance(cost[..., 0], cost, np.ones((20, 1), bool), 0.99)
        weights.append(episodes.smooth[2])
    np.testing.assert_allclose(weights, [0.21, 0.40, 0.345, 0.045], atol=1e-12)


def test_episodes_run_on_across_epochs_in_any_split():
    rng = np.random.default_rng(3)
    reward, cost = rng.normal(size=(60, 4)), rng.random((60, 4, 2))
    done = rng.random((60, 4)) < 0.1
    whole = Episodes.create(4, 2).advance(reward, cost, done, 0.9)
    split = Episodes.create(4, 2)
    for piece in (slice(0, 7), slice(7, 8), slice(8, 60)):
        split = split.advance(reward[piece], cost[piece], done[piece], 0.9)
    np.testing.assert_allclose(split.window, whole.window, rtol=1e-12)
    np.testing.assert_allclose(split.running, whole.running, rtol=1e-12)


def test_no_finished_episode_keeps_the_last_estimate():
    zero, never = np.zeros((3, 1)), np.zeros((3, 1), bool)
    episodes = Episodes.create(1, 1)
    assert np.isnan(episodes.advance(zero, zero[..., None], never, 0.9).smooth).all()
    known = episodes.advance(zero + 1, zero[..., None] + 2, ~never, 0.9)
    later = known.advance(zero, zero[..., None], never, 0.9)
    assert later.smooth[2] == 2.0 and later.ended == 0
