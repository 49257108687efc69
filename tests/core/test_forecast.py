# SPDX-License-Identifier: Apache-2.0
"""Predicted against realised changes of the cost, by hand."""

import numpy as np
import pytest

from holdfast.core.episodes import Forecast


def run(costs, spents):
    """(realised, ratio) of every epoch."""
    forecast, told = Forecast.create(len(costs[0])), []
    for cost, spent in zip(np.array(costs), np.array(spents), strict=True):
        forecast, realised = forecast.after(cost, spent)
        told.append((realised, forecast.ratio))
    return told


def test_a_prediction_is_compared_with_the_next_epoch():
    """J = 10, 14, 13 after predictions of +2 and −1: realised +4 and −1."""
    first, second, third = run([[10.0], [14.0], [13.0]], [[2.0], [-1.0], [0.5]])
    assert np.isnan(first[0]).all() and np.isnan(first[1]).all()
    assert (second[0] == 4.0).all() and (second[1] == 2.0).all()
    assert (third[0] == -1.0).all()
    by_hand = (0.95 * 2.0 * 4.0 + -1.0 * -1.0) / (0.95 * 2.0**2 + (-1.0) ** 2)
    np.testing.assert_allclose(third[1], by_hand, rtol=1e-14)


def test_the_sum_comes_first_then_each_cost():
    _, (realised, ratio) = run([[1.0, 10.0], [2.0, 12.0]], [[0.5, 4.0], [0.0, 0.0]])
    np.testing.assert_allclose(realised, [3.0, 1.0, 2.0])
    np.testing.assert_allclose(ratio, [3.0 / 4.5, 2.0, 0.5])


def test_nothing_predicted_nothing_known():
    assert np.isnan(run([[1.0], [2.0]], [[0.0], [0.0]])[-1][1]).all()


@pytest.mark.parametrize("true", [0.3, 1.0, 4.0])
def test_the_ratio_finds_the_true_factor_in_noise(true):
    """Realised = true · predicted + noise: the slope is right, a mean of quotients is not."""
    rng = np.random.default_rng(0)
    spent = rng.normal(size=400)
    steps = true * spent + 0.2 * rng.normal(size=400)
    costs = np.concatenate([[0.0], np.cumsum(steps)[:-1]])
    found = np.array([ratio[1] for _, ratio in run(costs[:, None], spent[:, None])])
    assert np.abs(found[100:].mean() - true) < 0.03
    quotients = steps / spent
    assert np.abs(quotients.mean() - true) > 0.03  # what a plain average would have said
