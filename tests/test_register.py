# SPDX-License-Identifier: Apache-2.0
"""Rows D18 to D30 of the register: both sides, and the default that the register names."""

from typing import Any

import pytest

from holdfast.register import REGISTER
from holdfast.run import make_run

ROWS = [
    # name, setting, published, corrected, default
    ("cpo", "cost_scale", "none", "episode", "none"),  # D18
    ("pcpo", "cost_scale", "none", "episode", "none"),
    ("ipo", "cost_scale", "none", "episode", "none"),
    ("c3po", "cost_scale", "none", "episode", "none"),
    ("c3po", "centre", False, True, False),
    ("c3po", "critic.critic_stale_norm", False, False, False),  # D7 is for trust regions
    ("c3po", "critic.critic_reward_weight", 2.0, 2.0, 2.0),
    ("cpo", "dual", "flipped", "exact", "exact"),  # D19
    ("cpo", "region.quit_not_finite", True, False, False),  # D20
    ("pcpo", "region.quit_not_finite", True, False, False),
    ("cpo-hysteresis", "sticky", "infeasible", "violated", "infeasible"),  # D21
    ("pcpo", "reward_direction", "gradient", "natural", "gradient"),  # D22
    ("pcpo", "region.backtracks", 200, 15, 200),  # D23
    ("pcpo", "reward_test", False, True, False),
    ("ipo", "flip_sign", True, False, False),  # D24
    ("focops", "mask", "batch", "sample", "batch"),  # D25
    ("focops", "rescale", True, False, True),  # D26
    ("focops", "multiplier.multiplier_rule", "adam", "sgd", "adam"),
    ("focops", "multiplier.multiplier_lr", 0.035, 0.01, 0.035),
    ("focops", "multiplier.multiplier_max", 2.0, 2.0, 2.0),
    ("cup", "multiplier.multiplier_max", 0.2, 2.0, 0.2),  # D27
    ("p3o", "kappa", 10.0, 20.0, 10.0),  # D28
    ("p3o", "cost_scale", "discount", "episode", "discount"),  # D11
    ("p3o", "centre", False, True, False),
    ("sb-trpo", "cost_scale", "discount", "episode", "discount"),
    ("sb-trpo", "critic.critic_stale_norm", True, False, False),  # D7
    ("cspo", "cost_scale", "discount", "episode", "discount"),
    ("cspo", "multiplier.multiplier_rule", "adam", "sgd", "adam"),
    ("ppo-lag", "multiplier.multiplier_rule", "adam", "sgd", "adam"),  # D29
    ("trpo-lag", "multiplier.multiplier_rule", "adam", "sgd", "adam"),
    ("cppo-pid", "multiplier.pid_smoothing", 0.95, 0.0, 0.95),  # D30
    ("cppo-pid", "multiplier.pid_delay", 10, 1, 10),
    ("cppo-pid", "multiplier.pid_init", 0.001, 0.0, 0.001),
]


@pytest.mark.parametrize(("name", "setting", "published", "corrected", "default"), ROWS)
def test_both_sides_and_the_default(
    name: str, setting: str, published: Any, corrected: Any, default: Any
) -> None:
    for preset, expected in (("published", published), ("corrected", corrected), (None, default)):
        value: Any = make_run(name, preset).algorithm  # pyright: ignore[reportArgumentType]
        for part in setting.split("."):
            value = getattr(value, part)
        assert value == expected, (preset, value)


def test_the_register_has_every_row_with_a_setting() -> None:
    assert {row.code for row in REGISTER} >= {f"D{n}" for n in range(18, 31)}


def test_trpo_keeps_shrinking_where_cpo_gives_up() -> None:
    assert not make_run("trpo", "published").algorithm.region.quit_not_finite  # pyright: ignore


def test_published_first_order_settings_by_hand() -> None:
    for name in ("ppo", "ppo-lag", "cppo-pid", "focops", "cup", "ipo", "p3o"):
        algorithm: Any = make_run(name, "published").algorithm
        loop, critic = algorithm.loop, algorithm.critic
        assert (loop.actor_lr, loop.actor_decay, loop.passes) == (3e-4, True, 40), name
        assert (loop.minibatch, loop.kl_stop, loop.max_norm) == (64, 0.02, 40.0), name
        assert (critic.critic_lr, critic.critic_l2, critic.critic_l2_biases) == (3e-4, 1e-3, True)


@pytest.mark.parametrize("name", ["cpo", "pcpo", "sb-trpo", "ipo", "p3o", "cspo", "c3po"])
def test_cost_units_are_kept(name: str) -> None:
    assert not make_run(name, "corrected").standardise_cost
    with pytest.raises(ValueError, match="lost their units"):
        make_run(name, standardise_cost=True)


def test_prices_may_standardise() -> None:
    assert make_run("ppo-lag", "corrected").standardise_cost


@pytest.mark.parametrize(
    ("name", "bad"),
    [
        ("cpo", {"hysteresis": 0.0}),
        ("ppo", {"clip": 1.0}),
        ("focops", {"temperature": 0.0}),
        ("c3po", {"critic_reward_weight": 0.0}),
        ("ipo", {"sharpness": 0.0}),
        ("p3o", {"kappa": 0.0}),
        ("c3po", {"slack_fraction": 0.0}),
        ("sb-trpo", {"safety_bias": 0.0}),
        ("cspo", {"correction": -1.0}),
        ("cspo", {"weight_keep": 1.0}),
        ("c3po", {"kappa_end": 0.0}),
    ],
)
def test_bad_settings_say_what_to_do(name: str, bad: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="must"):
        make_run(name, **bad)
