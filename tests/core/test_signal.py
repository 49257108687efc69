# SPDX-License-Identifier: Apache-2.0
"""The signal share: 1 without noise, known with it, 0 for noise alone."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from full import first_is_quick
from holdfast.core.diagnosis import signal_share, split_episodes
from holdfast.core.linearise import linearise
from holdfast.core.trust_region import TrustRegion
from holdfast.exact import exact_batch, tabular_policy
from holdfast.tabular.cmdp import toy, two_action_policy

PI = two_action_policy(0.6, 0.4)
SIZE = 400


def sampled(key, noise, scale=1.0):
    """Samples of the toy with exact advantages, and noise on those of the cost."""
    exact = exact_batch(toy(), PI)
    pick = jax.random.choice(key, exact.weight.size, (SIZE,), p=exact.weight)
    off = noise * jax.random.normal(jax.random.fold_in(key, 1), (SIZE, 1))
    return replace(
        exact,
        obs=exact.obs[pick],
        action=exact.action[pick],
        weight=jnp.full(SIZE, 1 / SIZE, exact.weight.dtype),
        adv_r=exact.adv_r[pick],
        adv_c=scale * exact.adv_c[pick] + off,
        episode=jnp.arange(SIZE) // 4,
        target=exact.target[pick],
    )


def doubled():
    """Every pair in both halves: they agree exactly."""
    exact = exact_batch(toy(), PI)
    twice = {
        name: jnp.concatenate([getattr(exact, name)] * 2)
        for name in ("obs", "action", "adv_r", "adv_c", "target")
    }
    count = exact.weight.size
    weight = jnp.concatenate([exact.weight] * 2) / 2
    return replace(exact, **twice, weight=weight, episode=jnp.arange(2 * count) // count)


def test_without_noise_all_is_signal(float64):
    told = signal_share(tabular_policy(PI), doubled(), TrustRegion())
    np.testing.assert_allclose([told["share_reward"], told["share_cost"]], 1.0, rtol=1e-9)


@pytest.mark.parametrize("scale", first_is_quick([1.0, 0.0]))
def test_the_mean_over_epochs_is_the_true_share(scale, float64):
    """E⟨a, b⟩ / E⟨whole, whole⟩ by many batches, against the noise-free gradient."""
    policy = tabular_policy(PI)

    @jax.jit
    def both(key):
        batch = sampled(key, 3.0, scale)
        local = linearise(policy, batch, kl_average=True)
        a, b, whole = (
            local.gradients((batch.adv_c - w @ batch.adv_c) * (w / batch.weight)[:, None])[0]
            for w in (*split_episodes(batch), batch.weight)
        )
        region = TrustRegion(cg_steps=15)
        solve = lambda v: region.solve(region.damped(local), v[None])[0]
        share = signal_share(policy, batch, region)["share_cost"]
        return a @ solve(b), whole @ solve(whole), share

    cross, square, share = map(
        np.asarray, jax.lax.map(both, jax.random.split(jax.random.key(0), 1500))
    )
    true = cross.mean() / square.mean()
    error = share.std() / np.sqrt(share.size)
    if scale:
        assert 0.1 < true < 0.9  # there is both
        assert abs(share.mean() - true) < 0.1 + 4 * error
    else:
        assert abs(true) < 0.1
        assert share.mean() < 0.1


def test_halves_are_whole_episodes():
    folds = np.asarray(split_episodes(sampled(jax.random.key(0), 0.0)))
    np.testing.assert_allclose(folds.sum(1), 1.0, rtol=1e-5)
    assert ((folds > 0).sum(0) == 1).all()
    assert ((folds.reshape(2, -1, 4) > 0).all(2).sum(0) == 1).all()
