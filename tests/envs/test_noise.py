# SPDX-License-Identifier: Apache-2.0
"""The noise of actions: its law at every step, how long it lasts, and where it begins again."""

import itertools
import subprocess
import sys

import numpy as np
import pytest
from scipy import stats
from scipy.signal import lfilter

from holdfast.envs.acting import Actor
from holdfast.envs.noise import gumbel, persistence, slow_normal
from holdfast.envs.rollout import PATIENCE, Round, noise_of

TIME = 5.0
RHO = persistence(TIME)


def actor(time: float, sizes: tuple[int, ...] = ()) -> Actor:
    return Actor((), None if sizes else np.ones(2, np.float32), sizes, noise_time=time)


def law(samples: np.ndarray, cdf: str) -> float:
    """p of a Kolmogorov-Smirnov test; rows of a slow series are taken far apart."""
    return float(stats.kstest(samples.ravel(), cdf).pvalue)


def apart(series: np.ndarray) -> np.ndarray:
    return series[:: int(12 * TIME)]


def series(time: float, steps: int = 6_000, count: int = 20, seed: int = 0) -> np.ndarray:
    return slow_normal(np.random.default_rng(seed), (steps, count), time)


def correlation(noise: np.ndarray, lag: int) -> float:
    """Its error over 20 series of 6000 steps is below 0.01."""
    return float((noise[lag:] * noise[:-lag]).mean())


def test_every_step_is_standard_normal():
    noise = series(TIME)
    assert law(apart(noise), "norm") > 0.01
    assert noise.mean() == pytest.approx(0, abs=0.05)
    assert noise.var() == pytest.approx(1, abs=0.05)
    first = slow_normal(np.random.default_rng(3), (1, 5_000), TIME)  # no settling in
    assert law(first, "norm") > 0.01


def test_a_series_that_is_not_scaled_is_no_standard_normal_one():
    """The control: ε = ρ ε + w has the variance 1 / (1 − ρ²)."""
    rng, wrong = np.random.default_rng(0), np.zeros((6_000, 20))
    for t in range(1, len(wrong)):
        wrong[t] = RHO * wrong[t - 1] + rng.standard_normal(20)
    assert law(apart(wrong), "norm") < 1e-6
    assert wrong.var() == pytest.approx(1 / (1 - RHO**2), rel=0.1)


@pytest.mark.parametrize("lag", [1, 3, 10])
def test_steps_are_correlated_as_rho_to_the_lag(lag: int):
    assert correlation(series(TIME), lag) == pytest.approx(RHO**lag, abs=0.03)
    assert correlation(series(0.0), lag) == pytest.approx(0, abs=0.02)
    assert abs(correlation(series(TIME), lag) - persistence(2 * TIME) ** lag) > 0.05


def test_white_noise_is_the_generator_s_own():
    """Bits of runs with white noise do not depend on the new code."""
    drawn = actor(0.0).draw(np.random.default_rng(1), (7, 3))
    np.testing.assert_array_equal(
        drawn, np.random.default_rng(1).standard_normal((7, 3, 2), np.float32)
    )
    choices = actor(0.0, (3,)).draw(np.random.default_rng(1), (7, 3))
    exponential = np.random.default_rng(1).standard_exponential((7, 3, 3), np.float32)
    np.testing.assert_array_equal(choices, -np.log(exponential + np.float32(1e-30)))


def test_blocks_go_on_where_the_last_one_ended():
    one, rng = actor(TIME), np.random.default_rng(0)
    first, last = one.draw_on(rng, (4_000, 20), None)
    second, _ = one.draw_on(rng, (4_000, 20), last)
    np.testing.assert_array_equal(first[-1], last)
    joint = [
        one.draw_on(rng, (1, 4_000), start)[0][0] * start
        for start in [np.random.default_rng(5).standard_normal((4_000, 2), np.float32)]
    ]
    assert np.mean(joint) == pytest.approx(RHO, abs=0.04)
    apart_again, _ = one.draw_on(rng, (1, 4_000), None)
    assert abs(float((apart_again[0] * second[0, 0]).mean())) < 0.1


def test_an_episode_s_noise_depends_on_its_number_only():
    """Which batch plays an episode, and beside which others, changes nothing."""
    one = actor(TIME)
    take = lambda wanted, n: np.concatenate(
        [block for block in itertools.islice(noise_of(one, wanted, n), 3) if block is not None]
    )
    whole = take(Round(seed=4, first=0), 5)
    np.testing.assert_array_equal(whole[:, 3:], take(Round(seed=4, first=3), 2))
    assert (whole[:, 0] != whole[:, 1]).all()
    across = whole[PATIENCE] * whole[PATIENCE - 1]  # one block lasts into the next
    many = take(Round(seed=4), 400)
    assert float((many[PATIENCE] * many[PATIENCE - 1]).mean()) == pytest.approx(RHO, abs=0.1)
    assert across.shape == (5, 2)


def test_gumbel_numbers_by_the_copula():
    slow = gumbel(series(TIME))
    assert law(apart(slow), "gumbel_r") > 0.01
    assert law(apart(series(TIME)), "gumbel_r") < 1e-6  # the control: normal ones are none
    assert np.isfinite(gumbel(np.array([-12.0, 0.0, 5.0], np.float32))).all()


def test_choices_have_their_chances_and_stick():
    logits = np.array([[0.5, 0.0, -1.0]], np.float32)
    chance = np.exp(logits[0]) / np.exp(logits[0]).sum()
    stays = {}
    for time in (0.0, TIME):
        noise = actor(time, (3,)).draw(np.random.default_rng(2), (4_000, 20))
        chosen = (logits + noise).argmax(-1)
        share = np.bincount(chosen.ravel(), minlength=3) / chosen.size
        np.testing.assert_allclose(share, chance, atol=0.02)
        stays[time] = float((chosen[1:] == chosen[:-1]).mean())
    assert stays[0.0] == pytest.approx(float(chance @ chance), abs=0.01)
    assert stays[TIME] > stays[0.0] + 0.2


def test_a_stream_is_the_noise_of_a_batch_step_by_step():
    one = actor(TIME)
    steps = np.stack(list(itertools.islice(one.noise(3, 400), 30)))
    assert steps.shape == (30, 400, 2)
    pairs = np.corrcoef(steps[1:].ravel(), steps[:-1].ravel())[0, 1]
    assert float(pairs) == pytest.approx(RHO, abs=0.02)


@pytest.mark.parametrize("shape", [(300, 4, 2), (300,)])
@pytest.mark.parametrize("goes_on", [False, True])
def test_a_series_has_the_bits_of_scipy_s_filter(shape: tuple[int, ...], goes_on: bool):
    rho = np.float32(persistence(7.0))
    new = np.sqrt(1 - rho * rho)
    before = np.full(shape[1:], 0.3, np.float32) if goes_on else None
    fresh = np.random.default_rng(3).standard_normal(shape, np.float32)
    first = fresh[0] if before is None else rho * before + new * fresh[0]
    kept = np.asarray(rho * first)[None]
    rest = lfilter([new], [np.float32(1), -rho], fresh[1:], axis=0, zi=kept)[0]
    got = slow_normal(np.random.default_rng(3), shape, 7.0, before)
    assert got.dtype == np.float32
    np.testing.assert_array_equal(got, np.concatenate([np.asarray(first)[None], rest]))
    other = slow_normal(np.random.default_rng(3), shape, 7.001, before)  # the control
    assert not np.array_equal(got, other)


def test_a_start_imports_no_filters_of_scipy():
    """They take a second; the control is that they are there to import."""
    child = """
import sys
import holdfast.runs.training
print("scipy.signal" in sys.modules)
import scipy.signal
print("scipy.signal" in sys.modules)
"""
    told = subprocess.run([sys.executable, "-c", child], capture_output=True, text=True, check=True)
    assert told.stdout.split() == ["False", "True"]
