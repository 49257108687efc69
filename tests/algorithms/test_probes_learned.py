# SPDX-License-Identifier: Apache-2.0
"""Learning on probes whose best safe return is proved: safe and good, where TRPO is not safe."""

import functools

import numpy as np
import pytest
from scipy.optimize import linprog

from holdfast import Agent
from holdfast.core.limits import parse_limit
from holdfast.envs.probe import PROBES, SHORTCUT

pytestmark = pytest.mark.usefixtures("optimised")


@functools.cache
def trained(env, algorithm, seed=0, steps=100_000):
    """(evaluation of 1000 fresh episodes, rows of training)."""
    limits = PROBES[env].cost_limits
    agent = Agent(algorithm, seed=seed, limits=limits, epoch_steps=2_000)
    agent.learn(env, total_steps=steps, progress=False)
    return agent.evaluate(episodes=1000), agent.metrics


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.full)])
def test_c_trpo_takes_the_safe_way_at_the_unsafe_shortcut(seed):
    """Within 5 % of the best safe return, cost under the limit, verdict yes."""
    result, _ = trained("probe/Shortcut-v0", "c-trpo", seed)
    best = PROBES["probe/Shortcut-v0"].optimal_safe_return
    assert result.returns.mean() >= 0.95 * best
    assert result.verdict.safe == "yes"


def test_trpo_takes_the_shortcut_and_breaks_the_limit():
    result, _ = trained("probe/Shortcut-v0", "trpo")
    assert result.returns.mean() > PROBES["probe/Shortcut-v0"].optimal_safe_return
    assert result.verdict.safe == "no"


@pytest.mark.parametrize("steps", [200_000, pytest.param(100_000, marks=pytest.mark.full)])
def test_two_constraints_hold_both_limits(steps):
    """The longer run is that of the test below."""
    result, rows = trained("probe/Machines-v0", "c-trpo", steps=steps)
    assert result.verdict.safe == "yes"
    assert (result.costs.mean(0) <= list(PROBES["probe/Machines-v0"].cost_limits.values())).all()
    best = PROBES["probe/Machines-v0"].optimal_safe_return
    assert 0.8 * best < result.returns.mean() <= best
    assert rows[-1]["cost_regret/heat"] == rows[-1]["cost_regret/noise"] == 0.0


def test_a_recovery_that_gets_no_further_ends():
    """0.8 of heat's limit is out of reach of what this policy does: it must not stay in recovery,
    at a return of 20.0, for ever."""
    _, rows = trained("probe/Machines-v0", "c-trpo", steps=200_000)
    late = rows[50:94]  # before it lands
    mean = lambda column: sum(row[column] for row in late) / len(late)
    assert 0 < mean("recovering") < 0.6 and mean("ep_return_raw") > 21
    assert rows[-1]["cost_regret_raw"] < 0.5


@pytest.mark.learning
def test_half_cheetah_gains_1500_return_under_the_limit():
    """The demo's task at the published setting, 1M steps: published mean 1544, cost 17."""
    agent = Agent("c-trpo", preset="published", seed=0)
    agent.learn("SafetyHalfCheetahVelocity-v1", total_steps=1_000_000, progress=False)
    first, last = agent.metrics[0], agent.metrics[-1]
    assert last["ep_return"] - first["ep_return"] > 1500
    assert last["cost_regret"] < 30


# Limits on the mean and on the tail want different policies on Shortcut


def best_returns():
    """[C] the largest return of an episode of each total cost, by dynamic programming."""
    cells, most = np.arange(15), SHORTCUT.horizon
    value = np.full((15, most + 1), -np.inf)  # [cell, cost so far], with t steps behind
    value[0, 0], ended = 0.0, np.full(most + 1, -np.inf)
    for _ in range(SHORTCUT.horizon):
        after = np.full_like(value, -np.inf)
        for action in range(4):
            to, reward, cost, done = SHORTCUT.move(cells, np.full(15, action), np.zeros(15))
            for cell in cells:
                step = int(cost[cell, 0])
                gained = np.roll(value[cell], step) + reward[cell]
                gained[:step] = -np.inf
                place = ended if done[cell] else after[to[cell]]
                np.maximum(place, gained, out=place)
        value = after
    return np.maximum(ended, value.max(0))


def best_mix(limit):
    """(return, share of episodes on the short way) of the best law of the episode cost.

    A linear programme over the shares of costs; for a tail over ν too (Rockafellar and Uryasev).
    """
    reward, claim = best_returns(), parse_limit(limit)
    known = np.isfinite(reward)
    costs, reward = np.arange(len(reward))[known], reward[known]
    found = []
    for level in costs if claim.kind == "tail" else [0.0]:
        used = np.maximum(costs - level, 0.0) / claim.share + level
        if claim.kind == "chance":
            used = (costs > claim.amount).astype(float)
        made = linprog(
            -reward, used[None], [claim.bound], np.ones((1, len(costs))), [1.0], method="highs"
        )
        if made.status == 0:
            found.append((-made.fun, made.x[costs == 3].item()))
    return max(found)


@pytest.mark.parametrize(
    ("limit", "earned", "short"),
    [
        ("1.5", 26.0, 0.5),
        ("1.5 worst 50%", 25.0, 0.25),
        ("1.5 worst 10%", 24.2, 0.05),
        ("1.5 in 90%", 24.4, 0.1),
    ],
)
def test_the_best_mix_of_ways_by_a_linear_programme(limit, earned, short):
    """The numbers of docs/limits.md; the best mix under a mean breaks every limit on the tail."""
    assert best_mix(limit) == pytest.approx((earned, short))


@functools.cache
def shortcut(algorithm, limit):
    agent = Agent(algorithm, seed=0, limits={"cost": limit}, epoch_steps=2_000)
    agent.learn("probe/Shortcut-v0", total_steps=100_000, progress=False)
    return agent.evaluate(episodes=1000), agent.evaluate(episodes=1000, limits="1.5 worst 50%")


@pytest.mark.learning
def test_trained_policies_differ_as_the_programme_says():
    """Each within 5 % of its own best return; the tail's policy takes the short way less often.

    One seed, on which the tolerances were chosen: the learned shares are a third to three quarters
    of the programme's, as C-TRPO keeps a margin and 50 epochs are few.
    """
    tail, mean = (shortcut("c-trpo", limit)[0] for limit in ("1.5 worst 50%", "1.5"))
    for result, limit in ((tail, "1.5 worst 50%"), (mean, "1.5")):
        earned, short = best_mix(limit)
        assert result.verdict.safe == "yes"
        assert 0.95 * earned <= result.returns.mean() <= earned
        assert 0.25 * short < (result.costs == 3).mean() <= short
    assert (tail.costs == 3).mean() < 0.7 * (mean.costs == 3).mean()


@pytest.mark.learning
def test_a_policy_under_a_mean_breaks_the_tail_limit():
    """The control of the test before: the same judge, and CPO, which spends the mean's limit.

    (Under the tail CPO swings about that limit: its steps bring ten times what they predict.)
    """
    assert shortcut("cpo", "1.5")[1].verdict.safe == "no"
    assert shortcut("c-trpo", "1.5 worst 50%")[1].verdict.safe == "yes"
