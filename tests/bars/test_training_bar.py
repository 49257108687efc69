# SPDX-License-Identifier: Apache-2.0
"""The progress line never hides a violation, and its words mean what they say."""

import io

import pytest
from rich.console import Console

from holdfast.bars.training_bar import Bar, _final_steps, against
from holdfast.run import make_run

ROW = dict(ep_return=1.0, ep_cost=0.5, cost_regret_raw=0.48, steps_per_second=9.0, env_steps=200)


def bar(limit, console=None, **how):
    return Bar(1000, {"cost": limit}, "run", console=console or Console(file=io.StringIO()), **how)


@pytest.mark.parametrize(
    ("cost", "limit", "shown"),
    [
        (0.5, 0.02, "0.50"),
        (0.021, 0.02, "0.021"),
        (0.019, 0.02, "0.02"),
        (25.04, 25.0, "25.04"),
        (25.0, 25.0, "25.0"),
        (24.96, 25.0, "25.0"),
        (3.14, 0.25, "3.14"),
        (0.004, 0.0, "0.004"),
        (0.0, 0.0, "0.0"),
    ],
)
def test_costs_have_the_digits_of_their_limit(cost, limit, shown):
    assert against(cost, limit) == shown
    assert (float(shown) > limit) == (cost > limit), "above stays above, below stays below"


def test_a_small_limit_shows_cost_and_regret():
    shown = bar(0.02)
    shown.write(200, ROW)
    assert "cost 0.50/0.02  regret 0.48  above the limit" in shown.line(200)
    shown.write(200, ROW | {"cost_regret_raw": 0.0004})
    assert "regret 4.0e-04" in shown.line(200), "no regret is not what a small one is"


@pytest.mark.parametrize(
    ("row", "word"),
    [
        ({"ep_cost": 0.01}, "improving"),
        ({"ep_cost": 0.5}, "above the limit"),
        ({"ep_cost": 0.5, "recovering": 1}, "recovering"),
        ({"ep_cost": 0.01, "recovering": 1}, "lowering cost"),
        ({"ep_cost": 0.01, "recovering": 1, "env_steps": 960}, "final repair"),
        ({"ep_cost": 0.01, "kl": 0.0, "env_steps": 960}, "final repair"),
        ({"ep_cost": 0.01, "kl": 0.1, "env_steps": 960}, "improving"),
    ],
)
def test_each_phase_has_its_word(row, word):
    shown = bar(0.02, final_from=960)
    shown.write(200, ROW | row)
    assert shown.phase() == word and f"  {word}  " in shown.line(200)


def test_a_cost_above_its_limit_is_red():
    screen = lambda: Console(
        file=io.StringIO(), force_terminal=True, width=120, color_system="standard"
    )
    red = "\x1b[1;31m"
    for cost, is_red in ((0.5, True), (0.01, False)):
        console = screen()
        shown = bar(0.02, console)
        shown.write(200, ROW | {"ep_cost": cost})
        shown.close()
        assert (f"{red}{cost:.2f}" in console.file.getvalue()) is is_red


def test_the_final_phase_begins_where_the_algorithm_s_does():
    """Update i of n is in it from (i - 1) / n >= 1 - landing on."""
    run = make_run("c-trpo", env="probe/Speed-v0", steps=1000, epoch_steps=10, landing=0.05)
    assert _final_steps(run) == 960
    assert _final_steps(make_run("cpo", env="probe/Speed-v0")) == float("inf")
