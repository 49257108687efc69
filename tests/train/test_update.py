# SPDX-License-Identifier: Apache-2.0
"""Critics that are fitted first: the policy improves by what they have learned from the epoch."""

from dataclasses import replace

import jax
import numpy as np
import pytest

from holdfast import make_env, make_run
from holdfast.core.critic import CriticFit
from holdfast.train import train
from holdfast.train.update import make_update

SMALL = dict(num_envs=4, epoch_steps=200, hidden=(8,), critic_passes=3, critic_minibatch=64)


def run(**settings):
    return make_run("c-trpo", env="probe/Speed-v0", steps=400, cg_steps=5, **SMALL | settings)


def flat(tree):
    return np.concatenate([np.asarray(x).ravel() for x in jax.tree.leaves(tree)])


def epochs(settings):
    return list(train(settings, make_env(settings.env, settings.num_envs)))


@pytest.fixture
def seen(monkeypatch):
    """What the first epoch's update was given and what came of it."""
    calls = []

    def spy(*given):
        update = make_update(*given)

        def spied(learner, batch, key, advantages):
            after = update(learner, batch, key, advantages)
            calls.append((learner, batch, key, advantages, *after))
            return after

        return spied

    monkeypatch.setattr("holdfast.train.make_update", spy)
    return calls


def test_the_policy_improves_by_the_fitted_critics_advantages(seen):
    """By hand: fit, estimate again, improve."""
    chosen = run()
    epochs(chosen)
    learner, batch, key, advantages, after, *_ = seen[0]
    update = make_update(chosen.algorithm)
    critics, _ = update.fit(learner.critics, batch, update.minibatches(key, batch), None)
    again = advantages(critics)
    assert np.abs(again["adv_c"] - batch.adv_c).max() > 1e-3  # they did learn something
    step = update.improve(learner, replace(batch, adv_r=again["adv_r"], adv_c=again["adv_c"]), key)
    np.testing.assert_array_equal(flat(after.policy), flat(step.policy))
    np.testing.assert_array_equal(flat(after.critics), flat(critics))
    stale = update.improve(learner, batch, key)
    assert np.abs(flat(stale.policy) - flat(step.policy)).max() > 1e-4


def test_critics_end_the_same_either_way_and_the_policy_does_not():
    """Within one epoch the order matters to the policy alone."""
    first, last = (epochs(run(critic_first=choice))[0].state.learner for choice in (True, False))
    np.testing.assert_array_equal(flat(first.critics), flat(last.critics))
    assert np.abs(flat(first.policy) - flat(last.policy)).max() > 1e-4


def test_critics_that_could_learn_an_epoch_by_heart_come_last():
    """Those with more parameters than it has samples, to the number."""
    (small, *_), (large, *_) = (epochs(run(hidden=hidden)) for hidden in ((8,), (128,)))
    critics = small.state.learner.critics
    size = flat(critics.layers).size // 2  # of the reward's; the cost's is as large
    fit = CriticFit(critic_first=True)
    assert fit.comes_first(critics, size) and not fit.comes_first(critics, size - 1)
    assert not CriticFit().comes_first(critics, size)
    assert flat(large.state.learner.critics.layers).size // 2 > SMALL["epoch_steps"]
    (last, *_) = epochs(run(hidden=(128,), critic_first=False))
    np.testing.assert_array_equal(flat(large.state.learner.policy), flat(last.state.learner.policy))


def test_a_norm_from_the_future_is_refused():
    with pytest.raises(ValueError, match=r"critic_stale_norm=True cannot be used"):
        CriticFit(critic_first=True, critic_stale_norm=True)
    assert make_run("c-trpo", "published").algorithm.critic.critic_stale_norm  # D7 as ever
