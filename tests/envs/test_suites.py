# SPDX-License-Identifier: Apache-2.0
"""Brax and MuJoCo Playground through their ids; the form of both also without them."""

import sys
from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from holdfast.envs.acting import Actor
from holdfast.envs.make import make_env
from holdfast.train import train
from small_runs import same, small


@jax.tree_util.register_dataclass
@dataclass
class SuiteState:
    """The fields of Brax's state."""

    pipeline_state: Any
    obs: Any
    reward: Any
    done: Any
    metrics: dict[str, Any] = field(default_factory=dict)
    info: dict[str, Any] = field(default_factory=dict)


class Drifting:
    """Writes into the metrics of the state it is given and changes types, as Brax's do."""

    action_size = 2

    def __init__(self, speed=1.0):
        self.speed = speed

    def reset(self, rng):
        start = 0.1 * jax.random.normal(rng, (2,))
        zero = jnp.zeros(())
        return SuiteState(start, start, zero, zero, {"x_velocity": zero}, {"rng": rng})

    def step(self, state, action):
        place = state.pipeline_state + 0.1 * self.speed * action
        state.metrics.update(x_velocity=action[0])
        done = (place[0] > 0.5) * 1
        return SuiteState(place, place, place.sum(), done, state.metrics, state.info)


def fast(obs, action, next_obs, info):
    moved = (info["state"].pipeline_state[0] - obs[0]) / 0.1
    return [info["x_velocity"] > 0.5, moved]


@pytest.fixture
def stand_ins(monkeypatch):
    """Modules with the part of Brax's and Playground's interface that is used."""

    class Config(dict):
        __getattr__ = dict.__getitem__

        def update_from_flattened_dict(self, changes):
            if unknown := [name for name in changes if name not in self]:
                raise KeyError(f"unknown {unknown[0]}")
            self.update(changes)

    brax, playground = ModuleType("brax"), ModuleType("mujoco_playground")
    known = {"drifting": Drifting}
    brax.envs = SimpleNamespace(_envs=known, get_environment=lambda n, **args: known[n](**args))
    playground.registry = SimpleNamespace(
        ALL_ENVS=("Drifting",),
        get_default_config=lambda name: Config(episode_length=30, action_repeat=1, speed=1.0),
        load=lambda name, config: Drifting(config.speed),
    )
    monkeypatch.setitem(sys.modules, "brax", brax)
    monkeypatch.setitem(sys.modules, "mujoco_playground", playground)


def test_ids_arguments_and_time_limits(stand_ins):
    cases = [
        ("brax/drifting", {}, 1000, 1.0),
        ("brax/drifting", {"episode_length": 7, "speed": 2.0}, 7, 2.0),
        ("playground/Drifting", {}, 30, 1.0),
        ("playground/Drifting", {"episode_length": 5, "speed": 2.0}, 5, 2.0),
    ]
    for name, args, limit, speed in cases:
        env = make_env(name, 3, env_args=args, cost=fast, constraints=("fast", "moved"))
        assert env.facts.time_limit == limit and env.cost_names == ("fast", "moved")
        env.reset(0)
        rollout = env.collect(Actor((), np.ones(2, np.float32)), np.ones((8, 3, 2), np.float32))
        np.testing.assert_array_equal(rollout.cost[..., 0], 1.0)
        np.testing.assert_allclose(rollout.cost[..., 1], speed, atol=1e-5)
        assert rollout.terminated.any()
    with pytest.raises(ValueError, match="did you mean 'drifting'"):
        make_env("brax/driftin", 2, cost=fast)
    with pytest.raises(ValueError, match="did you mean 'Drifting'"):
        make_env("playground/Driftin", 2, cost=fast)
    with pytest.raises(ValueError, match="unknown sped"):
        make_env("playground/Drifting", 2, env_args={"sped": 1}, cost=fast)
    with pytest.raises(ValueError, match="cannot be made"):
        make_env("brax/drifting", 2, env_args={"sped": 1}, cost=fast)
    with pytest.raises(ValueError, match="action_repeat=2"):
        make_env("playground/Drifting", 2, env_args={"action_repeat": 2}, cost=fast)
    with pytest.raises(ValueError, match="reports no cost"):
        make_env("brax/drifting", 2)


def test_a_missing_suite_names_the_extra(monkeypatch):
    for suite, module in (("brax", "brax"), ("playground", "mujoco_playground")):
        monkeypatch.setitem(sys.modules, module, None)
        with pytest.raises(ValueError, match=rf"pip install 'holdfast-rl\[{suite}\]'"):
            make_env(f"{suite}/some", 2, cost=fast)


def test_models_that_cannot_be_downloaded_are_explained(monkeypatch, tmp_path):
    (tmp_path / "mujoco_playground.py").write_text("raise OSError('git clone failed')\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "mujoco_playground", raising=False)
    with pytest.raises(ValueError, match=r"git clone failed.*mujoco_menagerie"):
        make_env("playground/CartpoleBalance", 2, cost=fast)


def quick(obs, action, next_obs, info):
    return jnp.square(action).sum()


def trains(name, **args):
    """Two epochs, and the second again from the first's state: the same bits."""
    run = small(name, epochs=2, num_envs=4, epoch_steps=80, cost_limit=5.0, env_args=args)
    make = lambda: make_env(name, 4, env_args=args, cost=quick)
    first, second = train(run, make())
    again = next(iter(train(run, make(), first.state)))
    same(second.state.env, again.state.env)
    same({"obs": second.state.obs}, {"obs": again.state.obs})
    assert second.metrics["ep_return"] == again.metrics["ep_return"]
    return second


@pytest.mark.extras
@pytest.mark.filterwarnings("ignore")
def test_brax():
    pytest.importorskip("brax", reason="Brax is not installed: pip install 'holdfast-rl[brax]'")
    epoch = trains("brax/inverted_pendulum", episode_length=20, backend="spring")
    assert epoch.metrics["ep_length"] <= 20


@pytest.mark.extras
@pytest.mark.filterwarnings("ignore")
def test_playground():
    try:
        from mujoco_playground import registry  # noqa: F401
    except Exception as error:
        pytest.skip(f"MuJoCo Playground cannot be imported here: {error}")
    epoch = trains("playground/CartpoleBalance", episode_length=20)
    assert epoch.metrics["ep_length"] == 20
