# SPDX-License-Identifier: Apache-2.0
"""The sums of episodes on the device are those of NumPy."""

import jax.numpy as jnp
import numpy as np
import pytest

from holdfast.core.device_episodes import ROWS, summarise_on_device
from holdfast.core.episodes import Episodes, summarise


def epochs(seed, count=3, steps=90, num_envs=5, constraints=2, chance=0.04, cut=30):
    """Reward, cost and ends of epochs in a row; an episode has at most `cut` steps."""
    rng, age = np.random.default_rng(seed), np.zeros(num_envs, int)
    for _ in range(count):
        done = rng.random((steps, num_envs)) < chance
        for t in range(steps):
            age += 1
            done[t] |= age >= cut
            age[done[t]] = 0
        reward = rng.standard_normal((steps, num_envs)).astype(np.float32)
        cost = rng.random((steps, num_envs, constraints)).astype(np.float32)
        yield reward, cost, done


def both(running, reward, cost, done, gamma=0.97, limit=None):
    arrays = map(jnp.asarray, (reward, cost, done))
    on_device = summarise_on_device(running, *arrays, gamma, limit)
    wide = (reward.astype(np.float64), cost.astype(np.float64), done)
    return summarise(running, *wide, gamma), on_device


def close(one, other):
    np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("chance", [0.0, 0.04, 0.9])
@pytest.mark.parametrize("limit", [None, 37])
def test_epochs_that_cut_episodes(chance, limit):
    episodes = Episodes.create(5, 2)
    for reward, cost, done in epochs(1, chance=chance, cut=37):
        host, device = both(episodes.running, reward, cost, done, limit=limit)
        assert chance < 0.9 or len(device.finished) > ROWS  # more than one transfer
        close(host.finished, device.finished)
        close(host.running, device.running)
        assert host.by_age is not None and device.by_age is not None
        for mine, theirs in zip(host.by_age, device.by_age, strict=True):
            close(mine, theirs)
        episodes = episodes.after(device)


def test_steps_before_the_epoch_count():
    first, second = epochs(1, count=2, cut=37)
    running = both(np.zeros((5, 6)), *first)[1].running
    known, forgotten = (both(start, *second)[1] for start in (running, np.zeros_like(running)))
    assert running[:, 1].any() and known.by_age is not None and forgotten.by_age is not None
    assert np.abs(known.by_age[0] - forgotten.by_age[0]).max() > 0.01
    assert np.abs(known.finished[0] - forgotten.finished[0]).max() > 0.01


def test_whole_episodes_need_no_estimate_by_age():
    reward, cost, done = next(epochs(2, chance=0.0, cut=30))
    host, device = both(np.zeros((5, 6)), reward, cost, done)
    assert host.by_age is None and device.by_age is None
    close(host.finished, device.finished)
    assert len(device.finished) == 15 and not device.running.any()


def test_an_environment_without_an_end_and_an_epoch_without_any():
    reward, cost, done = next(epochs(3))
    done[:, 2] = False
    host, device = both(np.zeros((5, 6)), reward, cost, done)
    assert host.by_age is None and device.by_age is None
    close(host.finished, device.finished)
    close(host.running, device.running)
    _, none = both(np.zeros((5, 6)), reward, cost, np.zeros_like(done))
    assert none.finished.shape == (0, 6) and (none.running[:, 1] == 90).all()
