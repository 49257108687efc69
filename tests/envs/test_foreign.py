# SPDX-License-Identifier: Apache-2.0
"""The adapter: where costs come from, and which spaces it takes."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from walk_env import Walk, info_named, play

from holdfast.envs.base import VecEnv
from holdfast.envs.failure import EnvFailure
from holdfast.envs.foreign.env import ForeignEnv, open_foreign
from holdfast.envs.foreign.spaces import sample_actions
from holdfast.envs.foreign.tape import episode_seed
from holdfast.envs.make import known_ids, make_env
from holdfast.envs.probe import ProbeEnv


class SixValues:
    """The shape of Safety-Gymnasium's environments, which are no gym.Env of today."""

    observation_space = spaces.Box(-np.inf, np.inf, (3,), np.float64)
    action_space = spaces.Box(-1.0, 1.0, (2,), np.float64)

    def reset(self, seed=None, options=None):
        self.rng = np.random.default_rng(seed) if seed is not None else self.rng
        self.t = 0
        return self.rng.normal(size=3), {}

    def step(self, action):
        self.t += 1
        obs, hazards = self.rng.normal(size=3), float(self.rng.random() < 0.5)
        info = {"cost_hazards": hazards, "cost_vases": 1.0, "cost_sum": hazards + 1.0}
        return obs, float(action[0]), hazards + 1.0, False, self.t >= 5, info


# Contract


def test_resets_itself_and_keeps_the_true_successor():
    env = open_foreign(Walk, 3)
    assert isinstance(env, VecEnv) and env.can_snapshot and env.facts.time_limit is None
    assert env.cost_names == ("cost",)
    lone = [Walk() for _ in range(3)]
    obs = env.reset(100)
    assert np.array_equal(obs, [e.reset(seed=100 + i)[0] for i, e in enumerate(lone)])
    kinds, episode = set(), [0, 0, 0]
    for _ in range(60):
        step = env.step(np.zeros((3, 1)))
        for i, e in enumerate(lone):
            next_obs, reward, terminated, truncated, info = e.step(np.zeros(1))
            assert np.array_equal(step.next_obs[i], next_obs)
            assert step.reward[i] == reward and step.cost[i] == [info["cost"]]
            assert (step.terminated[i], step.truncated[i]) == (terminated, truncated)
            kinds.add((bool(terminated), bool(truncated)))
            expected = next_obs
            if terminated or truncated:
                episode[i] += 1
                expected = e.reset(seed=episode_seed(100 + i, episode[i]))[0]
            assert np.array_equal(step.obs[i], expected)
    seeds = {episode_seed(seed, n) for seed in range(100, 103) for n in range(9)}
    assert len(seeds) == 27  # each episode of each environment has its own
    assert {(False, False), (True, False), (False, True)} <= kinds


def test_does_not_hide_not_a_number():
    bad = lambda: Walk(lambda x: {"cost": np.nan}, lambda x, t: np.array([np.inf, np.nan]))
    step = open_foreign(bad, 2).step
    with pytest.raises(ValueError, match="before its first reset"):
        step(np.zeros((2, 1)))
    env = open_foreign(bad, 2)
    env.reset(0)
    step = env.step(np.zeros((2, 1)))
    assert np.isnan(step.cost).all() and np.isnan(step.obs[:, 1]).all()
    assert np.isinf(step.obs[:, 0]).all()


def test_runs_a_registered_id_with_a_cost_function():
    env = open_foreign("Pendulum-v1", 2, cost=lambda obs, action, new: float(abs(new[2]) > 1))
    _, taken = play(env, 250)
    assert taken[199].truncated.all() and not taken[198].truncated.any()
    speeds = np.array([step.next_obs[:, 2] for step in taken])
    costs = np.array([step.cost[:, 0] for step in taken])
    assert np.array_equal(costs, np.abs(speeds) > 1) and 0 < costs.mean() < 1
    env.close()


# Costs


def info_vector(x):
    return {"cost": np.array([x, 1.0])}


@pytest.mark.parametrize(
    ("options", "info", "names", "expected"),
    [
        ({}, info_vector, ("cost_0", "cost_1"), lambda x: [x, 1.0]),
        ({"constraints": ("a", "b")}, info_vector, ("a", "b"), lambda x: [x, 1.0]),
        ({}, info_named, ("cost",), lambda x: [x + 2.0]),
        ({"constraints": ("vases", "hazards")}, info_named, ("vases", "hazards"),
         lambda x: [2.0, x]),
        ({"constraints": ["cost_vases"]}, info_named, ("cost_vases",), lambda x: [2.0]),
        ({"constraints": ("cost",)}, lambda x: {"cost": x}, ("cost",), lambda x: [x]),
        ({}, lambda x: {"cost_a": 9.0, "cost_sum": x}, ("cost",), lambda x: [x]),
        ({"cost": lambda o, a, n: [n[0], o[0]], "constraints": ("new", "old")}, info_named,
         ("new", "old"), None),
        ({"cost": lambda o, a, n, info: info["cost_vases"]}, info_named, ("cost",),
         lambda x: [2.0]),
        ({"cost": lambda o, a, n, scale=3.0: scale}, info_named, ("cost",), lambda x: [3.0]),
    ],
)  # fmt: skip
def test_cost_sources(options, info, names, expected):
    env = open_foreign(lambda: Walk(info), 2, **options)
    assert env.cost_names == names
    obs = env.reset(0)
    for _ in range(10):
        step = env.step(np.zeros((2, 1)))
        for i in range(2):
            x = step.next_obs[i, 0]
            assert step.cost[i] == pytest.approx(
                [x, obs[i, 0]] if expected is None else expected(x)
            )
        obs = step.obs


def test_cost_function_sees_the_old_observation_even_if_the_env_reuses_its_buffer():
    buffer = np.zeros(2)

    def reuse(x, t):
        buffer[:] = x, t
        return buffer

    env = open_foreign(lambda: Walk(observe=reuse), cost=lambda obs, action, new: new[1] - obs[1])
    env.reset(0)
    assert all(env.step(np.zeros((1, 1))).cost == 1.0 for _ in range(20))


def test_six_return_values():
    env = open_foreign(SixValues, 2)
    _, taken = play(env)
    costs = np.concatenate([step.cost[:, 0] for step in taken])
    assert env.cost_names == ("cost",) and set(costs) == {1.0, 2.0}
    assert taken[4].truncated.all() and not taken[4].terminated.any()
    both = open_foreign(SixValues, 2, constraints=("hazards", "vases"))
    _, again = play(both)
    assert np.array_equal(np.concatenate([step.cost.sum(axis=1) for step in again]), costs)


@pytest.mark.parametrize(
    ("source", "options", "message"),
    [
        ("CartPole-v1", {}, r"^Env 'CartPole-v1' reports no cost: return it in info\['cost'\], "
         r"or pass cost= a function of \(obs, action, next_obs\)\.$"),
        (SixValues, {"constraints": ("hazard",)}, "no constraint 'hazard'; it reports hazards, "
         "vases; did you mean 'hazards'"),
        (Walk, {"constraints": ("hazards",)}, "but constraints are 'hazards': call it 'cost'"),
        (lambda: Walk(info_vector), {"constraints": ("a",)}, "2 unnamed costs.*name all 2"),
        (Walk, {"constraints": "hazards"}, "must be different names in a tuple"),
        (Walk, {"constraints": ("a", "a")}, "must be different names"),
        (Walk, {"cost": lambda obs: 0.0}, "takes 1 arguments"),
    ],
)  # fmt: skip
def test_refuses_missing_or_mismatched_costs(source, options, message):
    with pytest.raises(ValueError, match=message):
        open_foreign(source, 2, **options)


def test_an_error_in_a_cost_function_is_named_and_kept():
    with pytest.raises(EnvFailure, match=r"KeyError: 'speed' \(.*test_foreign.*lambda") as caught:
        open_foreign(Walk, cost=lambda obs, action, new, info: info["speed"])
    assert isinstance(caught.value.__cause__, KeyError)


def test_environments_are_closed_when_construction_fails_and_once_in_the_end():
    made = []

    class Closing(Walk):
        closed = 0

        def __init__(self):
            if len(made) == 2:
                raise OSError("no third")
            super().__init__()
            made.append(self)

        def close(self):
            self.closed += 1

    with pytest.raises(EnvFailure, match=r"OSError: no third.*construction of Env"):
        open_foreign(Closing, 3)
    assert [env.closed for env in made] == [1, 1]
    made.clear()
    env = open_foreign(Closing, 2)
    env.close()
    env.close()
    assert [env.closed for env in made] == [1, 1]


def test_cost_that_vanishes_later_names_the_environment():
    flicker = lambda x: {"cost": 1.0} if abs(x) < 0.7 else {}
    env = open_foreign(lambda: Walk(flicker), 3)
    env.reset(0)
    with pytest.raises(ValueError, match="report the cost in every step") as caught:
        for _ in range(100):
            env.step(np.zeros((3, 1)))
    assert "in environment " in caught.value.__notes__[0]


# Spaces


@pytest.mark.parametrize(
    ("space", "native", "flat"),
    [
        (spaces.Box(-1, 1, (2, 2), np.float32), np.array([[1, 2], [3, 4]]) / 8, [1, 2, 3, 4]),
        (spaces.Box(0, 255, (2,), np.uint8), np.array([8, 16], np.uint8), [64, 128]),
        (spaces.Discrete(3), 1, [0, 8, 0]),
        (spaces.Discrete(3, start=5), np.int64(7), [0, 0, 8]),
        (spaces.MultiDiscrete([2, 2]), np.array([1, 0]), [0, 8, 8, 0]),
        (spaces.MultiBinary(2), np.array([1, 0], np.int8), [8, 0]),
        (spaces.Dict({"a": spaces.Box(-1, 1, (1,)), "b": spaces.Discrete(2)}),
         {"b": 1, "a": np.array([0.25], np.float32)}, [2, 0, 8]),
        (spaces.Tuple([spaces.Discrete(2), spaces.Box(-1, 1, (1,))]),
         (0, np.array([0.25], np.float32)), [8, 0, 2]),
    ],
)  # fmt: skip
def test_observations_are_flattened(space, native, flat):
    env = open_foreign(lambda: Walk(space=space, observe=lambda x, t: native), 2)
    assert env.observation_space.shape == (len(flat),)
    assert np.issubdtype(env.observation_space.dtype, np.floating)
    assert np.array_equal(env.reset(0) * 8, [flat, flat])
    step = env.step(np.zeros((2, 1)))
    assert np.array_equal(step.next_obs * 8, [flat, flat]) and step.obs[0] in env.observation_space


@pytest.mark.parametrize(
    ("space", "plain", "given", "expected"),
    [
        (spaces.Box(-1, 2, (2, 2), np.float32), spaces.Box(-1, 2, (4,), np.float32),
         [5.0, 0.5, -5.0, 1.0], np.array([[2, 0.5], [-1, 1]], np.float32)),
        (spaces.Box(-np.inf, np.inf, (1,), np.float64),
         spaces.Box(-np.inf, np.inf, (1,), np.float64), [50.0], np.array([50.0])),
        (spaces.Discrete(3), spaces.Discrete(3), 2, np.int64(2)),
        (spaces.Discrete(3, start=-1), spaces.Discrete(3), 2, np.int64(1)),
        (spaces.MultiDiscrete([2, 3], start=[1, 4]), spaces.MultiDiscrete([2, 3]), [1, 2],
         np.array([2, 6])),
        (spaces.MultiDiscrete([[2], [3]]), spaces.MultiDiscrete([2, 3]), [1, 2],
         np.array([[1], [2]])),
        (spaces.MultiBinary(2), spaces.MultiDiscrete([2, 2]), [1, 0], np.array([1, 0], np.int8)),
    ],
)  # fmt: skip
def test_actions_reach_the_environment_in_its_own_space(space, plain, given, expected):
    inner = Walk(actions=space)
    env = open_foreign(inner)
    assert env.action_space == plain
    env.reset(0)
    env.step(np.array([given]))
    assert np.array_equal(inner.seen[-1], expected) and inner.seen[-1] in space
    rng = np.random.default_rng(0)
    for _ in range(20):
        env.step(sample_actions(env.action_space, 1, rng))
        assert inner.seen[-1] in space


def test_clipping_can_be_switched_off():
    inner = Walk()
    env = open_foreign(inner, clip_actions=False)
    env.reset(0)
    env.step(np.array([[3.0]]))
    assert inner.seen[-1] == 3.0


# Bad input


def test_refuses_bad_input_in_one_sentence():
    vector = gym.make_vec("CartPole-v1", 1, vectorization_mode="sync")
    wrong_size = lambda: Walk(observe=lambda x, t: np.zeros(1))
    old_reset, old_step = Walk(), Walk()
    old_reset.reset = lambda seed=None: np.zeros(2)
    old_step.step = lambda action: (np.zeros(2), 0.0, False, {})
    shared = Walk()
    listed = spaces.Sequence(spaces.Discrete(2))
    for source, options, message in [
        (Walk(), {"num_envs": 2}, "pass a function that makes one"),
        (Walk(), {"vectorise": "process"}, "pass a function that makes one"),
        (lambda: shared, {"num_envs": 2}, "same environment twice"),
        (lambda: 3, {}, "must return an environment"),
        (3, {}, "is not an environment"),
        (Walk, {"num_envs": 0}, "at least 1"),
        (Walk, {"workers": -1}, "0 means one for each core"),
        (Walk, {"vectorise": "threads"}, "'sync' .* 'process' or 'auto'"),
        (vector, {}, "vectorised already"),
        (old_reset, {}, r"returned a ndarray, expected \(obs, info\)"),
        (old_step, {}, "returned 4 values"),
        (lambda: Walk(space=listed), {}, "variable size"),
        (
            lambda: Walk(
                space=spaces.Dict(a=spaces.Discrete(2), b=spaces.Tuple([spaces.Text(3), listed]))
            ),
            {},
            r"variable size \(b: 1: Sequence\), which no encoder reads",
        ),
        (lambda: Walk(space=3), {}, "not a Gymnasium space"),
        (lambda: Walk(actions=spaces.Dict(a=spaces.Discrete(2))), {}, "wrap it to one of these"),
        (lambda: Walk(actions=spaces.Box(0, 3, (1,), np.int64)), {}, "use a float dtype"),
    ]:
        with pytest.raises(ValueError, match=message):
            open_foreign(source, **options)
    env = open_foreign(wrong_size)
    with pytest.raises(ValueError, match="has 1 numbers, observation_space has 2"):
        env.reset(0)
    env = open_foreign(Walk, 2)
    with pytest.raises(ValueError, match="expected \\(2, 1\\)"):
        env.step(np.zeros(2))
    vector.close()


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("Pendulum-v2", "Pendulum-v1"),
        ("pendulum-v1", "Pendulum-v1"),
        ("probe/Shortcut-v1", "probe/Shortcut-v0"),
        ("SafetyHoperVelocity-v1", "SafetyHopperVelocity-v1"),
    ],
)
def test_unknown_id_suggests_a_known_one(wrong, right):
    with pytest.raises(ValueError, match=f"unknown env '{wrong}'; did you mean '{right}'"):
        make_env(wrong, 2)
    with pytest.raises(ValueError, match="there is no module 'nosuchpackage'"):
        make_env("nosuchpackage:A-v0", 2)


@pytest.mark.parametrize("name", ["MyRobot-v0", "Tank", "Valve-v0", "x"])
def test_an_id_that_is_near_none_suggests_none(name):
    """The control: a suggestion that is no near miss only misleads."""
    with pytest.raises(ValueError, match=f"unknown env '{name}'; `holdfast envs` shows ours"):
        make_env(name, 2)


# One entry


def test_make_env_resolves_every_kind():
    probe = make_env("probe/Machines-v0", 3)
    assert isinstance(probe, ProbeEnv) and make_env(probe, 3) is probe
    assert "probe/Machines-v0" in known_ids()
    foreign = make_env("Pendulum-v1", 2, cost=lambda obs, action, new: 0.0)
    assert isinstance(foreign, ForeignEnv) and foreign.num_envs == 2
    cost = lambda obs, action, new: 0.0
    for env, num_envs, options, message in [
        (probe, 2, {}, "this ProbeEnv has 3"),
        (probe, 3, {"cost": cost}, "defines its own costs"),
        ("probe/Speed-v0", 2, {"cost": cost}, "part of the task"),
        ("probe/Machines-v0", 2, {"constraints": ("heet",)}, "choose from heat, noise"),
    ]:
        with pytest.raises(ValueError, match=message):
            make_env(env, num_envs, **options)
