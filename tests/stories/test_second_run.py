# SPDX-License-Identifier: Apache-2.0
"""A second run of the same shape in one process compiles nothing anew."""

from collections import Counter

import numpy as np
import pytest

from holdfast import make_env, make_run
from holdfast.algorithms import CTRPO
from holdfast.process import shared
from holdfast.train import epoch as one_epoch
from holdfast.train import train


@pytest.fixture
def traced(monkeypatch):
    """How often JAX has gone through each function: once for each time that it is compiled."""
    counts = Counter()

    def counting(name, function):
        def counted(*args, **named):
            counts[name] += 1
            return function(*args, **named)

        return counted

    for name in ("init", "improve"):
        monkeypatch.setattr(CTRPO, name, counting(name, getattr(CTRPO, name)))
    monkeypatch.setattr(one_epoch, "estimate", counting("estimate", one_epoch.estimate))
    return counts


def learn(seed=0, **settings):
    small = dict(num_envs=2, epoch_steps=100, hidden=(4,), cg_steps=2, critic_passes=1)
    run = make_run("c-trpo", env="probe/Speed-v0", steps=100, seed=seed, **small | settings)
    (epoch,) = train(run, make_env(run.env, run.num_envs))
    return epoch.state.learner.policy.log_std


def test_only_other_settings_are_compiled_again(traced):
    own = dict(beta=1.2345, gamma=0.98765)  # no other test has compiled these
    first = learn(**own)
    assert traced == {"init": 1, "improve": 1, "estimate": 1}
    second = learn(seed=1, **own)
    assert traced == {"init": 1, "improve": 1, "estimate": 1}
    assert not np.array_equal(first, second)  # compiled functions are shared, seeds are not
    np.testing.assert_array_equal(learn(**own), first)
    learn(**own | {"beta": 1.2346})
    assert traced == {"init": 2, "improve": 2, "estimate": 1}


def test_values_without_a_hash_are_made_each_time():
    calls = []
    made = shared(lambda values: calls.append(values) or len(calls))
    assert [made((1,)), made((1,)), made([1]), made([1]), made((2,))] == [1, 1, 2, 3, 4]
