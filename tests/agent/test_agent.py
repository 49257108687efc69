# SPDX-License-Identifier: Apache-2.0
"""`predict`: observations as the environment gives them, actions inside its space."""

from dataclasses import replace

import gymnasium as gym
import jax
import numpy as np
import onnxruntime
import pytest
from gymnasium import spaces
from gymnasium.vector.utils import batch_space, create_empty_array
from gymnasium.vector.utils import concatenate as join

from full import product_by_diagonal
from holdfast import Agent
from holdfast.envs.foreign.spaces import flatten_batch
from holdfast.envs.make import make_env
from holdfast.run import make_run
from holdfast.ship.export.numpy_policy import Policy
from holdfast.ship.export.parts import parts_of
from holdfast.train.environment import Spaces
from holdfast.train.state import first_state

PARTS = spaces.Dict(
    {
        "where": spaces.Tuple((spaces.Box(-1, 1, (2, 3), np.float64), spaces.Discrete(4, start=2))),
        "bits": spaces.MultiBinary(3),
        "kinds": spaces.MultiDiscrete([2, 3], start=[1, 0]),
    }
)
OBSERVATIONS = {
    "box": spaces.Box(-1, 1, (3,), np.float32),
    "image": spaces.Box(0, 255, (2, 2, 3), np.uint8),
    "discrete": spaces.Discrete(5, start=-1),
    "tuple": spaces.Tuple((spaces.Discrete(2), spaces.Box(-1, 1, (1,), np.float32))),
    "dict": PARTS,
    "one part": spaces.Dict({"policy": spaces.Box(-1, 1, (3,), np.float32)}),
}
ACTIONS = {
    "box": spaces.Box(np.array([[-2.0, 0.0]], np.float32), np.array([[1.0, 0.5]], np.float32)),
    "half-bounded": spaces.Box(np.array([0.0, -np.inf]), np.array([np.inf, 1.0]), dtype=np.float64),
    "discrete": spaces.Discrete(3, start=5),
    "multi-discrete": spaces.MultiDiscrete([2, 4], start=[3, 0]),
    "multi-binary": spaces.MultiBinary(4),
}


class Any(gym.Env):
    """Random observations of a space; asserts that actions lie in theirs."""

    def __init__(self, observed, acted):
        self.observation_space, self.action_space = observed, acted

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.observation_space.seed(seed)
        return self.observation_space.sample(), {}

    def step(self, action):
        assert self.action_space.contains(action)
        return self.observation_space.sample(), 0.0, False, True, {"cost": 0.0}


def untrained(observed, acted, scale=1.0):
    """An agent as if it had learned: its first layer is `scale` times what it is at first."""
    run = make_run("c-trpo", env="<Any>", num_envs=2, epoch_steps=80, cost_limit=1.0, hidden=(4,))
    spaces_ = Spaces.of(run, make_env(lambda: Any(observed, acted), 2))
    state = first_state(run, spaces_)
    policy = jax.tree.map(lambda x: x * scale, state.learner.policy)
    agent = Agent()
    agent.run, agent.spaces = run, spaces_
    agent.state = replace(state, learner=replace(state.learner, policy=policy))
    return agent


def several(space, count):
    """n samples, and the same as a VectorEnv would give them."""
    space.seed(0)
    rows = [space.sample() for _ in range(count)]
    return rows, join(space, rows, create_empty_array(space, count))


@pytest.mark.parametrize("kind", OBSERVATIONS)
def test_observations_as_the_environment_gives_them(kind, tmp_path):
    space = OBSERVATIONS[kind]
    agent = untrained(space, ACTIONS["box"])
    agent.save(tmp_path / "run")
    loaded = Agent.load(tmp_path / "run")
    assert loaded.spaces.native_observation == space
    rows, many = several(space, 5)
    together = agent.predict(many)
    assert together.shape == (5, 1, 2)
    for row, action in zip(rows, together, strict=True):
        assert np.array_equal(agent.predict(row), action)
        assert np.array_equal(loaded.predict(row), action)
    flat = np.stack([spaces.flatten(space, row) for row in rows])
    assert np.array_equal(flatten_batch(space, many, 5), flat)
    assert len(np.unique(together)) > 1  # they are not all the same anyway


@pytest.mark.parametrize("kind", ACTIONS)
@pytest.mark.parametrize("scale", [1.0, 1e3])
def test_actions_lie_in_the_space(kind, scale, tmp_path):
    space = ACTIONS[kind]
    agent = untrained(OBSERVATIONS["box"], space, scale)
    agent.save(tmp_path / "run")
    _, many = several(OBSERVATIONS["box"], 50)
    for who in (agent, Agent.load(tmp_path / "run")):
        for deterministic in (True, False):
            actions = who.predict(many, deterministic=deterministic, seed=1)
            assert batch_space(space, 50).contains(actions)
            assert all(space.contains(action) for action in actions)
            assert space.contains(who.predict(many[0], deterministic=deterministic, seed=1))
    if kind == "box" and scale == 1.0:  # the control: the policy alone leaves it
        raw, _ = agent.actor().act(
            many.astype(np.float32), agent.actor().draw(np.random.default_rng(1), (50,))
        )
        assert (np.abs(raw) > 1).any()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_raises(bad):
    agent = untrained(OBSERVATIONS["box"], ACTIONS["discrete"])
    agent.predict(np.zeros(3))
    for obs in (np.array([0.0, bad, 0.0]), np.array([[0.0] * 3, [0.0, bad, 0.0]])):
        with pytest.raises(ValueError, match="NaN or infinity"):
            agent.predict(obs)
    agent = untrained(PARTS, ACTIONS["discrete"])
    rows, _ = several(PARTS, 1)
    agent.predict(rows[0])
    with pytest.raises(ValueError, match="NaN or infinity"):
        agent.predict(rows[0] | {"where": (np.full((2, 3), bad), 2)})


@pytest.mark.parametrize(
    ("kind", "obs"),
    [
        ("box", np.zeros(4)),
        ("box", np.zeros((1, 1, 3))),
        ("box", 0.5),
        ("box", {"level": np.zeros(3)}),
        ("image", np.zeros((2, 3, 2))),
        ("discrete", 4),
        ("discrete", -2),
        ("dict", {"where": (np.zeros((2, 3)), 2), "bits": np.zeros(3)}),
        ("dict", np.zeros(18)),
        ("tuple", (0,)),
    ],
)
def test_another_observation_is_refused(kind, obs):
    agent = untrained(OBSERVATIONS[kind], ACTIONS["discrete"])
    told = "not an observation of the training environment"
    with pytest.raises(ValueError, match=told) as caught:
        agent.predict(obs)
    assert "-1 axes" not in str(caught.value)


def test_native_tasks_are_clipped_too():
    agent = Agent("c-trpo", cost_limit=6.0, num_envs=2, epoch_steps=200, hidden=(4,))
    run = make_run("c-trpo", env="probe/Speed-v0", cost_limit=6.0, num_envs=2, epoch_steps=200)
    env = make_env("probe/Speed-v0", 2)
    agent.run, agent.spaces = run, Spaces.of(run, env)
    state = first_state(run, agent.spaces)
    policy = jax.tree.map(lambda x: x * 1e3, state.learner.policy)
    agent.state = replace(state, learner=replace(state.learner, policy=policy))
    actions = agent.predict(env.reset(0), deterministic=False, seed=0)
    assert batch_space(env.action_space, 2).contains(actions)


# The same through export


def leaf(obs, path):
    for key in path:
        obs = obs[key]
    return np.asarray(obs, np.float64)


def exported(agent, folder):
    agent.export(folder / "policy.onnx")
    agent.export(folder / "policy.npz")
    return onnxruntime.InferenceSession(folder / "policy.onnx"), Policy(folder / "policy.npz")


def inputs(space, many):
    return {part.name: leaf(many, part.path).astype(np.float32) for part in parts_of(space)}


@pytest.mark.parametrize(("kind", "acted"), product_by_diagonal(OBSERVATIONS, ACTIONS))
def test_an_export_takes_and_gives_what_predict_does(kind, acted, tmp_path):
    """Observations in their parts as the environment gives them, actions as it takes them."""
    space, actions = OBSERVATIONS[kind], ACTIONS[acted]
    agent = untrained(space, actions)
    session, reader = exported(agent, tmp_path)
    rows, many = several(space, 200)
    given = inputs(space, many)
    assert given.keys() == {put.name for put in session.get_inputs()}
    (theirs,) = session.run(["action"], given)
    ours = agent.predict(many)
    kind = np.float32 if ours.dtype.kind == "f" else ours.dtype  # of numbers, by default
    assert theirs.shape == ours.shape and theirs.dtype == kind
    largest = max(np.abs(part).max() for part in given.values())
    rounding = np.finfo(np.float32).eps * largest  # of sums over pixels, which processors order
    np.testing.assert_allclose(theirs, ours, rtol=0, atol=max(1.5e-6, rounding))
    assert batch_space(actions, 200).contains(theirs)
    np.testing.assert_array_equal(reader(many), ours)
    for i in range(5):
        np.testing.assert_array_equal(reader(rows[i]), ours[i])
        assert actions.contains(reader(rows[i]))
    assert len(np.unique(ours, axis=0)) > 1 or acted != "box"  # they are not all the same anyway


def test_parts_that_are_exchanged_give_other_actions(tmp_path):
    """The control: names and their order matter."""
    space = spaces.Dict({"a": spaces.Discrete(3), "b": spaces.Discrete(3)})
    agent = untrained(space, ACTIONS["box"])
    session, _ = exported(agent, tmp_path)
    _, many = several(space, 50)
    swapped = inputs(space, {"a": many["b"], "b": many["a"]})
    assert np.abs(session.run(["action"], swapped)[0] - agent.predict(many)).max() > 1e-3


@pytest.mark.parametrize("acted", ["box", "discrete", "multi-discrete", "multi-binary"])
def test_what_is_no_observation_is_no_order(acted, tmp_path):
    """A choice that is none, NaN in any part: NumPy raises, ONNX answers outside the space."""
    agent = untrained(PARTS, ACTIONS[acted])
    session, reader = exported(agent, tmp_path)
    rows, many = several(PARTS, 1)
    good = inputs(PARTS, many)
    assert ACTIONS[acted].contains(session.run(["action"], good)[0][0])
    for part in parts_of(PARTS):
        bad = 9.0 if part.sizes else np.nan
        wrong = good | {part.name: np.full_like(good[part.name], bad)}
        assert not ACTIONS[acted].contains(session.run(["action"], wrong)[0][0]), part
    reader(rows[0])
    whole = {"bits": rows[0]["bits"], "kinds": rows[0]["kinds"]}
    for where, told in (
        ((np.full((2, 3), np.nan), 2), "NaN or infinity"),
        ((np.zeros((2, 3)), 9), "not one of its choices"),
        ((np.zeros((3, 2)), 2), r"where/0 has shape \(3, 2\); this policy takes \(2, 3\)"),
        ((np.zeros((2, 3)),), r"lacks the part \['where', 1\]"),
    ):
        with pytest.raises(ValueError, match=told):
            reader(whole | {"where": where})
    with pytest.raises(ValueError, match="lacks the part"):
        reader(whole)
