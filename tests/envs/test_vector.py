# SPDX-License-Identifier: Apache-2.0
"""Batches of the user's own: each autoreset mode gives the numbers of the plain loop."""

import importlib.util
import sys
import warnings
from functools import partial
from types import ModuleType, SimpleNamespace
from typing import ClassVar

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from tank_env import Tank

from holdfast import Agent
from holdfast.envs.base import NotReproducible, Step
from holdfast.envs.check import check_env
from holdfast.envs.foreign.source import name_env
from holdfast.envs.foreign.vector import ForeignVectorEnv, mode_of
from holdfast.envs.make import make_env

NAMES = ("spill", "dry")
N = 3


def vector(mode, kind=SyncVectorEnv, make=Tank, count=N):
    return kind([make] * count, autoreset_mode=mode)


def play(env, steps=60, seed=1):
    actions = choices(seed, steps, env.num_envs)
    return [env.step(action) for action in actions]


def choices(seed, steps, count):
    """More often open than shut: the tanks fill up and spill at different times."""
    return np.random.default_rng(seed).choice(3, (steps, count), p=[0.2, 0.3, 0.5])


def equal(one: Step, other: Step, fields=tuple(Step.__dataclass_fields__)) -> bool:
    return all(np.array_equal(getattr(one, f), getattr(other, f)) for f in fields)


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.DISABLED])
def test_the_numbers_are_those_of_the_loop(mode):
    loop, batch = make_env(Tank, N, constraints=NAMES), ForeignVectorEnv(vector(mode), NAMES)
    assert np.array_equal(loop.reset(7), batch.reset(7))
    ours, theirs = play(loop), play(batch)
    assert all(map(equal, ours, theirs))
    ended = np.array([step.terminated | step.truncated for step in ours])
    assert (ended.any(1) & ~ended.all(1)).any()  # some end while others go on


def test_processes_of_gymnasium_too():
    spawned = partial(AsyncVectorEnv, context="spawn")  # JAX has threads, and warns of forks
    batch = ForeignVectorEnv(vector(AutoresetMode.NEXT_STEP, spawned), NAMES, owned=True)
    try:
        loop = make_env(Tank, N, constraints=NAMES)
        assert np.array_equal(loop.reset(7), batch.reset(7))
        assert all(map(equal, play(loop, 30), play(batch, 30)))
    finally:
        batch.close()


def test_the_same_step_keeps_the_true_successor_and_the_last_cost():
    loop = make_env(Tank, N, constraints=NAMES)
    batch = ForeignVectorEnv(vector(AutoresetMode.SAME_STEP), NAMES)
    loop.reset(7), batch.reset(7)
    first = np.ones(N, np.bool_)  # the first episodes: afterwards its seeds are its own
    seen = 0
    for ours, theirs in zip(play(loop), play(batch), strict=True):
        for field in ("next_obs", "reward", "cost", "terminated", "truncated"):
            assert np.array_equal(getattr(ours, field)[first], getattr(theirs, field)[first])
        seen += (ours.cost[first & ours.terminated] > 0).sum()
        first &= ~(ours.terminated | ours.truncated)
        ended = theirs.terminated | theirs.truncated
        assert (theirs.obs != theirs.next_obs).any(1).tolist() == ended.tolist()
    assert not first.any() and seen > 0  # the last step had a cost to lose


def test_the_controls_would_show_a_misread_mode():
    """What a batch says in the wrong words: a step too many, or a lost last cost."""
    raw = vector(AutoresetMode.NEXT_STEP)
    raw.reset(seed=7)
    loop = make_env(Tank, N, constraints=NAMES)
    loop.reset(7)
    rewards = [raw.step(action)[1] for action in choices(1, 60, N)]
    assert not all(np.array_equal(r, s.reward) for r, s in zip(rewards, play(loop), strict=True))
    raw = vector(AutoresetMode.SAME_STEP)
    raw.reset(seed=7)
    lost = []
    for action in choices(1, 60, N):
        _, _, terminated, truncated, info = raw.step(action)
        lost.append((terminated | truncated).any() and not info.get("_cost_spill", [0])[0])
    assert any(lost)


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.DISABLED])
def test_a_snapshot_brings_it_back(mode):
    batch = ForeignVectorEnv(vector(mode), NAMES)
    batch.reset(7)
    play(batch, 33)
    kept = batch.snapshot()
    assert len(set(kept["age"].tolist())) > 1  # out of step
    future = play(batch, 30, seed=2)
    other = ForeignVectorEnv(vector(mode), NAMES)
    assert np.array_equal(other.restore(kept), kept["obs"])
    assert all(map(equal, future, play(other, 30, seed=2)))
    kept["actions"] = (kept["actions"] + 1) % 3
    with pytest.raises(NotReproducible, match="another observation"):
        other.restore(kept)


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_check_is_content(mode):
    assert check_env(vector(mode), constraints=NAMES) == []


class Stubborn(SyncVectorEnv):
    def reset(self, *, seed=None, options=None):
        return super().reset(seed=seed)


def test_who_cannot_be_reset_in_part_is_told_what_to_do():
    with pytest.raises(ValueError, match=r"autoreset mode NextStep.*AutoresetMode\.SAME_STEP"):
        ForeignVectorEnv(Stubborn([Tank] * N), NAMES)
    assert "SAME_STEP" in check_env(Stubborn([Tank] * N), constraints=NAMES)[0].remedy
    ForeignVectorEnv(Stubborn([Tank] * N, autoreset_mode=AutoresetMode.SAME_STEP), NAMES)


class Tensor:
    """As much of torch's as is asked for, with its ways."""

    def __init__(self, data, device="cuda:0"):
        self.data, self.device = np.array(data), device

    def detach(self):
        return self

    def cpu(self):
        return self.data

    def new_tensor(self, data):
        return Tensor(np.asarray(data, self.data.dtype))  # of this one's type, not of the data's


torch_like = ModuleType("torch_like")
torch_like.tensor = Tensor
Tensor.__module__ = "torch_like.tensors"


@pytest.fixture(autouse=True)
def torch_is_imported(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch_like", torch_like)


class IsaacLike(gym.Env):
    """Isaac Lab's shape: no VectorEnv, tensors, a reset in the same step, no final observation."""

    def __init__(self, num_envs=N):
        self.env = vector(AutoresetMode.SAME_STEP, count=num_envs)
        self.num_envs = num_envs
        self.single_observation_space = self.env.single_observation_space
        self.single_action_space = self.env.single_action_space
        self.observation_space, self.action_space = (
            self.env.observation_space,
            self.env.action_space,
        )

    def reset(self, seed=None, options=None):
        obs, _ = self.env.reset(seed=seed)
        return {key: Tensor(value) for key, value in obs.items()}, {}

    def step(self, action):
        assert action.device == "cuda:0" and action.data.dtype == np.int64
        obs, reward, terminated, truncated, info = self.env.step(action.data)
        ended = terminated | truncated
        cost = np.array(info.get("cost_spill", np.zeros(self.num_envs)), np.float64)
        if ended.any():
            cost[ended] = info["final_info"]["cost_spill"][ended]
        obs = {key: Tensor(value) for key, value in obs.items()}
        extras = {"cost": Tensor(cost), "log": {"spilled": float(cost.sum())}}
        return obs, Tensor(reward), Tensor(terminated), Tensor(truncated), extras


gym.register("IsaacLike-v0", IsaacLike, disable_env_checker=True)


def test_tensors_and_a_missing_final_observation():
    isaac, usual = (
        ForeignVectorEnv(IsaacLike(N)),
        ForeignVectorEnv(vector(AutoresetMode.SAME_STEP), NAMES),
    )
    assert mode_of(IsaacLike(1)) is AutoresetMode.SAME_STEP
    before = isaac.reset(7)
    assert np.array_equal(before, usual.reset(7))
    for ours, theirs in zip(play(isaac), play(usual), strict=True):
        ended = theirs.terminated | theirs.truncated
        assert equal(ours, theirs, ("obs", "reward", "terminated", "truncated"))
        assert np.array_equal(ours.cost[:, 0], theirs.cost[:, 0])
        assert np.array_equal(ours.next_obs[~ended], theirs.next_obs[~ended])
        assert np.array_equal(ours.next_obs[ended], before[ended])  # the last one it showed
        before = ours.obs


def test_a_batch_that_gym_makes_is_a_batch():
    """Isaac Lab's way: gym.make puts wrappers for single environments around it."""
    plain = ForeignVectorEnv(IsaacLike())
    wrapped = gym.make("IsaacLike-v0")
    assert not hasattr(wrapped, "num_envs")  # why it has to be looked for
    for source in (wrapped, "IsaacLike-v0", lambda: IsaacLike()):
        batch = make_env(source, N)
        assert isinstance(batch, ForeignVectorEnv) and batch.cost_names == ("cost",)
        assert np.array_equal(batch.reset(7), plain.reset(7))
        assert all(map(equal, play(batch, 30), play(plain, 30)))
        assert check_env(source) == []
        with pytest.raises(ValueError, match=r"this IsaacLike has 3: pass the same number"):
            make_env(source, N + 1)
    assert name_env(wrapped)[0] == "<IsaacLike-v0>"  # how many it has is not in its name
    small = {"epoch_steps": 90, "hidden": (8,), "cg_steps": 2, "critic_passes": 1}
    agent = Agent("c-trpo", **small).learn(wrapped, 90, progress=False, cost_limit=5.0)
    assert agent.run.num_envs == N and len(agent.evaluate(wrapped, episodes=3).returns) == 3


class Steered(IsaacLike):
    """The first thing shown is a whole number, the action is not."""

    def __init__(self, num_envs=N):
        super().__init__(num_envs)
        parts = {"gear": spaces.Discrete(3), "speed": spaces.Box(-9.0, 9.0, (1,), np.float32)}
        self.single_observation_space = spaces.Dict(parts)
        self.single_action_space = spaces.Box(-1.0, 1.0, (1,), np.float32)

    def shown(self):
        gear, speed = np.zeros(N, np.int64), np.zeros((N, 1), np.float32)
        return {"gear": Tensor(gear), "speed": Tensor(speed)}

    def reset(self, seed=None, options=None):
        return self.shown(), {}

    def step(self, action):
        never = Tensor(np.zeros(N, np.bool_))
        return self.shown(), Tensor(action.data[:, 0]), never, never, {"cost": Tensor(np.ones(N))}


def test_actions_are_tensors_of_their_own_type():
    batch = ForeignVectorEnv(Steered())
    batch.reset(0)
    assert batch.step(np.full((N, 1), 0.25, np.float32)).reward.tolist() == [0.25] * N
    like = Steered().shown()["gear"]  # the control: made like what is shown it would be 0
    assert like.new_tensor(np.full(N, 0.25)).data.tolist() == [0] * N


def test_six_values_and_a_cost_function_row_by_row():
    level = lambda obs, action, next_obs, info: float(next_obs["level"][0] - obs["level"][0])
    loop = make_env(Tank, N, cost=level)
    for mode in (AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP):
        batch = ForeignVectorEnv(vector(mode), cost=level)
        loop.reset(7), batch.reset(7)
        ours, theirs = play(loop, 10), play(batch, 10)
        assert all(equal(a, b, ("cost",)) for a, b in zip(ours, theirs, strict=True))

    class Six(SyncVectorEnv):
        def step(self, action):
            obs, reward, terminated, truncated, info = super().step(action)
            return obs, reward, np.abs(reward), terminated, truncated, info

    batch = ForeignVectorEnv(Six([Tank] * N))
    batch.reset(7)
    (step,) = play(batch, 1)
    assert batch.cost_names == ("cost",) and np.array_equal(step.cost[:, 0], np.abs(step.reward))


def test_a_cost_that_vanishes_is_named():
    class Forgetful(Tank):
        def step(self, action):
            *rest, info = super().step(action)
            return *rest, info if self.time < 3 else {}

    batch = ForeignVectorEnv(vector(AutoresetMode.NEXT_STEP, make=Forgetful), NAMES)
    batch.reset(7)
    with pytest.raises(ValueError, match=r"info\['cost_spill'\] is missing from this step of env"):
        play(batch, 5)


def test_an_agent_learns_on_it_and_leaves_it_open():
    env = vector(AutoresetMode.NEXT_STEP)
    small = {"epoch_steps": 90, "hidden": (8,), "cg_steps": 2, "critic_passes": 1}
    limits = {"spill": 5.0, "dry": 2.0}
    given = Agent("c-trpo", **small).learn(env, 90, progress=False, limits=limits)
    loop = Agent("c-trpo", num_envs=N, **small).learn(Tank, 90, progress=False, limits=limits)
    assert given.run.num_envs == N and given.run.env == "<SyncVectorEnv>"
    assert np.array_equal(given.state.obs, loop.state.obs)
    assert np.array_equal(
        given.state.learner.policy.layers[0][0], loop.state.learner.policy.layers[0][0]
    )
    env.reset(seed=1)  # still open
    assert np.array_equal(given.evaluate(env, episodes=3).costs, loop.evaluate(episodes=3).costs)
    with pytest.raises(ValueError, match="take num_envs"):
        make_env(lambda: vector(AutoresetMode.NEXT_STEP), N + 1)
    assert isinstance(
        make_env(lambda num_envs: vector(AutoresetMode.DISABLED, count=num_envs), 2),
        ForeignVectorEnv,
    )


def test_a_limit_on_the_tail_works_on_a_batch_as_on_single_environments():
    """The budget is in the observations, the tail in the record, and the bits are the loop's."""
    small = {"epoch_steps": 300, "hidden": (8,), "cg_steps": 2, "critic_passes": 1}
    how = {"progress": False, "limits": {"spill": "5 worst 50%", "dry": 2.0}}
    batch = vector(AutoresetMode.NEXT_STEP)
    given = Agent("c-trpo", **small).learn(batch, 600, **how)
    loop = Agent("c-trpo", num_envs=N, **small).learn(Tank, 600, **how)
    plain = Agent("c-trpo", num_envs=N, **small).learn(
        Tank, 600, **how | {"limits": {"spill": 5.0, "dry": 2.0}}
    )
    assert given.state.obs.shape[1] == plain.state.obs.shape[1] + 1, "the budget that is left"
    assert np.array_equal(given.state.obs, loop.state.obs)
    assert given.metrics[-1]["tail/spill"] == loop.metrics[-1]["tail/spill"] > 0
    assert "tail/dry" not in given.metrics[-1] and "tail/spill" not in plain.metrics[-1]
    judged = given.evaluate(batch, episodes=6, cost_bound=100.0)
    assert judged.summary()["cost"]["spill"]["kind"] == "5 worst 50%"
    assert np.array_equal(judged.costs, loop.evaluate(episodes=6, cost_bound=100.0).costs)


class PoolLike(gym.vector.VectorEnv):
    """EnvPool's shape: seeds fixed when it is made, reset(env_id), a spec with a config."""

    metadata: ClassVar = {"autoreset_mode": AutoresetMode.NEXT_STEP}
    single_observation_space = spaces.Box(-9.0, 9.0, (2,), np.float32)
    single_action_space = spaces.Discrete(2)
    observation_space, action_space = single_observation_space, single_action_space
    spec = SimpleNamespace(config=SimpleNamespace(num_envs=3, max_episode_steps=6))

    def __init__(self):
        self.num_envs, self.elapsed = 3, np.zeros(3, np.int32)
        self.ended = np.zeros(3, np.bool_)

    def reset(self, env_id=None, *, seed=None, options=None):
        if seed is not None:
            warnings.warn("reset(seed=...) is ignored", stacklevel=2)  # an error in these tests
        which = np.arange(3) if env_id is None else np.asarray(env_id)
        self.elapsed[which], self.ended[which] = 0, False
        return self.shown()[which], {"env_id": which, "elapsed_step": self.elapsed[which].copy()}

    def step(self, action, env_id=None):
        assert action.shape == (3,)
        self.elapsed = np.where(self.ended, 0, self.elapsed + 1)
        self.ended = (self.elapsed >= 4 + np.arange(3)) & ~self.ended
        info = {"env_id": np.arange(3), "elapsed_step": self.elapsed.copy()}
        return self.shown(), np.ones(3), self.ended.copy(), np.zeros(3, np.bool_), info

    def shown(self):
        return np.stack([np.arange(3), self.elapsed], 1).astype(np.float32)


def pools():
    """EnvPool itself too, where it is installed; it is no part of the set-up."""
    made = {"like": PoolLike}
    if importlib.util.find_spec("envpool") is not None:
        envpool = importlib.import_module("envpool")
        made["real"] = lambda: envpool.make("CartPole-v1", env_type="gymnasium", num_envs=3)
    return made


def elapsed_step(obs, action, next_obs, info):
    return float(info["elapsed_step"])


@pytest.mark.parametrize("name", pools())
def test_envpool_s_episodes_have_no_step_that_belongs_to_none(name):
    """Its own count of an episode's steps is the cost: 1, 2, ... and after an end 1 again."""
    batch = ForeignVectorEnv(pools()[name](), cost=elapsed_step)
    assert batch.facts.time_limit and not batch.can_snapshot
    obs, age, ends = batch.reset(0), np.zeros(3), 0
    for _ in range(40):
        step = batch.step(np.zeros(3, np.int64))
        age += 1
        assert step.cost[:, 0].tolist() == age.tolist()
        ended = step.terminated | step.truncated
        assert (step.obs != step.next_obs).any(1).tolist() == ended.tolist()
        assert (obs != step.next_obs).any(1).all()
        age[ended], obs, ends = 0, step.obs, ends + ended.sum()
    assert ends > 9


@pytest.mark.parametrize("name", pools())
def test_the_control_has_such_steps(name):
    """The same batch without our resets: after an end its own count shows 0."""
    env = pools()[name]()
    env.reset()
    counts = [env.step(np.zeros(3, np.int32))[-1]["elapsed_step"] for _ in range(20)]
    assert (np.array(counts) == 0).any()
