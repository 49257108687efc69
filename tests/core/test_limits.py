# SPDX-License-Identifier: Apache-2.0
"""Kinds of limits as values, their additive costs, and verdicts on them."""

import numpy as np
import pytest

from full import first_is_quick, repeats
from holdfast import make_run
from holdfast.core.limits import Limit, chance, parse_limit, tail
from holdfast.core.tails import Tally, bounded, derived, quantile, spent_before, tail_mean
from holdfast.judge.verdict import verdict
from holdfast.run import from_json, to_json

TEXTS = ["25", "25 worst 5%", "2.5 in 95%", "25 budget", "25 budget penalty 0.5", "25 ends"]


@pytest.mark.parametrize("text", TEXTS)
def test_a_text_and_its_value_are_the_same(text):
    limit = parse_limit(text)
    assert str(limit) == text and parse_limit(limit.plain) == limit == parse_limit(f" {text}  ")


def test_values_of_python():
    assert parse_limit("25 worst 5%") == tail(25, 0.05) and parse_limit(25) == Limit(25.0)
    assert parse_limit("25 in 95%") == chance(25, 0.95) and chance(25, 0.95).bound == 0.05
    assert [parse_limit(t).episodes for t in ("25", "25 worst 5%", "25 in 90%")] == [1, 400, 200]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("25 worst 0%", "between 0% and 100%"),
        ("25 worst 100%", "between 0% and 100%"),
        ("25 in 100%", "between 0% and 100%"),
        ("25 in 130%", "between 0% and 100%"),
        ("0 worst 5%", "needs a positive number"),
        ("0 budget", "needs a positive number"),
        ("-3 in 90%", "not negative"),
        ("nan worst 5%", "not negative"),
        ("25 often", "not of a known kind"),
        ("25 worst 5", "not of a known kind"),
        ("25 worst", "not of a known kind"),
        ("", "not of a known kind"),
        (None, "must be a number or one of"),
        (True, "must be a number or one of"),
        ("25 budget penalty -1", "penalty"),
    ],
)
def test_bad_limits_are_one_sentence(given, said):
    with pytest.raises(ValueError, match=said) as raised:
        parse_limit(given, "hazards")
    assert str(raised.value).startswith("the limit hazards=") and "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (dict(algorithm="trpo", limits={"cost": "25 worst 5%"}), "trpo keeps none"),
        (dict(algorithm="c-trpo", limits={"cost": "25 budget"}), "changes the reward"),
        (dict(algorithm="cpo", limits={"cost": "25 ends"}), "changes the reward"),
        (
            dict(limits={"cost": "25 in 95%"}, cost_criterion="discounted", cost_scale="discount"),
            "plain sum",
        ),
        (dict(limits={"cost": "25 in 95%"}, cost_estimate="window"), "estimate of its own"),
        (dict(limits={"cost": "25 in 95%"}, encoder="cnn"), "image has no place"),
        (dict(limits={"cost": "25 sometimes"}), "not of a known kind"),
        (dict(limits={"cost": [25]}), "must be a number or one of"),
    ],
)
def test_runs_refuse_kinds_that_they_cannot_keep(settings, said):
    with pytest.raises(ValueError, match=said):
        make_run(settings.pop("algorithm", "c-trpo"), **settings)


def test_run_json_keeps_the_kind():
    given = {"a": "25  worst  5%", "b": chance(3, 0.9), "c": 7, "d": Limit(2.0)}
    run = make_run("c-trpo", limits=given)
    assert run.limits == {"a": "25 worst 5%", "b": "3 in 90%", "c": 7.0, "d": 2.0}
    assert from_json(to_json(run)) == run and run.kinds["a"] == tail(25, 0.05)


def episodes(rng, steps=200, envs=3, lasts=10):
    cost = rng.integers(0, 3, (steps, envs, 1)).astype(float)
    done = np.zeros((steps, envs), bool)
    done[lasts - 1 :: lasts] = True
    return cost, done


@pytest.mark.parametrize("limit", [tail(12, 0.25), chance(12, 0.9), Limit(12.0)])
def test_the_additive_costs_of_an_episode_sum_to_what_is_limited(limit):
    cost, done = episodes(np.random.default_rng(0))
    spent = spent_before(cost, done, np.zeros((3, 1)))
    total = (spent + cost)[done][:, 0]
    made = derived(cost, spent, [limit], [9.5])
    sums = (spent_before(made, done, np.zeros((3, 1))) + made)[done][:, 0]
    wanted = {"tail": np.maximum(total - 9.5, 0) / 0.25, "chance": total > 12, "mean": total}
    np.testing.assert_allclose(sums, wanted[limit.kind])
    np.testing.assert_allclose(total, cost.reshape(20, 10, 3).sum(1).ravel())


@pytest.mark.parametrize("share", [0.05, 0.25, 0.3, 0.5])
def test_the_tail_of_a_sample_is_the_mean_of_its_worst(share):
    costs = np.random.default_rng(1).gamma(2.0, 3.0, 100)
    worst = np.sort(costs)[-round(100 * share) :]
    assert tail_mean(costs, share) == pytest.approx(worst.mean())
    level = quantile(costs, share)
    grid = [nu + np.maximum(costs - nu, 0).mean() / share for nu in np.linspace(0, 30, 301)]
    assert min(grid) >= tail_mean(costs, share) - 1e-12 and (costs > level).mean() <= share


def of_totals(tally: Tally, totals: np.ndarray) -> Tally:
    """The tally after an epoch of episodes of one step with these costs."""
    cost, done = totals[None, :, None], np.ones((1, len(totals)), bool)
    return tally.advance(cost, done, np.zeros((len(totals), 1)), np.zeros(len(totals)))[0]


def test_an_estimate_is_pooled_over_as_many_epochs_as_it_needs():
    """Epochs of 12 episodes with a mean of 10, half of which cost more than 12 or none does."""
    limit = chance(12, 0.8)  # 100 episodes tell it
    tally, wide = Tally.create([limit]), [True] * 5 + [False, True, False, False] * 2 + [True]
    for spread in (5.0 if each else 1.0 for each in wide):
        tally = of_totals(tally, np.repeat([10 - spread, 10 + spread], 6))
    value, error, own = tally.found[:, 0]
    share = 0.5 * np.mean(wide[-9:])  # 9 epochs are the first to hold 100
    assert value == pytest.approx(share) != pytest.approx(0.5 * np.mean(wide[-10:])) and own == 0.5
    assert error == pytest.approx(np.sqrt(share * (1 - share) / 108))
    alone = of_totals(Tally.create([chance(12, 0.1)]), np.repeat([5.0, 15.0], 12))
    assert alone.found[0, 0] == 0.5  # the control: one is enough


CHANGING = {
    "level": lambda rng, epoch, n: np.maximum(rng.normal(20 + 8 * np.sin(epoch / 4), 5, n), 0),
    "events": lambda rng, epoch, n: 30.0 * (rng.random(n) < 0.3 + 0.28 * np.sin(epoch / 6)),
    "constant": lambda rng, epoch, n: rng.gamma(0.8, 22.0, n),
}


def errors_of(law, limit, epochs=200):
    """Root mean square error of the estimate, of plain pooling and of an epoch alone; 20 episodes
    an epoch."""
    rng, tally, seen = np.random.default_rng(4), Tally.create([limit]), []
    found: list[list[float]] = []
    for epoch in range(epochs):
        seen.append(CHANGING[law](rng, epoch, 20))
        tally = of_totals(tally, seen[-1])
        if epoch >= 10:
            truth = bounded(CHANGING[law](rng, epoch, 4000), limit)
            plain = bounded(np.concatenate(seen[-10:]), limit)
            found.append([tally.found[0, 0] - truth, plain - truth, tally.found[2, 0] - truth])
    return np.sqrt(np.mean(np.square(found), 0))


@pytest.mark.parametrize(("law", "limit"), [("level", tail(25, 0.05)), ("level", chance(25, 0.9))])
def test_an_estimate_follows_a_cost_that_changes(law, limit):
    """Plain pooling, the control, lags behind."""
    own, plain, _ = errors_of(law, limit)
    assert own < 0.4 * plain


def test_an_estimate_follows_events_that_become_frequent():
    """No shape is assumed: costs of 0 or 30 stay so."""
    own, plain, _ = errors_of("events", chance(25, 0.9))
    assert own < 0.8 * plain


@pytest.mark.parametrize("limit", [tail(25, 0.05), chance(25, 0.9)])
def test_a_constant_cost_is_pooled(limit):
    own, plain, alone = errors_of("constant", limit)
    assert own < 4 / 3 * plain < 0.6 * alone  # an epoch alone is the control


def test_epochs_of_one_episode_are_pooled():
    """One episode does not tell how far its cost is from the mean; two tell the control."""
    single, pairs = Tally.create([chance(12, 0.8)]), Tally.create([chance(12, 0.8)])
    for cost in (20.0, 1.0, 20.0, 1.0):
        single = of_totals(single, np.array([cost]))
        pairs = of_totals(pairs, np.array([cost, cost]))
    assert single.found[0, 0] == 0.5 and pairs.found[0, 0] == 0.0


def test_an_epoch_without_a_finished_episode_changes_no_estimate():
    tally = of_totals(Tally.create([chance(12, 0.9)]), np.array([3.0, 30.0]))
    same, made = tally.advance(
        np.ones((4, 2, 1)), np.zeros((4, 2), bool), np.full((2, 1), 11.0), np.ones(2)
    )
    assert same is tally and made.sum() == 2.0  # both episodes pass 12


def test_means_are_left_alone():
    tally = Tally.create([Limit(25.0)])
    mean = np.array([3.0])
    assert not tally.beyond and tally.override(mean, mean)[0] is mean and tally.recent.size == 0


def test_a_chance_never_seen_is_known_up_to_one_in_n():
    cost, done = np.zeros((40, 3, 1)), episodes(np.random.default_rng(0), 40)[1]
    tally, _ = Tally.create([chance(12, 0.9)]).advance(cost, done, np.zeros((3, 1)), np.zeros(3))
    assert tally.found[0, 0] == 0.0 and tally.found[1, 0] == pytest.approx(1 / 12)


def test_the_estimated_tail_is_that_of_the_law():
    """Cut episodes included: epochs of 25 steps cut episodes of 10."""
    rng, limit = np.random.default_rng(3), tail(30, 0.2)
    tally = Tally.create([limit])
    start, before, values = np.zeros((8, 1)), np.zeros(8), []
    for _ in range(300):
        cost = rng.integers(0, 3, (25, 8, 1)).astype(float)
        time = before[0] + np.arange(25) + 1
        done = np.repeat((time % 10 == 0)[:, None], 8, 1)
        tally, _ = tally.advance(cost, done, start, before)
        spent = spent_before(cost, done, start)
        start = np.where(done[-1][:, None], 0.0, spent[-1] + cost[-1])
        before = np.full(8, time[-1] % 10)
        values.append(tally.found[0, 0])
    truth = tail_mean(rng.integers(0, 3, (200_000, 10)).sum(1).astype(float), 0.2)
    spread = np.std(values[10:]) / np.sqrt(290)
    assert np.mean(values[10:]) == pytest.approx(truth, abs=4 * spread + 0.05)
    assert truth > 13  # a mean of 10 would not pass


def test_clean_episodes_prove_a_chance():
    answers = {n: verdict(np.zeros(n), "25 in 95%").safe for n in (58, 69, 70)}
    assert answers == {58: "undecided", 69: "undecided", 70: "yes"}  # no method needs under 59
    assert verdict(np.full(20, 26.0), "25 in 95%").safe == "no"
    assert verdict(np.full(20, 25.0), "25 in 95%").value == (0.0,)


def test_a_tail_needs_a_bound_and_more_episodes_than_a_mean():
    costs = np.zeros(400)
    assert verdict(costs, 25.0, 100.0).safe == "yes"
    assert verdict(costs, "25 worst 5%").safe == "undecided"
    few, nearly, many = (verdict(np.zeros(n), "25 worst 5%", 100.0) for n in (100, 359, 360))
    assert (few.safe, nearly.safe, many.safe) == ("undecided", "undecided", "yes")
    assert 150 < few.more < 300 and "worst 5 % of episodes" in str(many)
    assert verdict(np.full(50, 30.0), "25 worst 5%", 100.0).safe == "no"


def test_the_mean_of_a_policy_may_hold_where_its_tail_does_not():
    costs = np.tile([0.0] * 9 + [100.0], 300)
    assert verdict(costs, 25.0, 100.0).safe == "yes"
    assert verdict(costs, "25 worst 10%", 100.0).safe == "no"
    assert verdict(costs, "25 in 95%", 100.0).safe == "no"


LAWS = {
    "rare disaster": lambda rng, n: np.where(rng.random(n) < 0.02, 90.0, 1.0),
    "two points": lambda rng, n: np.where(rng.random(n) < 0.5, 20.0, 0.0),
    "gamma": lambda rng, n: np.minimum(rng.gamma(2.0, 4.0, n), 100.0),
    "uniform": lambda rng, n: rng.uniform(0, 30, n),
    "constant": lambda rng, n: np.full(n, 12.0),
    "rare and huge": lambda rng, n: np.where(rng.random(n) < 0.005, 100.0, 0.0),
    "truncated Pareto": lambda rng, n: np.minimum(4.0 * rng.random(n) ** (-1 / 1.2), 100.0),
    "beta near the limit": lambda rng, n: 22.0 * rng.beta(8.0, 8.0, n),
    "mostly zero, else uniform": lambda rng, n: (rng.random(n) < 0.15) * rng.uniform(0, 60, n),
}
NO_CONTROL = ("constant", "two points")
"""Laws whose tail a sample hardly misses from below."""


@pytest.mark.repeats
@pytest.mark.parametrize("law", first_is_quick(LAWS))
@pytest.mark.parametrize("kind", ["tail", "chance"])
def test_bounds_cover_the_truth_at_any_stopping_time(law, kind):
    """The bounds miss the truth in at most 5 % of the trials, what was measured in many more.

    The games remember their best moment, so one look at the end is as good as one at each episode.
    """
    rng, trials, n = np.random.default_rng(5), repeats(40, 2_000), 120
    whole = LAWS[law](rng, 200_000)
    truth = tail_mean(whole, 0.1) if kind == "tail" else float((whole > 11.0).mean())
    claim = tail(truth, 0.1) if kind == "tail" else chance(11.0, 0.9)
    found = [verdict(LAWS[law](rng, n), claim, 100.0) for _ in range(trials)]
    below = np.mean([v.proved.upper[0] < truth - 1e-2 for v in found])
    above = np.mean([v.proved.lower[0] > truth + 1e-2 for v in found])
    most = 0.05 + 2.5 * np.sqrt(0.05 * 0.95 / trials)
    assert below <= most and above <= most
    if law not in NO_CONTROL and (kind == "tail" or 0.05 < truth < 0.95):
        assert np.mean([v.value[0] < truth for v in found]) > most  # the control
