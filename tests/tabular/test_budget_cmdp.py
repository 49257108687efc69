# SPDX-License-Identifier: Apache-2.0
"""Limits on single episodes against brute force, sampling, and the training code."""

import json
import math

import numpy as np
import pytest

from holdfast import exact
from holdfast.algorithms import CTRPO
from holdfast.cli import main
from holdfast.core.limits import chance, parse_limit, tail
from holdfast.tabular.budget_cmdp import (
    as_chance,
    best_within,
    episode_law,
    episode_mean,
    mean_limited,
    tail_of,
    unit_of,
    with_spent,
)
from holdfast.tabular.cmdp import FiniteCMDP
from holdfast.tabular.lp import InfeasibleLimits, interior_policy, optimum


def gamble(gamma=0.8):
    """One state; action 0 pays 0, action 1 pays 1 and costs 1, action 2 pays 2.2 and costs 3."""
    return FiniteCMDP(
        transition=np.ones((1, 3, 1)),
        reward=np.array([[0.0, 1.0, 2.2]]),
        cost=np.array([[[0.0, 1.0, 3.0]]]),
        cost_limit=np.array([np.inf]),
        initial=np.array([1.0]),
        gamma=gamma,
    )


def test_the_law_of_an_episode_is_geometric():
    """Always action 1: C counts the steps of an episode, P(C = n) = (1 − γ) γ^(n − 1)."""
    cmdp = gamble()
    amounts, law = episode_law(cmdp, 0, [[0.0, 1.0, 0.0]], 60)
    expected = 0.2 * 0.8 ** np.arange(59)
    np.testing.assert_allclose(law[1:60], expected, rtol=1e-9)
    assert law.sum() == pytest.approx(1.0) and law[0] == 0.0
    assert episode_mean(cmdp, 0, [[0.0, 1.0, 0.0]]) == pytest.approx(5.0)
    # CVaR of a geometric law where α = γ^n exactly: the worst are those longer than n steps
    n, share = 8, 0.8**8
    assert tail_of(amounts, law, 5.0, share) == pytest.approx(n + 5.0, rel=1e-6)
    assert as_chance(chance(8, 0.9), amounts, law) == pytest.approx(0.8**8)


def test_the_law_agrees_with_played_episodes():
    cmdp, rng = gamble(), np.random.default_rng(0)
    policy = np.array([[0.3, 0.5, 0.2]])
    amounts, law = episode_law(cmdp, 0, policy, 40)
    lengths = rng.geometric(0.2, 4_000)
    costs = np.array([rng.choice([0, 1, 3], n, p=policy[0]).sum() for n in lengths])
    seen = np.bincount(np.minimum(costs, 40), minlength=41) / len(costs)
    np.testing.assert_allclose(seen, law, atol=5 * math.sqrt(0.25 / 4_000))
    assert amounts[1] == unit_of(cmdp, 0) == 1.0


@pytest.mark.parametrize("limit", [tail(4, 0.2), chance(3, 0.9)])
def test_the_optimum_keeps_its_limit_and_beats_what_a_mean_allows(limit):
    cmdp = gamble()
    found = best_within(cmdp, 0, limit)
    assert found.best.gap == pytest.approx(0.0, abs=1e-8)
    amounts, law = episode_law(cmdp, 0, found.policy, 150)
    mean = float(law @ amounts)
    value = tail_of(amounts, law, mean, limit.share)
    value = as_chance(limit, amounts, law) if limit.kind == "chance" else value
    assert value == pytest.approx(found.value, abs=1e-6) and value <= limit.bound + 1e-9
    assert value == pytest.approx(limit.bound, abs=1e-6) and found.price > 0  # it binds
    # The negative control: the optimum under the same number as a mean breaks the limit.
    free = optimum(mean_limited(cmdp, 0, limit.amount))
    amounts, law = episode_law(cmdp, 0, free.policy, 200)
    broken = tail_of(amounts, law, float(law @ amounts), limit.share)
    broken = as_chance(limit, amounts, law) if limit.kind == "chance" else broken
    assert broken > limit.bound * 1.2
    if limit.kind == "tail":  # which implies the mean; a chance allows any cost in its share
        assert free.reward_return > found.best.reward_return


def test_the_price_is_the_slope_of_the_optimum():
    cmdp, step = gamble(), 1e-4
    for low, high in ((tail(4, 0.2), tail(4 + step, 0.2)), (chance(3, 0.9), chance(3, 0.9 - step))):
        one, two = best_within(cmdp, 0, low), best_within(cmdp, 0, high)
        slope = (two.best.reward_return - one.best.reward_return) / step
        assert slope == pytest.approx(one.price, rel=0.05)


def test_every_level_is_on_the_safe_side_and_the_best_is_on_the_lattice():
    """ν between two multiples of the unit gains nothing."""
    cmdp, limit = gamble(), tail(4, 0.2)
    best = best_within(cmdp, 0, limit).best.reward_return
    for level in (0.5, 1.5, 2.25, 3.5):
        try:
            other = optimum(with_spent(cmdp, 0, limit, level)).reward_return
        except InfeasibleLimits:
            continue
        assert other <= best + 1e-9


@pytest.mark.parametrize("limit", [tail(4, 0.2), chance(3, 0.9)])
def test_the_training_code_finds_the_optimum_on_enumerated_batches(limit):
    cmdp = with_spent(gamble(), 0, limit, 2.0 if limit.kind == "tail" else 0.0)
    best = optimum(cmdp).reward_return
    algorithm = exact.without_damping(CTRPO(margin_confidence=0.0, landing=0.0), radius=0.1)
    path = exact.exact_run(algorithm, cmdp, interior_policy(cmdp), 100)
    first, reward = path.reward_return[0], path.reward_return[-1]
    assert (path.cost_return[:, 0] <= cmdp.cost_limit[0] + 1e-9).all()  # never broken
    assert first + 0.95 * (best - first) < reward <= best + 1e-9


def test_bad_input_is_one_sentence():
    odd = gamble()
    negative = FiniteCMDP(
        odd.transition, odd.reward, odd.cost - 2, odd.cost_limit, odd.initial, odd.gamma
    )
    with pytest.raises(ValueError, match="not negative"):
        best_within(negative, 0, tail(4, 0.2))
    irrational = FiniteCMDP(
        odd.transition, odd.reward, odd.cost * math.pi, odd.cost_limit, odd.initial, odd.gamma
    )
    with pytest.raises(ValueError, match="not multiples"):
        best_within(irrational, 0, tail(4, 0.2))
    with pytest.raises(ValueError, match="not a limit on single episodes"):
        best_within(odd, 0, parse_limit(4))


def test_solve_takes_the_same_words(tmp_path, capsys):
    file, cmdp = tmp_path / "gamble.json", gamble()
    names = ("transition", "reward", "cost", "initial")
    data = {name: getattr(cmdp, name).tolist() for name in names}
    file.write_text(json.dumps(data | {"cost_limit": [1.0], "gamma": 0.8}))
    main(["solve", str(file), "--limit", "c=4 worst 20%", "--json"])
    said = json.loads(capsys.readouterr().out)
    found = best_within(cmdp, 0, tail(4, 0.2))
    assert said["reward_return"] == pytest.approx(found.best.reward_return)
    row = said["constraints"][0]
    assert row["limited"] == pytest.approx(4.0) and row["shadow_price"] == pytest.approx(
        found.price
    )
    main(["solve", str(file), "--limit", "3 in 90%"])
    assert "chance of an episode above 3" in capsys.readouterr().out
    with pytest.raises(SystemExit) as stopped:
        main(["solve", str(file), "--limit", "d=4 worst 20%"])
    assert stopped.value.code == 2 and "no constraint is called 'd'" in capsys.readouterr().err
