# SPDX-License-Identifier: Apache-2.0
"""Collecting an epoch: here or by workers, the same; and what D2 and D9 change."""

from dataclasses import replace

import numpy as np
import pytest
from levers_env import Choices

from holdfast import make_env, make_run
from holdfast.envs.acting import Actor, Normaliser
from holdfast.envs.rollout import collect
from holdfast.envs.worker import pickled, unpickled
from holdfast.train import train
from holdfast.train.environment import Spaces
from holdfast.train.state import first_state, numpy_actor


class Stepped:
    """A batch that does not act by itself, so that the training loop steps it."""

    def __init__(self, inner):
        self.inner, self.given = inner, []

    def __getattr__(self, name):
        if name in ("collect", "observation"):
            raise AttributeError
        return getattr(self.inner, name)

    def step(self, action):
        self.given.append(action)
        return self.inner.step(action)


def epochs(env, twist=0.0, normaliser=True):
    """Two epochs that a batch collects by itself, if it can, and its snapshot."""
    run = make_run("c-trpo", hidden=(8,), num_envs=env.num_envs, cost_limit=25.0)
    size = env.observation_space.shape[0]
    seen = Normaliser.create(size).merge(np.ones((4, size))) if normaliser else None
    actor = replace(
        numpy_actor(first_state(run, Spaces.of(run, env)).learner.policy), normaliser=seen
    )
    noise = actor.draw(np.random.default_rng(1), (2, 150, env.num_envs)) * np.float32(1.5)
    noise[1, -1] += np.float32(twist)
    obs = env.reset(3)
    parts = []
    try:
        for part in noise:
            if hasattr(env, "collect"):
                parts.append(env.collect(actor, part))
            else:
                rollout, obs, _ = collect(env, obs, actor, part)
                parts.append(rollout)
        found = {f"{i} {k}": v for i, p in enumerate(parts) for k, v in p.to_arrays().items()}
        return found | env.snapshot()
    finally:
        env.close()


def differing(one, other):
    assert one.keys() == other.keys()
    return [name for name in one if not np.array_equal(one[name], other[name])]


@pytest.mark.parametrize("normaliser", [True, False])
@pytest.mark.parametrize(
    ("env", "options"), [("SafetyHopperVelocity-v1", {}), (Choices, {"vectorise": "process"})]
)
def test_who_collects_changes_nothing(env, options, normaliser):
    """The loop here against two and three workers, native and foreign, Gaussian and choices."""
    here = epochs(Stepped(make_env(env, 5)), normaliser=normaliser)
    assert here["1 terminated"].any()
    for workers in (2, 3):
        there = epochs(make_env(env, 5, workers=workers, **options), normaliser=normaliser)
        assert differing(here, there) == []


def test_a_difference_in_one_step_is_seen():
    """Negative control: other noise in the last step."""
    here = epochs(make_env("SafetyHopperVelocity-v1", 4))
    other = epochs(Stepped(make_env("SafetyHopperVelocity-v1", 4)), twist=1e-6)
    assert {"1 action", "1 seen", "obs"} <= set(differing(here, other))


def test_an_actor_crosses_to_another_process_whole():
    rng = np.random.default_rng(0)
    layers = ((rng.normal(size=(3, 4)).astype("f4"), rng.normal(size=4).astype("f4")),)
    seen = Normaliser(rng.normal(size=3), rng.random(3), 7.0)
    for actor in (Actor(layers, np.ones(4, "f4"), (), seen, True), Actor(layers, None, (2, 2))):
        again = unpickled(pickled(actor))
        obs, noise = rng.normal(size=(5, 3)), actor.draw(rng, (5,))
        acted = [a.act(a.view(obs), noise)[0] for a in (actor, again)]
        np.testing.assert_array_equal(*acted)
        assert (again.clip, again.sizes) == (actor.clip, actor.sizes)


def test_raw_final_observations_are_bootstrapped_where_asked():
    """D2: at the end of an episode the successor is stored as it is, or normalised; else equal."""
    run = make_run("c-trpo", hidden=(8,), num_envs=4, cost_limit=25.0)
    found = {}
    for raw in (True, False):
        env = Stepped(make_env("probe/Speed-v0", 4))
        actor = numpy_actor(first_state(run, Spaces.of(run, env)).learner.policy)
        noise = actor.draw(np.random.default_rng(0), (50, 4))
        normaliser = Normaliser(np.array([5.0]), np.array([4.0]), 1e6)
        actor = replace(actor, normaliser=normaliser)
        found[raw], *_ = collect(env, env.reset(0), actor, noise, raw_final_obs=raw)
    ends = found[True].done
    assert ends.sum() == 8
    raw, seen = found[True].next_obs, found[False].next_obs
    np.testing.assert_array_equal(raw[~ends], seen[~ends])
    np.testing.assert_allclose(seen[ends], (raw[ends] - 5.0) / 2.0, rtol=1e-6)
    np.testing.assert_array_equal(raw[ends][:, 0], found[True].reward[ends].astype(np.float32))


@pytest.mark.parametrize(("choice", "clipped"), [("auto", 0), ("always", 1), ("never", 0)])
def test_actions_of_our_own_tasks_are_clipped_where_asked(choice, clipped):
    """D9: unclipped as published, unless asked; the policy's own action is kept as it was."""
    env = Stepped(make_env("probe/Speed-v0", 4))
    run = make_run("c-trpo", hidden=(8,), num_envs=4, epoch_steps=200, steps=200, cg_steps=3,
                   critic_passes=1, clip_actions=choice, cost_limit=25.0)  # fmt: skip
    next(iter(train(run, env)))
    assert (np.abs(env.given).max() <= 1) == bool(clipped)
    presets = {name: make_run("c-trpo", name).clip_actions for name in ("published", "corrected")}
    assert presets == {"published": "never", "corrected": "always"}
