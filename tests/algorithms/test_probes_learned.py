# SPDX-License-Identifier: Apache-2.0
"""Learning on probes whose best safe return is proved: safe and good, where TRPO is not safe."""

import functools

import pytest

from holdfast import Agent
from holdfast.envs.probe import PROBES

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


def test_two_constraints_hold_both_limits():
    result, rows = trained("probe/Machines-v0", "c-trpo")
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
