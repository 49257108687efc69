# SPDX-License-Identifier: Apache-2.0
"""Episodes that outlive an epoch: foreign environments come back, too-short epochs are refused."""

import shutil

import numpy as np
import pytest
from gymnasium.wrappers import TimeLimit
from long_env import Drift

from holdfast import Agent, make_env
from holdfast.envs.base import NotReproducible
from holdfast.runs.folder import create, load_state, open_folder, state_arrays
from holdfast.runs.training import train_in_folder
from holdfast.train import train
from holdfast.train.epoch import CLOCK_COLUMNS, TrainingError
from small_runs import SMALL, same, small


def limited(steps=30, env=Drift):
    return lambda: TimeLimit(env(), steps)


# Exact resuming


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_foreign_environments_resume_in_the_middle_of_episodes(workers, tmp_path):
    """From disk, in another batch, with any number of processes: the same bits and rows."""

    def batch(workers):
        how = {"vectorise": "process", "workers": workers} if workers else {}
        return make_env(limited(), 4, **how)

    run = small("drift", epochs=3, seed=1)
    whole = create(tmp_path / "whole", run, batch(0))
    for epoch in train_in_folder(whole, batch(0)):
        if epoch.index == 2:  # what a kill would leave
            shutil.copytree(whole.path, tmp_path / "killed")
            assert (epoch.state.episodes.running[:, 1] > 0).all()  # all amid an episode
    killed = open_folder(tmp_path / "killed")
    state, _ = load_state(killed)
    env = batch(workers)
    (last,) = train_in_folder(killed, env, state=state)
    env.close()
    same(state_arrays(last.state), state_arrays(epoch.state))
    rows = [(tmp_path / name / "progress.csv").read_text() for name in ("whole", "killed")]
    assert without_clock(rows[0]) == without_clock(rows[1])


def without_clock(text):
    table = [line.split(",") for line in text.splitlines()]
    kept = [i for i, name in enumerate(table[0]) if name not in CLOCK_COLUMNS]
    return [[row[i] for i in kept] for row in table]


class Forgetful(Drift):
    """Its randomness is not drawn from its seed."""

    def reset(self, *, seed=None, options=None):
        return super().reset(seed=None)


def test_an_environment_that_does_not_come_back_starts_new_episodes():
    run = small("drift", epochs=2)
    env = make_env(limited(env=Forgetful), 4)
    first = next(iter(train(run, env)))
    with pytest.raises(NotReproducible, match="the same seed and actions led environment 0"):
        make_env(limited(env=Forgetful), 4).restore(first.state.env)
    with pytest.warns(UserWarning, match="not reproducible.*continues with new episodes"):
        (last,) = train(run, env, first.state)
    assert last.index == 2


def test_snapshots_of_foreign_environments():
    env = make_env(limited(), 3)
    with pytest.raises(ValueError, match="before its first reset"):
        env.snapshot()
    env.reset(7)
    at_once = env.snapshot()
    assert at_once["actions"].shape == (3, 0, 1)
    rng = np.random.default_rng(0)
    play = lambda n: [env.step(rng.uniform(-0.5, 0.5, (3, 1)).astype(np.float32)) for _ in range(n)]
    play(200)  # the tape forgets what no episode needs
    assert len(env._tape._actions) <= 64 + 2 * 30
    kept = env.snapshot()
    assert kept["actions"].shape[1] == kept["age"].max() < 30
    other = make_env(limited(), 3, vectorise="process", workers=2)
    np.testing.assert_array_equal(other.restore(kept), kept["obs"])
    action = np.full((3, 1), 0.2, np.float32)
    for _ in range(40):
        a, b = env.step(action), other.step(action)
        np.testing.assert_array_equal(a.obs, b.obs)
    other.close()
    with pytest.raises(ValueError, match="not one of 4 environments"):
        make_env(limited(), 4).restore(kept)
    np.testing.assert_array_equal(env.restore(at_once), at_once["obs"])


# When epochs are too short for episodes


def test_epochs_shorter_than_an_episode_are_refused(tmp_path):
    for env, match in (
        (make_env(limited(51), 4), r"50 steps .* up to 51 .*raise epoch_steps to 204"),
        (make_env("probe/Speed-v0", 40), r"5 steps .* up to 20 .*to 800 or lower num_envs to 10"),
        (make_env("SafetyHopperVelocity-v1", 4), r"up to 1000 .*epoch_steps to 4000.*window"),
    ):
        run = small("drift", cost_estimate="epoch", num_envs=env.num_envs)
        with pytest.raises(ValueError, match=match):
            next(iter(train(run, env)))
        with pytest.raises(ValueError, match=match):
            create(tmp_path / "run", run, env)
        assert not (tmp_path / "run").exists()
    (epoch,) = train(small("drift", epochs=1, cost_estimate="epoch"), make_env(limited(50), 4))
    assert epoch.metrics["episodes"] >= 4


class Slow(Drift):
    """Ends after 60 steps, and nobody knows beforehand."""

    def reset(self, *, seed=None, options=None):
        self.left = 60
        return super().reset(seed=seed)

    def step(self, action):
        self.left -= 1
        obs, reward, _, _, info = super().step(action)
        return obs, reward, self.x > 1, self.left == 0, info


def test_an_episode_that_outlasts_an_epoch_is_refused_where_no_limit_is_known():
    env = make_env(Slow, 4)
    assert env.facts.time_limit is None
    with pytest.raises(TrainingError, match=r"epoch 1: environment \d ended no episode in its 50"):
        next(iter(train(small("drift", cost_estimate="epoch"), env)))


# epoch_reset


class Watched:
    """A batch that counts its resets, with or without snapshots."""

    def __init__(self, can_snapshot=True):
        self.inner, self.can_snapshot = make_env("probe/Shortcut-v0", 4), can_snapshot
        self.resets = []

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def reset(self, seed):
        self.resets.append(seed)
        return self.inner.reset(seed)


@pytest.mark.parametrize(
    ("choice", "estimate", "can_snapshot", "resets"),
    [
        ("auto", "window", True, 1),
        ("auto", "epoch", True, 1),
        ("auto", "epoch", False, 3),
        ("auto", "window", False, 1),
        ("never", "epoch", False, 1),
        ("always", "epoch", True, 3),
    ],
)
def test_when_epochs_start_with_a_reset(choice, estimate, can_snapshot, resets):
    """A run of three epochs; each reset has its own seed, and resuming repeats it."""
    env = Watched(can_snapshot)
    run = small("probe/Shortcut-v0", epochs=3, epoch_reset=choice, cost_estimate=estimate)
    epochs = list(train(run, env))
    assert len(env.resets) == len(set(env.resets)) == resets
    again = Watched(can_snapshot)
    (last,) = train(run, again, epochs[1].state)
    exact = can_snapshot or resets == 3
    assert again.resets == ([] if can_snapshot and resets == 1 else [last_seed(run)])
    ends = [state_arrays(e.state)["learner.policy.layers[0][0]"] for e in (epochs[2], last)]
    assert np.array_equal(*ends) == exact


def last_seed(run):
    """Of the reset with which epoch 3 starts."""
    env = Watched()
    list(train(make_run_like(run), env))
    return env.resets[2]


def make_run_like(run):
    return small(run.env, epochs=3, epoch_reset="always", cost_estimate="epoch")


def test_a_window_of_finished_episodes_cannot_live_with_resets():
    env = make_env("probe/Shortcut-v0", 4)
    with pytest.raises(ValueError, match=r"'always' cannot be used with .*'window'.*cut the long"):
        next(iter(train(small("drift", epoch_reset="always", cost_estimate="window"), env)))


# clip_actions


@pytest.mark.parametrize(("choice", "clipped"), [("auto", 1), ("always", 1), ("never", 0)])
def test_clip_actions_reaches_foreign_environments(choice, clipped):
    env, seen = Drift(), []
    env.seen = seen
    run = dict(SMALL, num_envs=1, epoch_steps=100, clip_actions=choice)
    agent = Agent("c-trpo", **run).learn(TimeLimit(env, 50), 100, progress=False)
    assert (max(map(abs, seen)) <= 0.5) == bool(clipped)
    seen.clear()
    agent.evaluate(TimeLimit(env, 50), episodes=2)
    assert (max(map(abs, seen)) <= 0.5) == bool(clipped)
