# SPDX-License-Identifier: Apache-2.0
"""Nested settings: listed, changed and made from plain data, every key and type checked."""

import json
import re
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal

import numpy as np
import pytest

from holdfast.run import make_run
from holdfast.settings import built, changed, choices, converted, leaves, nearest

TABLE = {"round": 1, "square": 2}


@dataclass(frozen=True)
class Wheel:
    size: float = 1.0
    """Its diameter,
    in metres."""
    spokes: int = 8
    shape: Annotated[str, TABLE] = "round"


@dataclass(frozen=True)
class Cart:
    name: str = "cart"
    """What it is called."""
    wheel: Wheel = Wheel()
    loads: tuple[float, ...] = ()
    colour: Literal["red", "blue"] | None = None
    limits: dict[str, float] | None = None
    brake: bool = False

    def __post_init__(self) -> None:
        if self.brake and self.wheel.spokes > 20:
            raise ValueError("brakes catch in so many spokes")


def test_leaves_have_paths_types_values_and_help():
    found = {leaf.path: leaf for leaf in leaves(Cart(wheel=Wheel(2.0)))}
    assert list(found) == [
        "name", "wheel.size", "wheel.spokes", "wheel.shape", "loads", "colour", "limits", "brake",
    ]  # fmt: skip
    size = found["wheel.size"]
    assert (size.name, size.kind, size.value) == ("size", float, 2.0)
    assert size.help == "Its diameter, in metres." and found["brake"].help == ""


def test_changes_by_path_leave_the_original_alone():
    cart = Cart()
    new = changed(cart, {"wheel.size": 3.0, "wheel.spokes": 4, "name": "x"})
    assert new == Cart("x", Wheel(3.0, 4)) and cart == Cart()
    assert changed(cart, {"wheel.size": 3.0, "wheel": Wheel(spokes=2)}) == Cart(
        wheel=Wheel(3.0, spokes=2)
    )
    with pytest.raises(TypeError, match="unexpected keyword"):
        changed(cart, {"wheel.colour": "red"})


def test_changes_are_made_at_once():
    """One after the other would pass through a value that its class refuses."""
    cart = Cart(wheel=Wheel(spokes=30))
    assert changed(cart, {"brake": True, "wheel.spokes": 10}).brake
    with pytest.raises(ValueError, match="brakes catch"):
        changed(cart, {"brake": True})


def test_plain_data_there_and_back():
    cart = Cart("a", Wheel(0.5, 3, "square"), (1.0, 2.0), "red", {"load": 3.0}, True)
    assert built(Cart, json.loads(json.dumps(asdict(cart))), "cart") == cart


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [
        (1, float, 1.0),
        (1e6, int, 1_000_000),
        (np.int64(3), int, 3),
        (np.float32(0.5), float, 0.5),
        ([1, 2], tuple[int, ...], (1, 2)),
        (3, float | tuple[float, ...], 3.0),
        ([3, 4], float | tuple[float, ...], (3.0, 4.0)),
        (None, float | None, None),
        ({"a": 1}, dict[str, float], {"a": 1.0}),
        ({"size": 2}, Wheel, Wheel(2.0)),
        ("square", Annotated[str, TABLE], "square"),
    ],
)
def test_conversions(value: Any, kind: Any, expected: Any):
    found = converted(value, kind, "x")
    assert found == expected and type(found) is type(expected)


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (True, int), (True, float), (1, bool), ("1", int), ("1", float), (1.5, int), (1, str),
        ("a", tuple[int, ...]), ((1.5,), tuple[int, ...]), (None, int), (None, Wheel),
        ("purple", Literal["red"]), ("oval", Annotated[str, TABLE]), ({"a": "b"}, dict[str, float]),
        ({"sizes": 2}, Wheel), ({"size": "2"}, Wheel), ("x", float | None),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(value: Any, kind: Any):
    with pytest.raises(ValueError, match=r"must be|unknown key"):
        converted(value, kind, "x")


def test_sentences_say_where_and_what():
    with pytest.raises(ValueError, match=r"cart\.wheel\.size='big' must be a number"):
        built(Cart, {"wheel": {"size": "big"}}, "cart")
    with pytest.raises(ValueError, match=r"unknown key 'siz' in cart\.wheel; did you mean 'size'"):
        built(Cart, {"wheel": {"siz": 1}}, "cart")
    with pytest.raises(ValueError, match=r"wheel\.shape='oval' must be one of round, square"):
        built(Cart, {"wheel": {"shape": "oval"}}, "cart")
    assert nearest("qqq", ["a", "b"]) == "; known are a, b."
    assert nearest("qqq", ["a", "b"], "see the list.") == "; see the list."
    assert choices(Annotated[str, "a note"]) is None


def test_a_class_defined_in_a_function_has_settings_too():
    class Local:
        pass

    @dataclass(frozen=True)
    class Own:
        thing: "Local | None" = None  # a name that cannot be resolved

    assert [leaf.path for leaf in leaves(Own())] == ["thing"]
    assert converted(3, next(leaves(Own())).kind, "thing") == 3


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"step_timeout": float("inf")}, "step_timeout=inf must be finite; 0 waits for ever"),
        ({"step_timeout": -1.0}, "step_timeout=-1.0 must not be negative; 0 waits for ever"),
        ({"cost_value_noise": float("nan")}, "cost_value_noise=nan must be finite; 0 is off"),
        ({"keep": 0}, "keep=0 must be at least 1"),
        ({"workers": -1}, "workers=-1 must not be negative"),
        ({"actor_lr": float("inf")}, "actor_lr=inf must be finite"),
    ],
)
def test_infinity_lies_in_no_open_interval(settings, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        make_run("ppo", **settings)


NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("name", "setting", "bad", "words"),
    [
        ("trpo", "critic_lr", (0.0, -1.0), "must be positive; try 0.001"),
        ("trpo", "critic_lr", (NAN, INF), "must be finite; try 0.001"),
        ("trpo", "critic_passes", (0, -1), "must be at least 1; 10 and 128 are usual"),
        ("trpo", "critic_minibatch", (0, -1), "must be at least 1; 10 and 128 are usual"),
        ("trpo", "critic_l2", (-1.0,), "must not be negative; 0 switches it off"),
        ("trpo", "critic_l2", (NAN, INF), "must be finite; 0 switches it off"),
        ("trpo", "critic_max_norm", (0.0, -1.0), "must be positive; inf switches it off"),
        ("trpo", "critic_max_norm", (NAN,), "must be finite; inf switches it off"),
        ("ppo", "critic_lr", (0.0, -1.0), "must be positive; try 0.0003"),
        ("ppo", "critic_lr", (NAN, INF), "must be finite; try 0.0003"),
        ("ppo", "critic_l2", (-1.0,), "must not be negative; 0 switches it off"),
        ("ppo", "critic_l2", (NAN, INF), "must be finite; 0 switches it off"),
        ("trpo", "cg_eps", (-1.0,), "must not be negative; 0 switches it off"),
        ("trpo", "cg_eps", (NAN, INF), "must be finite; 0 switches it off"),
        ("ppo-lag", "multiplier_init", (-1.0,), "must not be negative; prices are never negative"),
        ("ppo-lag", "multiplier_init", (NAN, INF), "must be finite; prices are never negative"),
        ("ppo-lag", "multiplier_max", (0.0,), "multiplier_init=0.001 must lie between 0 and"),
        ("ppo-lag", "multiplier_max", (-1.0,), "must not be negative; inf switches it off"),
        ("ppo-lag", "multiplier_max", (NAN,), "must be finite; inf switches it off"),
        ("cppo-pid", "multiplier_max", (0.0,), "pid_init=0.001 must lie between 0 and"),
        ("cppo-pid", "multiplier_max", (-1.0,), "must not be negative; inf switches it off"),
        ("cppo-pid", "multiplier_max", (NAN,), "must be finite; inf switches it off"),
        (
            "c-trpo",
            "beta",
            (0.0, -1.0, NAN, INF, (1.0, INF)),
            "must be positive and finite; a small",
        ),
    ],
)
def test_bad_values_are_refused_with_reason_and_remedy(name, setting, bad, words):
    for value in bad:
        with pytest.raises(ValueError, match=re.escape(words)) as error:
            make_run(name, **{setting: value})
        assert f"{setting}={value}" in str(error.value)


def test_what_switches_off_may_do_so():
    critic = make_run("trpo", critic_l2=0.0, critic_max_norm=INF).algorithm.critic
    assert critic.critic_l2 == 0 and critic.critic_max_norm == INF
    assert make_run("ppo-lag", multiplier_max=INF).algorithm.multiplier.multiplier_max == INF
    price = make_run("ppo-lag", multiplier_init=0.0, multiplier_max=0.0).algorithm.multiplier
    assert price.multiplier_init == price.multiplier_max == 0
    assert make_run("cppo-pid", multiplier_max=None).algorithm.multiplier.multiplier_max is None


def test_what_switches_off_by_infinity_may_be_infinite():
    loop = make_run("ppo", kl_stop=float("inf"), max_norm=float("inf")).algorithm.loop
    assert loop.kl_stop == loop.max_norm == float("inf")
