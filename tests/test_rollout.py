# SPDX-License-Identifier: Apache-2.0
"""Collecting an epoch: one meaning in both loops, and what D2 and D9 change."""

from dataclasses import fields

import numpy as np
import pytest

from holdfast import make_env, make_run
from holdfast.core.actor import Actor, numpy_actor
from holdfast.core.estimate import Normaliser
from holdfast.rollout import Rollout, collect
from holdfast.train import Spaces, first_state, train


class Stepped:
    """A batch that does not act by itself, so that `rollout.collect` steps it."""

    def __init__(self, inner):
        self.inner, self.given = inner, []

    def __getattr__(self, name):
        if name == "collect":
            raise AttributeError
        return getattr(self.inner, name)

    def step(self, action):
        self.given.append(action)
        return self.inner.step(action)


class RowByRow(Actor):
    """Multiplies each row by itself, as a batch that acts by itself does (see `Pilot`)."""

    def act(self, obs, noise):
        each = [
            super(RowByRow, self).act(o[None], n[None]) for o, n in zip(obs, noise, strict=True)
        ]
        return np.concatenate(each)


def epochs(kind, num_envs, normalise, clip, twist=0.0):
    """Two epochs of Hopper, by the batch itself and stepped by `collect`."""
    run = make_run("c-trpo", hidden=(8,), num_envs=num_envs)
    out = []
    for wrap in (lambda env: env, Stepped):
        env = wrap(make_env("SafetyHopperVelocity-v1", num_envs))
        plain = numpy_actor(first_state(run, Spaces.of(run, env)).learner.policy)
        actor = kind(plain.layers, plain.std, plain.sizes)
        noise = actor.draw(np.random.default_rng(1), (2, 150, num_envs)) * 1.5
        obs, normaliser = env.reset(3), Normaliser.create(11).merge(np.ones((4, 11)))
        for part in noise:
            if wrap is Stepped:
                part[-1] += twist
            rollout, obs, normaliser = collect(
                env, obs, actor, normaliser, part, normalise=normalise, clip_actions=clip
            )
        arrays = {f.name: getattr(rollout, f.name) for f in fields(Rollout)}
        out.append(arrays | {"last": obs, "mean": normaliser.mean, "var": normaliser.var})
    assert out[0]["terminated"].any()
    return [name for name in out[0] if not np.array_equal(out[0][name], out[1][name])]


@pytest.mark.parametrize("clip", [False, True])
@pytest.mark.parametrize("normalise", ["epoch", "none"])
def test_the_loop_equals_a_batch_that_acts_by_itself(normalise, clip):
    assert epochs(RowByRow, 4, normalise, clip) == []
    assert epochs(Actor, 1, normalise, clip) == []  # one row: the plain product is the same


def test_a_difference_in_one_step_is_seen():
    """Negative control: other noise in the last step of the stepped loop."""
    assert {"action", "next_obs", "last"} <= set(epochs(RowByRow, 4, "epoch", False, twist=1e-6))


def test_raw_final_observations_are_bootstrapped_where_asked():
    """D2: at the end of an episode the successor is stored as it is, or normalised; else equal."""
    run = make_run("c-trpo", hidden=(8,), num_envs=4)
    found = {}
    for raw in (True, False):
        env = Stepped(make_env("probe/Speed-v0", 4))
        actor = numpy_actor(first_state(run, Spaces.of(run, env)).learner.policy)
        noise = actor.draw(np.random.default_rng(0), (50, 4))
        normaliser = Normaliser(np.array([5.0]), np.array([4.0]), 1e6)
        found[raw], *_ = collect(
            env, env.reset(0), actor, normaliser, noise, normalise="epoch", raw_final_obs=raw
        )
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
                   critic_passes=1, clip_actions=choice)  # fmt: skip
    next(iter(train(run, env)))
    assert (np.abs(env.given).max() <= 1) == bool(clipped)
    presets = {name: make_run("c-trpo", name).clip_actions for name in ("published", "corrected")}
    assert presets == {"published": "never", "corrected": "always"}
