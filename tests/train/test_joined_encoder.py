# SPDX-License-Identifier: Apache-2.0
"""Observations of several kinds: images and vectors in a Dict, read by a joined encoder."""

import functools
from dataclasses import replace

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import onnxruntime
import pytest

from holdfast import Agent, make_env, make_run
from holdfast.core.networks import ACTIVATIONS, Network
from holdfast.core.policies import init_gaussian
from holdfast.envs.acting import Actor, Normaliser
from holdfast.envs.foreign.spaces import flat_parts
from holdfast.runs.folder import create, load_state, open_folder, state_arrays
from holdfast.runs.training import train_in_folder
from holdfast.ship.export import numpy_policy
from holdfast.ship.export.agreement import Disagreement, check, numpy_heads, onnx_heads
from holdfast.ship.export.graph import onnx_model
from holdfast.ship.export.portable import Portable
from holdfast.train.environment import Spaces
from holdfast.train.state import actor_of, first_state, images_of
from reading_envs import Signpost
from small_runs import rows_without_clock, same

LEARN = dict(
    encoder="cnn", channels=(8, 8), hidden=(32,), num_envs=20, epoch_steps=600, cost_limit=0.25,
    vectorise="sync", critic_passes=1, radius=0.05, activation="relu", seed=0,
)  # fmt: skip
QUICK = dict(
    num_envs=3, epoch_steps=48, hidden=(4,), critic_passes=1, critic_minibatch=16, cg_steps=2,
    cost_limit=0.25, vectorise="sync", encoder="cnn", channels=(2, 2),
)  # fmt: skip


@pytest.mark.full
def test_only_the_joined_encoder_reads_image_and_vector(optimised):
    """Right by the vector alone: 1/2. The MLP learns no more than that in as many steps."""
    learned = lambda **changes: (
        Agent("c-trpo", **(LEARN | changes))
        .learn(Signpost, 24 * 1_000, progress=False, env_args={"size": 20})
        .evaluate(episodes=400)
    )
    assert learned().returns.mean() > 0.75
    assert learned(encoder="mlp").returns.mean() < 0.5 + 4 * 0.5 / 20


def quick(epochs=3, **settings):
    given = QUICK | {"env": "reading_envs:Signpost", "env_args": {"size": 6}} | settings
    return make_run("c-trpo", steps=epochs * given["epoch_steps"], **given)


def opened(run, **changes):
    return make_env(run.env, run.num_envs, env_args=run.env_args, **changes)


def test_each_part_has_its_place():
    space = Signpost(6).observation_space
    assert [begin for begin, _ in flat_parts(space)] == [0, 36, 39]
    assert images_of(space) == ((0, 6, 6, 1, False),)
    assert images_of(Signpost(6, True).observation_space) == ((0, 6, 6, 1, True),)
    pair = gym.spaces.Tuple([gym.spaces.Box(-1, 1, (2,)), space])
    assert images_of(pair) == ((2, 6, 6, 1, False),)
    run = quick()
    state = first_state(run, Spaces.of(run, opened(run)))
    seen = actor_of(run, state).view(np.float32([[255] * 36 + [0, 1, 0] + [2.0, 5.0]]))
    np.testing.assert_allclose(seen[0], [1] * 36 + [0, 1, 0] + [1, 5], rtol=1e-6)
    assert state.learner.policy.network.others == [36, 37, 38, 39, 40]


def test_resumed_run_ends_with_the_same_bytes(tmp_path):
    run = quick()
    whole = create(tmp_path / "whole", run, opened(run))
    for epoch in train_in_folder(whole, opened(run)):
        final = state_arrays(epoch.state)
    stopped = create(tmp_path / "stopped", run, opened(run))
    next(train_in_folder(stopped, opened(run)))
    state, _ = load_state(open_folder(tmp_path / "stopped"))
    assert len(list(train_in_folder(stopped, opened(run), state=state))) == 2
    same(state_arrays(load_state(stopped)[0]), final)
    rows = [rows_without_clock(tmp_path / n / "progress.csv") for n in ("whole", "stopped")]
    assert rows[0] == rows[1]


NETWORK = Network(
    channels=(3, 4), images=((2, 5, 4, 2, False), (43, 4, 4, 3, True)), width=2 + 40 + 1 + 48 + 2
)


def test_numpy_and_jax_read_alike_and_gradients_reach_every_part():
    policy = init_gaussian(jax.random.key(0), 93, 2, (8,), network=NETWORK)
    rows = np.random.default_rng(0).normal(size=(7, 93)).astype("f4")
    layers = tuple((np.asarray(w), np.asarray(b)) for w, b in policy.layers)
    ours = NETWORK(layers, rows[:, None, :], np)[0][:, 0]

    @jax.jit
    def derivatives(policy, rows):
        """(outputs, their change along (1, …, 1), the gradient of their sum)."""
        outputs = lambda p: p.outputs(rows)[0]
        tangent = jax.tree.map(jnp.ones_like, policy)
        slope = jax.grad(lambda p: outputs(p).sum())(policy)
        return *jax.jvp(outputs, (policy,), (tangent,)), slope

    said, moved, slope = derivatives(policy, rows)
    np.testing.assert_allclose(ours, said, atol=1e-6)
    assert np.isfinite(moved).all()
    for first in (0, 2, 42, 43, 91):  # numbers and pixels all matter
        other = rows.copy()
        other[:, first] += 1
        assert np.abs(NETWORK(layers, other, np)[0] - NETWORK(layers, rows, np)[0]).max() > 1e-4
    assert all(np.abs(w).max() > 0 for w, _ in slope.layers)


def test_fisher_products_go_through_it():
    """F v = Jᵀ M J v equals the Hessian of the KL at the policy itself, times v."""
    from jax.flatten_util import ravel_pytree

    small = Network(channels=(2,), images=((1, 2, 2, 1, False),), width=6)
    policy = init_gaussian(jax.random.key(1), 6, 1, (3,), network=small)
    rows = np.random.default_rng(1).normal(size=(5, 6)).astype("f4")

    @jax.jit
    def both(policy, rows):
        """(the product by the Fisher matrix of outputs, the Hessian's product)."""
        flat, back = ravel_pytree(policy)
        kl = lambda x: policy.kl(policy.outputs(rows), back(x).outputs(rows)).mean()
        vector = np.random.default_rng(2).normal(size=flat.size).astype("f4")
        exact = jax.jvp(jax.grad(kl), (flat,), (vector,))[1]
        outputs = lambda x: back(x).outputs(rows)
        out, tangent = jax.jvp(outputs, (flat,), (vector,))
        back_to = jax.vjp(outputs, flat)[1]
        return back_to(policy.fisher(out, tangent, jnp.full(5, 0.2)))[0], exact

    product, exact = both(policy, rows)
    np.testing.assert_allclose(product, exact, rtol=2e-3, atol=2e-5)


def portable(activation):
    rng = np.random.default_rng(0)
    draw = lambda *shape: rng.normal(size=shape).astype("f4") / np.float32(np.sqrt(shape[0]))
    network = replace(NETWORK, activation=activation)
    layers = tuple((draw(*shape), draw(shape[1])) for shape in network.shapes(93, (16,), 2))
    seen = Normaliser(rng.normal(size=93), rng.uniform(0.5, 2, 93), 9.0)
    actor = Actor(layers, np.float32([0.5, 2]), (), seen, network=network)
    return Portable(actor, gym.spaces.Box(-2.0, 3.0, (2,), np.float32))


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_exported_actions_equal_ours_to_1e_6(activation):
    made = portable(activation)
    obs = made.actor.normaliser.mean + np.random.default_rng(1).normal(size=(2_000, 93))
    for heads in (onnx_heads(made, onnx_model(made)), numpy_heads(made, made.npz())):
        action, _ = heads(obs, 4)
        assert np.abs(action - made.act(obs)).max() <= 2.5e-6  # of half the width, 2.5
        assert len(np.unique(action)) > 1_000


def test_a_wrong_export_is_refused():
    """Negative control: the images exchanged, another order of colours."""
    made = portable("tanh")
    network = made.actor.network
    first, second = network.images
    wrong = replace(network, images=(first, (*second[:4], False)))
    other = replace(made, actor=replace(made.actor, network=wrong))
    for heads in (onnx_heads(made, onnx_model(other)), numpy_heads(made, other.npz())):
        with pytest.raises(Disagreement):
            check(made, heads, count=200)


@functools.cache
def trained():
    return Agent("c-trpo", **QUICK).learn(Signpost, 48, progress=False, env_args={"size": 6})


def test_an_export_acts_as_ours_on_what_the_environment_gives(tmp_path):
    agent, task = trained(), Signpost(6)
    agent.export(tmp_path / "p.onnx")
    agent.export(tmp_path / "p.npz")
    session = onnxruntime.InferenceSession(str(tmp_path / "p.onnx"))
    reader = numpy_policy.Policy(tmp_path / "p.npz")
    for seed in range(20):
        obs, _ = task.reset(seed=seed)
        given = {f"observation/{k}": np.float32(v)[None] for k, v in obs.items()}
        theirs = session.run(["action"], given)[0][0]
        assert theirs == reader(obs) == agent.predict(obs)


def test_a_kind_without_an_encoder_is_one_sentence(tmp_path):
    class NoImage(Signpost):
        def __init__(self):
            super().__init__(6)
            parts = self.observation_space.spaces
            self.observation_space = gym.spaces.Dict({"sign": parts["sign"]})

        def _see(self):
            return {"sign": super()._see()["sign"]}

    with pytest.raises(ValueError, match=r"encoder=cnn reads images.*or a Dict or Tuple"):
        Agent("c-trpo", **QUICK).learn(NoImage, 48, progress=False, out=tmp_path / "none")
    assert not (tmp_path / "none").exists()
