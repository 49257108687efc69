# SPDX-License-Identifier: Apache-2.0
"""Every method on a probe with two limits that both bind: what each promises of them.

The promise is about the mean cost of the last 20 of 60 epochs, as a share of each limit:

    barriers and penalties    at most 1: they stay inside
    linearised constraints    1.02: at the limit, up to the error of a first-order model
    prices                    1.1: about the limit on average, above and below it in turn
    none                      PPO, TRPO and NPG run both machines all the time: beyond 1.5
"""

import numpy as np
import pytest

from holdfast import Agent
from holdfast.envs.probe import PROBES

pytestmark = pytest.mark.usefixtures("optimised")
PROBE = "probe/Machines-v0"
LIMITS = PROBES[PROBE].cost_limits
PRICE = {"multiplier_rule": "sgd", "multiplier_lr": 0.05}
QUICK = {"actor_lr": 3e-3, "critic_lr": 3e-3}
EPISODE = {"cost_scale": "episode"}
CENTRED = {"centre": True}
GAINS = {"pid_p": 0.5, "pid_i": 0.05, "pid_d": 0.05}
# name: settings, largest share of a limit, smallest share of the best safe return
PROMISES = {
    "c-trpo": ({}, 1.0, 0.8),
    "c-npg": ({}, 1.0, 0.8),
    "c-mdpo": ({}, 1.0, 0.8),
    "ipo": (EPISODE | QUICK, 1.0, 0.8),
    "p3o": (EPISODE | CENTRED | QUICK, 1.0, 0.8),
    "c3po": (EPISODE | CENTRED | QUICK | {"slack_fraction": 1.0}, 1.0, 0.8),
    "cpo": ({}, 1.02, 0.95),
    "cpo-hysteresis": ({}, 1.02, 0.8),
    "pcpo": ({"reward_direction": "natural"}, 1.02, 0.95),
    "trpo-lag": (PRICE, 1.1, 0.95),
    "ppo-lag": (PRICE | QUICK, 1.1, 0.95),
    "cppo-pid": (GAINS | QUICK, 1.1, 0.95),
    "focops": (PRICE | {"mask": "sample"}, 1.1, 0.95),
    "cup": (PRICE | QUICK, 1.1, 0.95),
}
DAILY, FULL = ("cpo", "ppo"), ("ppo-lag", "p3o")
"""A method with limits and one without in every test run; one of each other family by
`make test-full`; the others nightly."""


def rarely(names):
    for name in names:
        mark = pytest.mark.full if name in FULL else pytest.mark.learning
        yield pytest.param(name, marks=[mark] * (name not in DAILY))


def last_epochs(name, **settings):
    """(shares [K] of the limits, share of the best safe return), means of 20 epochs."""
    agent = Agent(name, seed=0, limits=LIMITS, epoch_steps=1000, **settings)
    agent.learn(PROBE, total_steps=60_000, progress=False)
    mean = lambda column: float(np.mean([row[column] for row in agent.metrics[-20:]]))
    shares = [mean(f"ep_cost/{limit}") / value for limit, value in LIMITS.items()]
    return np.array(shares), mean("ep_return") / PROBES[PROBE].optimal_safe_return


@pytest.mark.parametrize("name", list(rarely(PROMISES)))
def test_respects_the_limits_as_promised(name):
    settings, most, least = PROMISES[name]
    shares, earned = last_epochs(name, **settings)
    assert (shares <= most).all(), shares
    assert earned >= least


@pytest.mark.parametrize("name", list(rarely(("ppo", "trpo", "npg"))))
def test_methods_without_limits_break_them(name):
    shares, earned = last_epochs(name, **(QUICK if name == "ppo" else {}))
    assert (shares > 1.5).all() and earned > 1.3
