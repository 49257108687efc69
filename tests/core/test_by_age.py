# SPDX-License-Identifier: Apache-2.0
"""The epoch's estimate of an episode's cost: no preference for short episodes, from epoch 1 on."""

import numpy as np
import pytest

from holdfast.core.episodes import Episodes, ages, by_age


def renewal_epochs(steps, limit, end, count, epochs, rng):
    """Ages and ends [T, count] of episodes that end with probability `end`, at `limit` at last."""
    age = np.zeros(count, np.int64)
    for _ in range(epochs):
        every, done = np.empty((steps, count), np.int64), np.empty((steps, count), np.bool_)
        for t in range(steps):
            every[t] = age
            done[t] = (rng.random(count) < end) | (age + 1 >= limit)
            age = np.where(done[t], 0, age + 1)
        yield every, done


def finished_mean(length, steps, cost):
    """The old rule: lengths [R, N, M] in turn; mean over those that end within `steps`."""
    ended = length.cumsum(-1) <= steps
    sums, counts = (length * ended).sum((1, 2)), ended.sum((1, 2))
    return cost * (sums[counts > 0] / counts[counts > 0]).mean()


def test_finished_episodes_flatter_long_ones():
    """Negative control: J = 31.6, and the mean over finished episodes calls it 29, 27.6, 11."""
    rng = np.random.default_rng(0)
    length = np.minimum(rng.geometric(0.001, (2000, 10, 60)), 1000)
    assert 0.05 * length.mean() == pytest.approx(31.6, abs=0.1)
    told = [finished_mean(length, steps, 0.05) for steps in (2000, 1000, 500)]
    assert told == pytest.approx([28.9, 27.6, 10.9], abs=0.3)


@pytest.mark.thorough
@pytest.mark.parametrize("steps", [200, 100])
def test_unbiased_in_the_first_epoch_and_later(steps):
    """The same law ten times as fast. Every epoch alone is right; finished episodes are not."""
    limit, end, num_envs, runs = 100, 0.01, 10, 500
    truth = 0.5 * (1 - (1 - end) ** limit) / end
    rng = np.random.default_rng(steps)
    known = [Episodes.create(num_envs, 1) for _ in range(runs)]
    epochs = renewal_epochs(steps, limit, end, num_envs * runs, 3, rng)
    for epoch, (age, done) in enumerate(epochs, start=1):
        cost = (rng.random(age.shape) < 0.5) * 1.0
        for r in range(runs):
            part = slice(r * num_envs, (r + 1) * num_envs)
            np.testing.assert_array_equal(ages(done[:, part], known[r].running[:, 1]), age[:, part])
            known[r] = known[r].advance(cost[:, part], cost[:, part, None], done[:, part], 0.9)
        found = np.array([k.raw for k in known])
        error = found.std(0) / np.sqrt(runs)
        discounted = 0.5 * (1 - (0.9 * (1 - end)) ** limit) / (1 - 0.9 * (1 - end))
        expected = [truth, truth / 0.5, truth, discounted]
        assert (np.abs(found.mean(0) - expected) < 3.5 * error).all()
        told = np.sqrt(np.mean([k.raw_error**2 for k in known], 0))
        np.testing.assert_allclose(told, found.std(0), rtol=0.12)
        if epoch == 1:
            window = np.array([k.window.mean(0)[2] for k in known])  # all that have finished
            assert window.mean() < truth - 8 * error[2]


def test_by_hand():
    """Ages 0, 1, 2 were seen 2, 2, 1 times; of age 0 both went on, of age 1 one of two."""
    values = np.array([[[1.0], [2.0]], [[4.0], [0.0]], [[8.0], [3.0]]])
    done = np.array([[False, True], [True, False], [False, False]])
    age = ages(done, np.array([1.0, 2.0]))
    assert age.tolist() == [[1, 2], [2, 0], [0, 1]]
    # V(2) = (2 + 4)/2 = 3 (all end), V(1) = (1 + 3)/2 + V(2) = 5, V(0) = (0 + 8)/2 + V(1) = 9
    # without environment 0: 3, V(2) = 2: 0 + 3 + 2 = 5; without 1: V(2) = 4: 8 + 1 + 4 = 13
    value, error = by_age(values, done, age)
    assert value == pytest.approx([9.0 - (2 - 1) * ((5.0 + 13.0) / 2 - 9.0)])
    # δ by piece, w = 1/2: (1 + 3 - 5) + (4 - 3) and 8 + 5 - 9; 2 - 3 and (0 + 5 - 9) + (3 + 3 - 5)
    pieces = np.array([0.0, 4.0, -1.0, -3.0]) / 2
    assert error == pytest.approx([np.sqrt((pieces**2).sum() * 4 / 3)])


def test_whole_episodes_keep_their_plain_mean():
    """To the last bit: what fixed-length tasks report does not change."""
    rng = np.random.default_rng(0)
    cost = rng.random((40, 5, 1))
    done = np.zeros((40, 5), np.bool_)
    done[9::10] = True
    episodes = Episodes.create(5, 1).advance(cost[..., 0], cost, done, 0.99)
    sums = [cost[10 * i : 10 * i + 10, n].sum() for i in range(4) for n in range(5)]
    rows = np.stack([sums] * 4, 1)  # four columns, as there: NumPy adds those row by row
    assert episodes.raw[2] == rows.mean(0)[0]
    assert episodes.raw_error[2] == rows.std(0, ddof=1)[0] / np.sqrt(20)
    values = np.concatenate([cost, np.ones_like(cost)], -1)
    value, error = by_age(values, done, ages(done, np.zeros(5)))
    np.testing.assert_allclose(value, episodes.raw[[2, 1]], rtol=1e-12)
    np.testing.assert_allclose(error, episodes.raw_error[[2, 1]], rtol=1e-12, atol=1e-12)
