# SPDX-License-Identifier: Apache-2.0
"""Environments in JAX: the same numbers as by hand, in NumPy, in pieces and on two devices."""

import contextlib
import hashlib
import io
import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from holdfast import Agent, cli
from holdfast.envs.acting import Actor, Normaliser, moments
from holdfast.envs.base import VecEnv
from holdfast.envs.check import check_env
from holdfast.envs.functional.functional_source import is_functional
from holdfast.envs.functional.states import EnvState
from holdfast.envs.make import make_env
from holdfast.envs.rollout import Collecting, Playing, Round, collect, play_round
from holdfast.runs.checkpoint import load
from holdfast.runs.folder import create
from holdfast.runs.training import train_in_folder
from holdfast.train import train
from holdfast.train.environment import open_env
from holdfast.train.epoch import TrainingError
from small_runs import rows_without_clock, same, small

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
sys.path.insert(0, str(EXAMPLES))
from slope import Slope, too_high  # noqa: E402

LIMITS = {"thrust": 5.0, "high": 5.0}
FREE = Actor((), np.ones(1, np.float32))
"""The noise alone acts."""


def noise_for(env, steps, seed=0, scale=1.0):
    shape = (steps, env.num_envs, 1)
    return (scale * np.random.default_rng(seed).standard_normal(shape)).astype(np.float32)


def by_hand(first, starts, action):
    """What Slope must do in one environment, in float32: (successors, terminated, truncated)."""
    height, age, rows = np.float32(first), 0, []
    starts = iter(starts)
    for a in np.clip(action, -1, 1).astype(np.float32):
        height, age = np.float32(height + np.float32(0.1) * a), age + 1
        terminated = height > 1
        truncated = not terminated and age == 20
        rows.append((height, terminated, truncated))
        if terminated or truncated:
            height, age = next(starts), 0
    return rows


def starting_heights(seed, count):
    """Of the first episodes of the environment with this seed: an address for each."""
    key = jax.random.PRNGKey(seed)
    keys = [jax.random.fold_in(key, number) for number in range(count)]
    return [np.float32(Slope().reset(k).inner) for k in keys]


def make_slopes():
    return make_env(Slope, 4, constraints=("thrust", "high"))


@pytest.fixture(scope="module")
def slopes():
    """One batch for all tests, each of which resets it: what it compiled, it keeps."""
    return make_slopes()


def test_it_is_a_batch_that_acts_and_plays_by_itself(slopes):
    slopes.reset(0)
    assert isinstance(slopes, VecEnv) and isinstance(slopes, Collecting)
    assert isinstance(slopes, Playing)
    assert slopes.cost_names == ("thrust", "high") and slopes.facts.time_limit == 20
    assert slopes.action_space == gym.spaces.Box(-1, 1, (1,), np.float32)


def test_functional_is_who_steps_a_state():
    class Usual:
        def reset(self, seed=None):
            return 0

        def step(self, action):
            return 0

    assert is_functional(Slope) and is_functional(Slope())
    assert not is_functional(Usual) and not is_functional(Usual())
    assert not is_functional(gym.make("CartPole-v1")) and not is_functional(None)


def test_an_epoch_is_what_is_computed_by_hand(slopes):
    # A drift upwards, so that some episodes end at the edge and others at the time limit.
    first = slopes.reset(7)
    noise = noise_for(slopes, 65) + np.float32([1.2, 0.0, 0.6, -0.3])[None, :, None]
    rollout = slopes.collect(FREE, noise)
    assert rollout.terminated.any() and rollout.truncated.any()
    for i in range(4):
        starts = starting_heights(7 + i, 10)
        assert first[i, 0] == starts[0]
        rows = by_hand(starts[0], starts[1:], noise[:, i, 0])
        height = np.array([row[0] for row in rows])
        np.testing.assert_allclose(rollout.reward[:, i], height, atol=1e-6)
        np.testing.assert_allclose(rollout.next_obs[:, i, 0], height, atol=1e-6)
        np.testing.assert_array_equal(rollout.terminated[:, i], [row[1] for row in rows])
        np.testing.assert_array_equal(rollout.truncated[:, i], [row[2] for row in rows])
        ended = rollout.done[:-1, i]
        # After an end the policy sees the new episode, and the successor is still the old one's.
        begun = np.asarray(rollout.obs)[1:][ended, i, 0]
        np.testing.assert_array_equal(begun, starts[1 : 1 + ended.sum()])
        assert (np.asarray(rollout.next_obs)[:-1][ended, i, 0] != begun).all()
        thrust = np.abs(np.clip(noise[:, i, 0], -1, 1)) > 0.5
        np.testing.assert_array_equal(rollout.cost[:, i, 0], thrust)
        np.testing.assert_array_equal(rollout.cost[:, i, 1], height > np.float32(0.3))


def actor_for(env, seed=0):
    rng = np.random.default_rng(seed)
    sizes = (env.observation_space.shape[0], 8, 1)
    layer = lambda a, b: (rng.normal(size=(a, b)).astype("f4"), rng.normal(size=b).astype("f4"))
    layers = tuple(layer(a, b) for a, b in pairwise(sizes))
    seen = Normaliser(np.array([0.1, 0.02]), np.array([0.05, 0.01]), 10.0)
    return Actor(layers, np.full(1, 0.7, np.float32), (), seen)


def test_the_scan_and_the_loop_in_numpy_agree(slopes):
    actor, noise = actor_for(slopes), noise_for(slopes, 50)
    slopes.reset(3)
    scanned = slopes.collect(actor, noise)
    last = slopes.observation
    looped, obs, _ = collect(slopes, slopes.reset(3), actor, noise)
    for name in ("obs", "next_obs", "action", "reward", "cost"):
        a, b = np.asarray(getattr(scanned, name)), getattr(looped, name)
        np.testing.assert_allclose(a, b, atol=2e-5, err_msg=name)
    assert len(scanned.mean) == 1 and len(looped.mean) == 4  # of all environments, or of each
    merged = [Normaliser.create(2).merge_each(200 // len(r.mean), r.mean, r.var)
              for r in (scanned, looped)]  # fmt: skip
    np.testing.assert_allclose(merged[0].mean, merged[1].mean, atol=2e-5)
    np.testing.assert_allclose(merged[0].var, merged[1].var, atol=2e-5)
    same(vars_of(scanned, "terminated", "truncated"), vars_of(looped, "terminated", "truncated"))
    np.testing.assert_allclose(last, obs, atol=1e-6)


def vars_of(rollout, *names):
    return {name: np.asarray(getattr(rollout, name)) for name in names}


def test_statistics_are_those_of_all_that_was_given_to_act_on_next(slopes):
    slopes.reset(3)
    rollout = slopes.collect(FREE, noise_for(slopes, 65))
    given = np.asarray(rollout.seen)[1:].astype(np.float64)  # without statistics: as they are
    mean, var = moments(given.reshape(-1, 2))
    np.testing.assert_allclose(rollout.mean[0], mean, rtol=1e-12)
    np.testing.assert_allclose(rollout.var[0], var, rtol=1e-12)
    # Control: the successors, which differ at the ends of episodes, have other statistics.
    other = moments(np.asarray(rollout.next_obs).astype(np.float64).reshape(-1, 2))[0]
    assert not np.allclose(rollout.mean[0], other, rtol=1e-3)


def test_an_epoch_is_one_program_that_is_compiled_once():
    slopes = make_slopes()
    calls = {"_advance": 0, "_move": 0}

    def counted(name):
        program = getattr(slopes, name)

        def call(*given):
            calls[name] += 1
            return program(*given)

        setattr(slopes, name, call)
        return program

    scan, _ = counted("_advance"), counted("_move")
    first, actor = slopes.reset(0), actor_for(slopes)
    for seed in range(3):
        slopes.collect(actor, noise_for(slopes, 30, seed))
    assert calls == {"_advance": 3, "_move": 0} and scan._cache_size() == 1
    collect(slopes, first, actor, noise_for(slopes, 30))  # control: a hand-over at every step
    assert calls == {"_advance": 3, "_move": 30}


def test_the_second_epoch_compiles_nothing_that_the_first_has(caplog):
    """Parameters have one type and place, from the first ones on."""
    run = small(epochs=3, num_envs=4, epoch_steps=80, limits=LIMITS, cost_limit=None)
    epochs = train(run, open_env(run, Slope))
    with caplog.at_level("WARNING", logger="jax"), jax.log_compiles(True):
        next(epochs)
        first = compiled(caplog)
        next(epochs)
    assert {"estimate", "improve", "advance", "joined", "draw"} <= first  # control: it names them
    assert not first & compiled(caplog) - {"isfinite", "_reduce_all"}  # of other shapes


def compiled(caplog):
    """Names of the functions that were compiled since the last call."""
    names = {m[1] for r in caplog.records if (m := re.match(r"Compiling jit\((\w+)\)", r.message))}
    caplog.clear()
    return names


@pytest.mark.parametrize("time", [0.0, 5.0])
@pytest.mark.parametrize("choices", [False, True])
def test_noise_drawn_on_the_device_has_the_law_of_numpys(slopes, time, choices):
    made = Actor((), None, (2, 3)) if choices else Actor((), np.ones(5, np.float32))
    actor = replace(made, noise_time=time)
    noise = np.asarray(slopes.draw(actor, jax.random.key(1), 4000))
    drawn = actor.draw(np.random.default_rng(1), (4000, 4))
    assert noise.shape == drawn.shape and noise.dtype == drawn.dtype

    def moments_of(x):
        """Mean, variance and the correlation of neighbours."""
        centred = x - x.mean()
        return x.mean(), x.var(), (centred[1:] * centred[:-1]).mean() / x.var()

    np.testing.assert_allclose(moments_of(noise), moments_of(drawn), atol=0.05)
    same_key, other = (slopes.draw(actor, jax.random.key(seed), 4000) for seed in (1, 2))
    assert (noise == np.asarray(same_key)).all() and (noise != np.asarray(other)).any()
    if time:  # control: white noise has no such correlation
        white = np.asarray(slopes.draw(made, jax.random.key(1), 4000))
        assert abs(moments_of(white)[2] - moments_of(drawn)[2]) > 0.5


def test_rounds_are_those_of_the_plain_loop(slopes):
    actor = actor_for(slopes)
    for wanted in (Round(11), Round(11, 4, True), Round(5, 2, discount=0.9)):
        np.testing.assert_allclose(
            slopes.play_round(actor, wanted), play_round(slopes, actor, wanted), atol=1e-4
        )
    # To the bit the same, however many are played at once; another seed's are others.
    pair = make_env(Slope, 2, constraints=("thrust", "high"))
    four = slopes.play_round(actor, Round(11))
    np.testing.assert_array_equal(pair.play_round(actor, Round(11)), four[:2])
    np.testing.assert_array_equal(pair.play_round(actor, Round(11, 2)), four[2:])
    assert (pair.play_round(actor, Round(12)) != four[:2]).any()


def test_snapshots_bring_the_same_future_back(slopes):
    actor = actor_for(slopes)
    slopes.reset(1)
    slopes.collect(actor, noise_for(slopes, 50))
    kept = slopes.snapshot()
    once = slopes.collect(actor, noise_for(slopes, 50, seed=2))
    other = make_slopes()
    other.restore(kept)
    again = other.collect(actor, noise_for(slopes, 50, seed=2))
    names = ("seen", "next_obs", "action", "reward", "cost", "terminated", "truncated", "mean")
    same(vars_of(once, *names), vars_of(again, *names))
    with pytest.raises(ValueError, match="same num_envs"):
        make_env(Slope, 2).restore(kept)
    with pytest.raises(ValueError, match="before its first reset"):
        make_env(Slope, 2).snapshot()


def test_check_finds_nothing_wrong():
    assert check_env(Slope, constraints=("thrust", "high")) == []
    assert check_env(lambda: Slope(0.01), cost=too_high) == []
    (finding,) = check_env(Slope, constraints=("thurst",))
    assert "thurst" in finding.problem


@dataclass
class Other:
    """An environment whose parts can be broken."""

    space: Any = None
    broken: str = ""

    @property
    def action_space(self):
        return self.space or gym.spaces.MultiDiscrete([2, 3])

    def reset(self, key):
        obs = {"state": jnp.zeros(2), "privileged_state": jnp.ones(5)}
        info = {"cost": jnp.zeros(2), "truncation": 0.0, "key": jax.random.wrap_key_data(key)}
        if self.broken == "auto":
            info["first_obs"] = jnp.zeros(2)
        return EnvState(jnp.int32(0), obs, info=info)

    def step(self, state, action):
        time = state.inner + 1
        key = jax.random.split(state.info["key"])[0]
        chance = jax.random.uniform(key)
        obs = {"state": jnp.stack([action.sum(), chance]), "privileged_state": jnp.ones(5)}
        cost = jnp.stack([action.max(), action.min()]).astype(jnp.float32)
        info = {"cost": cost, "truncation": (time == 7) * 1.0, "key": key}
        if self.broken == "if" and chance > 2:
            return state
        if self.broken == "entries":
            info["more"] = 1.0
        reward = jnp.where((time == 5) & (self.broken == "nan"), jnp.nan, 1.0)
        return EnvState(time, obs, reward, (time == 7) * 1.0, info)


def test_choices_mappings_keys_and_an_own_time_limit():
    env = make_env(Other, 3)
    assert env.cost_names == ("cost_0", "cost_1") and env.observation_space.shape == (2,)
    env.reset(0)
    actor = Actor((), None, (2, 3))
    rng = np.random.default_rng(0)
    rollout = env.collect(actor, actor.draw(rng, (20, 3)))
    action = np.asarray(rollout.action)
    assert action.dtype == np.int32 and {*action[..., 1].flat} == {0, 1, 2}
    np.testing.assert_array_equal(rollout.cost, np.stack([action.max(-1), action.min(-1)], -1))
    np.testing.assert_array_equal(np.asarray(rollout.next_obs)[..., 0], action.sum(-1))
    # `done` with `truncation` is a cut, not a terminal state.
    assert not rollout.terminated.any()
    np.testing.assert_array_equal(np.flatnonzero(rollout.truncated[:, 0]), [6, 13])
    kept = env.snapshot()
    ahead = env.step(np.zeros((3, 2), np.int64))
    env.restore(kept)
    same(vars(ahead), vars(env.step(np.zeros((3, 2), np.int64))))
    assert len(np.unique(ahead.next_obs[:, 1])) == 3


def test_actions_are_in_the_environments_own_space():
    seen = {}

    class Odd(Other):
        def step(self, state, action):
            seen["shape"], seen["dtype"] = action.shape, action.dtype
            return super().step(state, action)

    env = make_env(lambda: Odd(gym.spaces.Box(2.0, 6.0, (2, 2), np.float32)), 2)
    env.reset(0)
    noise = np.full((1, 2, 4), -1.0, np.float32)
    rollout = env.collect(Actor((), np.ones(4, np.float32)), noise)
    assert seen == {"shape": (2, 2), "dtype": np.float32}
    np.testing.assert_allclose(np.asarray(rollout.next_obs)[..., 0], 8.0)  # four times the bound
    env = make_env(lambda: Other(gym.spaces.Discrete(3, start=5)), 2)
    env.reset(0)
    np.testing.assert_array_equal(env.step(np.array([0, 2])).next_obs[:, 0], [5, 7])


@pytest.mark.parametrize(
    ("broken", "complaint"),
    [("if", "jnp.where"), ("entries", "same entries"), ("auto", "without that wrapper")],
)
def test_what_cannot_be_compiled_is_explained(broken, complaint):
    with pytest.raises(ValueError, match=complaint):
        env = make_env(lambda: Other(broken=broken), 2)
        env.reset(0)
        env.step(np.zeros((2, 2), np.int64))


def test_what_is_not_known_is_refused():
    def branching(obs, action, next_obs):
        return 1.0 if next_obs[0] > 0 else 0.0

    with pytest.raises(ValueError, match="cannot be compiled"):
        make_env(Slope, 2, cost=branching)
    with pytest.raises(ValueError, match="leave both out"):
        make_env(Slope, 2, workers=2)
    with pytest.raises(ValueError, match=r"holdfast-rl\[brax\]|Brax has no"):
        make_env("brax/aant", 2)
    with pytest.raises(ValueError, match="declares no action space"):
        make_env(lambda: type("Mute", (Slope,), {"action_size": None})(), 2)


def test_a_run_stops_at_what_is_not_finite():
    run = small(num_envs=2, epoch_steps=40, epochs=1, cost_limit=5.0)
    env = make_env(lambda: Other(broken="nan"), 2)
    with pytest.raises(TrainingError, match="environment 0 returned a reward that is not finite"):
        list(train(run, env))


@pytest.mark.parametrize("normalise", ["epoch", "running"])
def test_a_killed_run_goes_on_to_the_same_bits(tmp_path, normalise):
    run = small(
        "slope:Slope", epochs=4, epoch_steps=100, limits=LIMITS, cost_limit=None,
        normalise=normalise,
    )  # fmt: skip
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    for path, stop in ((whole, None), (cut, 2)):
        env = open_env(run, Slope)
        for epoch in train_in_folder(create(path, run, env), env):
            if epoch.index == stop:
                break
    agent = Agent.load(cut)
    agent.learn(Slope, 200, out=cut, progress=False)
    assert rows_without_clock(whole / "progress.csv") == rows_without_clock(cut / "progress.csv")
    same(load(whole)[1], load(cut)[1])
    assert {name for name in load(whole)[1] if name.startswith("env.")} >= {
        "env.state.inner", "env.key", "env.episode", "env.age",
    }  # fmt: skip


def test_the_command_line_trains_resumes_and_judges(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(EXAMPLES)
    run = str(tmp_path / "run")
    cli.main(
        ["train", "c-trpo", "slope.py:Slope", "--env-arg", "pull=0.01", "--cost",
         "slope.py:too_high", "--cost-limit", "4", "--steps", "400", "--num-envs", "4",
         "--epoch-steps", "200", "--hidden", "8", "--out", run]
    )  # fmt: skip
    assert "on 1 cpu device" in capsys.readouterr().err
    cli.main(["resume", run, "--steps", "600", "--trust-env", "--quiet"])
    assert len((tmp_path / "run" / "progress.csv").read_text().splitlines()) == 4
    with pytest.raises(SystemExit) as judged:
        cli.main(["evaluate", run, "--trust-env", "--episodes", "8", "--cost-bound", "20"])
    assert judged.value.code == 3  # undecided after so few
    cli.main(["check", "slope.py:Slope", "--limit", "thrust=5", "--limit", "high=5"])


DEVICES = """
import json, sys, hashlib
import jax
import numpy as np
from small_runs import small
from slope import Slope
from holdfast.runs.folder import state_arrays
from holdfast.train import train
from holdfast.train.environment import open_env
run = small(epochs=3, num_envs=8, epoch_steps=320, limits={"thrust": 5.0, "high": 5.0},
            cost_limit=None)
env = open_env(run, Slope)
digest = hashlib.sha256()
for epoch in train(run, env):
    for name, value in sorted(state_arrays(epoch.state).items()):
        digest.update(name.encode() + np.asarray(value).tobytes())
held = {device.id for device in env._worlds.state.inner.devices()}
print(json.dumps({"place": env.facts.place, "held": sorted(held), "digest": digest.hexdigest()}))
"""


def on_one_device():
    with contextlib.redirect_stdout(io.StringIO()) as said:
        exec(DEVICES, {})
    return json.loads(said.getvalue())


def on_two_devices():
    flags = f"{os.environ['XLA_FLAGS']} --xla_force_host_platform_device_count=2"
    paths = [str(Path(__file__).parents[1]), str(EXAMPLES), os.environ.get("PYTHONPATH", "")]
    env = os.environ | {"XLA_FLAGS": flags, "PYTHONPATH": os.pathsep.join(paths)}
    done = subprocess.run(
        [sys.executable, "-c", DEVICES], env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_two_devices_share_the_environments_and_the_bits_stay():
    one, two = on_one_device(), on_two_devices()
    assert one["place"] == "on 1 cpu device" and one["held"] == [0]
    assert two["place"] == "on 2 cpu devices" and two["held"] == [0, 1]
    assert one["digest"] == two["digest"]
    assert len(one["digest"]) == len(hashlib.sha256().hexdigest())
