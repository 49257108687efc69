# SPDX-License-Identifier: Apache-2.0
"""What `make_env` takes an environment for, before it opens it."""

import gymnasium as gym
import numpy as np
import pytest

from holdfast.envs.base import Alterable, Facts, native_spaces
from holdfast.envs.functional.functional_source import Functional
from holdfast.envs.make import classify, make_env
from holdfast.envs.native.simulation import Simulated
from holdfast.envs.probe import PROBES, ProbeEnv
from holdfast.envs.rollout import Collecting, Playing


class Bare:
    """Functional: `step` takes a state and an action."""

    time_limit, cost_bounds = 7, (2.0,)

    def reset(self, key):
        raise NotImplementedError

    def step(self, state, action):
        raise NotImplementedError


def batch(num_envs: int) -> gym.vector.VectorEnv:
    return gym.make_vec("CartPole-v1", num_envs)


@pytest.mark.parametrize(
    ("source", "kind", "made"),
    [
        ("SafetyHopperVelocity-v1", "native", False),
        ("probe/Speed-v0", "probe", False),
        (ProbeEnv(PROBES["probe/Speed-v0"], 2), "batch", False),
        (batch(2), "batch", False),
        (batch, "batch", True),
        (Bare, "functional", False),
        (Bare(), "functional", False),
        (lambda: Bare(), "functional", False),
        ("CartPole-v1", "single", True),
        (lambda: gym.make("CartPole-v1"), "single", True),
        (gym.make("CartPole-v1"), "single", False),
    ],
)
def test_each_source_has_one_kind(source, kind, made):
    found = classify(source, 2)
    assert found.kind == kind and (found.first is not None) == made


def test_a_functional_environment_declares_facts_by_attributes():
    found = classify(Bare(), 2).source
    assert isinstance(found, Functional)
    assert found.facts == Facts(time_limit=7, cost_bounds=(2.0,))


def test_a_vec_env_without_facts_is_refused_by_name():
    env = ProbeEnv(PROBES["probe/Speed-v0"], 2)
    assert make_env(env, 2) is env
    del env.facts
    with pytest.raises(ValueError, match=r"'ProbeEnv' is no VecEnv yet, as it has no facts: add"):
        make_env(env, 2)


def test_native_spaces_are_the_flat_ones_unless_declared():
    env = ProbeEnv(PROBES["probe/Speed-v0"], 2)
    assert native_spaces(env) == (env.observation_space, env.action_space)
    foreign = make_env(lambda: gym.make("FrozenLake-v1"), 1, cost=lambda obs, action, then: 0.0)
    assert native_spaces(foreign) == (gym.spaces.Discrete(16), gym.spaces.Discrete(4))
    assert np.prod(foreign.observation_space.shape) == 16
    foreign.close()


def test_what_a_batch_can_do_is_declared():
    alone = make_env("SafetyHopperVelocity-v1", 1)
    assert all(isinstance(alone, kind) for kind in (Collecting, Alterable, Simulated))
    assert not isinstance(alone, Playing)
    probe = ProbeEnv(PROBES["probe/Speed-v0"], 2)
    assert not any(isinstance(probe, kind) for kind in (Collecting, Playing, Alterable, Simulated))
    probe.alter = probe.collect = probe.play_round = lambda *_: None
    assert not any(isinstance(probe, kind) for kind in (Collecting, Playing, Alterable))
    alone.close()
