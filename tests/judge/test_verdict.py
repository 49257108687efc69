# SPDX-License-Identifier: Apache-2.0
"""Verdicts from episodes: what is proved holds for every law; what is indicated says so."""

import math

import numpy as np
import pytest
from scipy.stats import binom, norm, t

from holdfast.judge import betting
from holdfast.judge.seen_bounds import binomial_interval, seen_lower_bound, seen_upper_bound
from holdfast.judge.verdict import verdict

BOUND, REPEATS = 1000.0, 2_000
LAWS = {
    "exponential": lambda rng, shape: rng.exponential(25.0, shape),
    "lognormal": lambda rng, shape: rng.lognormal(2.0, 1.5, shape),
    "500 in 5 %": lambda rng, shape: 500.0 * (rng.random(shape) < 0.05),
    "800 in 2 %, else 10": lambda rng, shape: np.where(rng.random(shape) < 0.02, 800.0, 10.0),
}
"""Clipped to [0, B], which moves the mean of the lognormal by 0.6 % and leaves the others."""
MEANS = {
    "exponential": 25.0 * (1 - math.exp(-40.0)),
    "lognormal": math.exp(2 + 1.5**2 / 2) * norm.cdf((math.log(BOUND) - 2 - 1.5**2) / 1.5)
    + BOUND * norm.sf((math.log(BOUND) - 2) / 1.5),
    "500 in 5 %": 25.0,
    "800 in 2 %, else 10": 25.8,
}
ALLOWED = binom.ppf(1 - 1e-4, REPEATS, 0.05) / REPEATS
"""Share of false answers that a true 5 % exceeds by chance once in 10 000 tests: 6.9 %."""


def draws(law, n):
    rng = np.random.default_rng(11)
    return np.minimum(LAWS[law](rng, (REPEATS, n)), BOUND)


def test_the_means_of_the_laws():
    rng = np.random.default_rng(3)
    for name, law in LAWS.items():
        x = np.minimum(law(rng, 2_000_000), BOUND)
        assert MEANS[name] == pytest.approx(x.mean(), abs=5 * x.std() / math.sqrt(x.size)), name


@pytest.mark.parametrize("law", LAWS)
def test_an_unsafe_policy_is_proved_safe_in_five_percent_at_most(law):
    """The limit lies just below the true mean; one looks after every episode up to 500."""
    costs, limit = draws(law, 500), 0.999 * MEANS[law]
    capital = betting.log_capital(betting.below_gain(costs, limit, BOUND))
    proved = np.maximum.accumulate(capital, axis=1) >= math.log(20)
    for n in (10, 20, 50, 100, 500):
        assert proved[:, n - 1].mean() <= ALLOWED, n
        at_n = [betting.upper_bound(x[:n], BOUND) <= limit for x in costs[:6]]
        np.testing.assert_array_equal(at_n, proved[:6, n - 1])


@pytest.mark.parametrize("law", LAWS)
def test_a_safe_policy_is_proved_unsafe_in_five_percent_at_most(law):
    costs, limit = draws(law, 500), 1.001 * MEANS[law]
    capital = betting.log_capital(betting.above_gain(costs, limit))
    assert (capital.max(axis=1) >= math.log(20)).mean() <= ALLOWED
    low = [betting.lower_bound(x) > limit for x in costs[:20]]
    np.testing.assert_array_equal(low, capital[:20].max(axis=1) >= math.log(20))


@pytest.mark.parametrize(("law", "least"), [("500 in 5 %", 0.3), ("800 in 2 %, else 10", 0.6)])
def test_the_same_check_fails_for_the_bound_that_trusts_the_tail(law, least):
    """Negative control: at 20 episodes it calls the unsafe policy safe in 36 % and 65 %."""
    limit = 0.999 * MEANS[law]
    # What was given before: without spread, the cost itself was the bound.
    before = lambda x: x[0] if np.ptp(x) == 0 else seen_upper_bound(x)
    false = np.mean([before(x) <= limit for x in draws(law, 20)])
    assert false > least > ALLOWED


def test_staking_more_than_can_be_lost_fails_the_check():
    """Negative control: the bound B is what makes it a proof. Costs of 500 in [0, 100] are not."""
    costs, limit = draws("500 in 5 %", 500), 0.999 * MEANS["500 in 5 %"]
    gain = np.maximum(betting.below_gain(costs, limit, 100.0), -1 + 1e-12)
    assert (betting.log_capital(gain).max(axis=1) >= math.log(20)).mean() > 0.4


def test_bounds_in_closed_form():
    """Zero costs: the capital at m is Σ w (1 + c·m/(B−m))ⁿ, of which full stakes are most."""
    for n in (10, 100, 1000):
        m = betting.upper_bound(np.zeros(n), BOUND)
        capital = (betting.WEIGHTS * (1 + betting.STAKES * m / (BOUND - m)) ** n).sum()
        assert capital == pytest.approx(20.0)
        best = BOUND * (1 - 0.05 ** (1 / n))  # no bound that holds for all laws can be lower
        assert best < m < 1.35 * best
    assert betting.lower_bound(np.zeros(10)) == 0.0
    assert betting.upper_bound(np.full(30, BOUND), BOUND) == BOUND
    assert betting.WEIGHTS.sum() == pytest.approx(1.0)


def test_ten_cheap_episodes_prove_nothing():
    answer = verdict(np.zeros(10), 25.0, BOUND)
    assert (answer.safe, answer.indicated) == ("undecided", "undecided")
    assert answer.proved.upper[0] > 250 and answer.seen.upper == (math.inf,)
    assert "all episodes cost the same, so no tail was observed." in str(answer)
    assert "about 111 more should decide" in str(answer)
    assert verdict(np.zeros(121), 25.0, BOUND).safe == "undecided"
    assert verdict(np.zeros(150), 25.0, BOUND).safe == "yes"


def test_what_was_proved_stays_proved():
    """Bounds only close: a later look never takes an answer back."""
    costs = np.concatenate([np.zeros(200), np.full(50, 100.0)])
    upper = [betting.upper_bound(costs[:n], BOUND) for n in range(1, 251, 10)]
    assert (np.diff(upper) <= 1e-9).all()


def test_the_expected_rest_is_about_right():
    """(log 1/α − log capital)/growth after a first look, against what it then takes; medians."""
    rng = np.random.default_rng(0)
    for mean, look in ((5.0, 50), (15.0, 100), (35.0, 20)):
        costs = np.minimum(rng.exponential(mean, (200, 3_000)), BOUND)
        below, above = betting.below_gain(costs, 25.0, BOUND), betting.above_gain(costs, 25.0)
        gain = below if mean < 25 else above
        taken = np.median(np.argmax(betting.log_capital(gain) >= math.log(20), axis=1) + 1)
        guess = np.median([look + betting.episodes_left(g[:look]) for g in gain])
        assert look < taken and 0.5 < guess / taken < 2.0, (mean, guess, taken)


def test_upper_bound_is_students_for_symmetric_costs():
    costs = np.array([8.0, 10.0, 12.0, 9.0, 11.0])
    expected = 10.0 + costs.std(ddof=1) * t.ppf(0.95, 4) / math.sqrt(5)
    assert seen_upper_bound(costs) == pytest.approx(expected)
    assert seen_lower_bound(costs) == pytest.approx(20.0 - expected)


def test_skewed_costs_widen_the_upper_bound():
    costs = np.array([0.0] * 18 + [40.0, 60.0])
    student = costs.mean() + costs.std(ddof=1) * t.ppf(0.95, 19) / math.sqrt(20)
    assert seen_upper_bound(costs) > student + 1.0


def test_one_episode_or_no_spread_shows_no_tail():
    for costs in ([3.0], [3.0, 3.0, 3.0], [0.0] * 10):
        assert seen_upper_bound(costs) == math.inf and seen_lower_bound(costs) == -math.inf


@pytest.mark.parametrize(("successes", "trials"), [(0, 10), (3, 20), (10, 10), (1, 1)])
def test_binomial_interval_inverts_the_exact_tests(successes: int, trials: int):
    interval = binomial_interval(successes, trials)
    if successes:
        assert binom.sf(successes - 1, trials, interval.low) == pytest.approx(0.025)
    else:
        assert interval.low == 0.0
    if successes < trials:
        assert binom.cdf(successes, trials, interval.high) == pytest.approx(0.025)
    else:
        assert interval.high == 1.0


def test_binomial_interval_refuses_impossible_counts():
    with pytest.raises(ValueError, match="not a valid count"):
        binomial_interval(3, 2)


def test_verdicts():
    costs = np.random.default_rng(0).normal(20.0, 4.0, 1_000)
    answer = verdict(costs, 25.0, BOUND)
    assert (answer.safe, answer.indicated, answer.more) == ("yes", "yes", 0.0)
    assert answer.proved.lower[0] < 20.0 < answer.proved.upper[0] <= 25.0
    assert answer.seen.upper[0] < answer.proved.upper[0], "a proof needs more"
    assert str(answer).startswith("Safe, proved at 95%: yes; the mean cost is below 2")
    assert verdict(costs, 15.0, BOUND).safe == "no"
    few = verdict(costs[:100], 25.0, BOUND)
    assert (few.safe, few.indicated) == ("undecided", "yes") and 300 < few.more < 1_000
    assert verdict(costs[:5], 25.0, BOUND).indicated == "undecided"
    assert answer.episodes == 1_000 and answer.violating.value == np.mean(costs > 25.0)
    assert verdict(costs, 1000.0, BOUND).safe == "yes", "a limit that cannot be broken"
    assert verdict(np.ones(5), 0.0).safe == "no" and verdict(np.zeros(99), 0.0, 5.0).safe != "yes"


def test_without_a_bound_only_unsafe_is_provable():
    costs = np.random.default_rng(0).normal(20.0, 4.0, 1_000)
    answer = verdict(costs, 25.0)
    assert (answer.safe, answer.indicated, answer.more) == ("undecided", "yes", math.inf)
    assert "--cost-bound" in str(answer)
    assert verdict(costs, 15.0).safe == "no"


@pytest.mark.parametrize("costs", [[3.0, 1001.0], [3.0, -1.0]])
def test_a_bound_that_is_none_is_refused(costs):
    with pytest.raises(ValueError, match=r"outside \[0, 1000\].*--cost-bound"):
        verdict(costs, 25.0, BOUND)
    with pytest.raises(ValueError, match="finite and positive"):
        verdict(costs, 25.0, math.inf)


def test_every_constraint_must_hold():
    rng = np.random.default_rng(1)
    costs = np.stack([rng.normal(20.0, 2.0, 1_000), rng.normal(5.0, 1.0, 1_000)], axis=1)
    assert verdict(costs, [25.0, 8.0], [1000.0, 50.0]).safe == "yes"
    assert verdict(costs, [25.0, 3.0], [1000.0, 50.0]).safe == "no"
    assert verdict(costs, [25.0, costs[:, 1].mean()], 1000.0).safe == "undecided"
    with pytest.raises(ValueError, match="one column per limit"):
        verdict(costs, 25.0)


@pytest.mark.parametrize("level", [0.0, 0.4, 1.0])
def test_senseless_levels_are_refused(level: float):
    with pytest.raises(ValueError, match="level"):
        verdict([1.0, 2.0], 5.0, level=level)


@pytest.mark.parametrize("costs", [[], [float("nan"), 1.0]])
def test_missing_costs_are_refused(costs: list[float]):
    with pytest.raises(ValueError, match="finite"):
        seen_upper_bound(costs)


def test_a_sentence_names_the_constraint_that_it_speaks_of():
    costs = np.stack([np.zeros(200), np.full(200, 20.0)], 1)
    for bounds in (None, [1000.0, 1000.0]):
        said = str(verdict(costs, [25.0, 25.0], bounds, names=("heat", "noise")))
        assert "mean cost of noise" in said and "heat" not in said
    assert "mean cost of" not in str(verdict(costs[:, 0], 25.0, BOUND))
