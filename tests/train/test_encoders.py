# SPDX-License-Identifier: Apache-2.0
"""Runs that read images or remember: learned, resumed, shared among workers, exported."""

import functools
import io
from dataclasses import replace

import gymnasium as gym
import jax.numpy as jnp
import numpy as np
import onnxruntime
import pytest

from full import repeats
from holdfast import Agent, make_env, make_run
from holdfast.core.networks import ACTIVATIONS, Network
from holdfast.envs.acting import Actor, Normaliser
from holdfast.envs.rollout import Round, collect, play
from holdfast.runs.folder import create, load_state, open_folder, state_arrays
from holdfast.runs.training import begin_with, train_in_folder
from holdfast.ship.export import numpy_policy
from holdfast.ship.export.agreement import Disagreement, check, numpy_heads, onnx_heads
from holdfast.ship.export.graph import onnx_model
from holdfast.ship.export.portable import Portable
from holdfast.train import train
from holdfast.train.environment import Spaces
from holdfast.train.epoch import collect_epoch
from holdfast.train.state import actor_of, first_state, reset_state
from reading_envs import Recall, Tiles
from small_runs import rows_without_clock, same

RECALL = dict(
    encoder="gru", memory=8, hidden=(16,), num_envs=20, epoch_steps=1200, cost_limit=0.25,
    vectorise="sync", critic_passes=4, radius=0.02,
)  # fmt: skip
TILES = dict(
    encoder="cnn", channels=(8, 8), hidden=(32,), num_envs=20, epoch_steps=600, cost_limit=0.25,
    vectorise="sync", critic_passes=1, radius=0.05, activation="relu", cg_steps=4,
)  # fmt: skip
QUICK = dict(
    num_envs=3, epoch_steps=48, hidden=(4,), critic_passes=1, critic_minibatch=16, cg_steps=2,
    cost_limit=0.25, vectorise="sync",
)  # fmt: skip
GRU, CNN = {"encoder": "gru", "memory": 3}, {"encoder": "cnn", "channels": (2, 2)}
TASKS = {"gru": (Recall, GRU, {"pause": 1}), "cnn": (Tiles, CNN, {"size": 6})}


def learned(env, epochs, settings, **args):
    agent = Agent("c-trpo", seed=0, **settings)
    return agent.learn(env, epochs * settings["epoch_steps"], progress=False, env_args=args)


def test_a_memory_solves_what_no_policy_without_one_can():
    """Without memory every policy is right half of the time, so none is within the limit."""
    agent = learned(Recall, 11, RECALL)
    assert agent.metrics[-1]["ep_return_raw"] > 0.85
    assert agent.metrics[-1]["ep_cost_raw"] < 0.25
    judged = agent.evaluate(episodes=400)
    assert judged.returns.mean() > 0.85 and judged.costs.mean() < 0.15
    plain = learned(Recall, 11, RECALL | {"encoder": "mlp"}).evaluate(episodes=400)
    assert abs(plain.returns.mean() - 0.5) < 4 * 0.5 / 20  # the closed form, and four deviations


def test_convolutions_solve_what_dense_layers_do_not_in_as_many_steps():
    agent = learned(Tiles, 18, TILES, size=20)
    judged = agent.evaluate(episodes=400)
    assert judged.returns.mean() > 0.75
    dense = learned(Tiles, 18, TILES | {"encoder": "mlp"}, size=20)
    assert abs(dense.evaluate(episodes=400).returns.mean() - 0.5) < 4 * 0.5 / 20  # as by guessing
    size = lambda a: sum(w.size for w, _ in a.state.learner.policy.layers)
    assert size(dense) > size(agent)


@pytest.mark.learning
def test_a_long_pause_is_remembered_too():
    agent = learned(Recall, 60, RECALL, pause=8)
    judged = agent.evaluate(episodes=400)
    assert judged.returns.mean() > 0.95 and judged.costs.mean() < 0.05


def quick(name, epochs=4, **settings):
    env, chosen, args = TASKS[name]
    kind = f"reading_envs:{env.__name__}"
    given = QUICK | chosen | {"env": kind, "env_args": args} | settings
    return make_run("c-trpo", steps=epochs * given["epoch_steps"], **given)


def opened(run, **changes):
    return make_env(run.env, run.num_envs, env_args=run.env_args, **changes)


@pytest.mark.parametrize("name", TASKS)
def test_resumed_run_ends_with_the_same_bytes(name, tmp_path):
    """16 steps of an environment end in the middle of an episode."""
    run = quick(name, 3)
    whole = create(tmp_path / "whole", run, opened(run))
    for epoch in train_in_folder(whole, opened(run)):
        final = state_arrays(epoch.state)
    stopped = create(tmp_path / "stopped", run, opened(run))
    next(train_in_folder(stopped, opened(run)))
    state, _ = load_state(open_folder(tmp_path / "stopped"))
    assert state.epoch == 1
    assert len(list(train_in_folder(stopped, opened(run), state=state))) == 2
    same(state_arrays(load_state(stopped)[0]), final)
    rows = [rows_without_clock(tmp_path / n / "progress.csv") for n in ("whole", "stopped")]
    assert rows[0] == rows[1] and len(rows[0]) == 3
    assert ("memory" in final) == (name == "gru")


def test_the_memory_belongs_to_what_is_resumed():
    """Negative control: with an empty one the next epoch is another."""
    run = quick("gru", 3)
    first, *_, last = train(run, opened(run))
    assert np.abs(first.state.memory).max(1).all()  # in the middle of an episode
    empty = replace(first.state, memory=np.zeros_like(first.state.memory))
    ends = [list(train(run, opened(run), state))[-1] for state in (first.state, empty)]
    same(state_arrays(ends[0].state), state_arrays(last.state))
    one, other = (state_arrays(end.state)["learner.policy.layers[1][0]"] for end in ends)
    assert not np.array_equal(one, other)


@pytest.mark.parametrize("name", TASKS)
def test_workers_change_no_bit(name):
    run = quick(name, 2)
    here, there = (
        state_arrays(list(train(run, opened(run, **how)))[-1].state)
        for how in ({"vectorise": "sync"}, {"vectorise": "process", "workers": 2})
    )
    learned = lambda arrays: {k: v for k, v in arrays.items() if not k.startswith("env.")}
    same(learned(here), learned(there))


def test_the_update_sees_the_sequences_that_were_acted():
    """Recorded memories are those of an unrolling from the epoch's first, episode ends included."""
    run = quick("gru", epoch_steps=120)
    env = opened(run)
    state = first_state(run, Spaces.of(run, env))
    actor, obs = actor_of(run, state), env.reset(5)
    noise = actor.draw(np.random.default_rng(0), (80, 3))
    start, obs, _ = collect(env, obs, actor, noise[:38])
    rollout, *_ = collect(env, obs, actor, noise[38:], memory=start.seen[-1, :, 2:])
    assert np.abs(rollout.seen[0, :, 2:]).max(1).all() and rollout.done.any(0).all()
    network, layers = actor.network, state.learner.policy.layers
    memory = rollout.seen[0, :, 2:]
    for t in range(42):
        np.testing.assert_allclose(rollout.seen[t, :, 2:], memory, atol=1e-6)
        assert (rollout.seen[t, :, 2:] == 0).all(1).sum() == (rollout.done[t - 1].sum() if t else 0)
        memory = network(layers, np.concatenate([rollout.seen[t, :, :2], memory], 1), jnp)[1]
        ended = rollout.next_obs[t][rollout.done[t]]  # critics see what was remembered at the end
        np.testing.assert_allclose(ended[:, 2:], memory[rollout.done[t]], atol=1e-6)
        memory = np.where(rollout.done[t][:, None], 0, memory)


@functools.cache
def trained(name, encoder=None):
    env, chosen, args = TASKS[name]
    agent = Agent("c-trpo", **(QUICK | chosen | ({"encoder": encoder} if encoder else {})))
    return agent.learn(env, 48, progress=False, env_args=args)


def test_predict_hands_a_memory_on():
    """The actions of whole episodes are those of an evaluation; batches and single ones agree."""
    agent, env = trained("gru"), make_env(Recall, 1)
    said = [p.action for p in play(env, agent.actor(), Round(7, deterministic=True))]
    task, memory = Recall(), None
    obs, _ = task.reset(seed=7)
    for expected in said:
        action, memory = agent.predict(obs, memory=memory)
        assert action == expected[0] and memory.shape == (3,)
        both, kept = agent.predict(np.stack([obs, obs]), memory=np.stack([memory, 0 * memory]))
        again, alone = agent.predict(obs)
        assert both.shape == (2,) and both[1] == again
        np.testing.assert_array_equal(kept[1], alone)
        obs, *_ = task.step(action)
    with pytest.raises(ValueError, match="a memory of shape"):
        agent.predict(obs, memory=np.zeros(4))
    with pytest.raises(ValueError, match="NaN"):
        agent.predict(obs, memory=np.full(3, np.nan))
    plain = trained("gru", "mlp")
    assert np.ndim(plain.predict(obs)) == 0
    with pytest.raises(ValueError, match="a memory of shape"):
        plain.predict(obs, memory=np.zeros(3))


@pytest.mark.parametrize("name", TASKS)
def test_an_export_acts_as_ours_in_an_episode(name, tmp_path):
    """ONNX and NumPy, to 1e-6 in what is remembered; checked in the export."""
    agent, (env, _, args) = trained(name), TASKS[name]
    assert "same actions" in str(agent.export(tmp_path / "p.onnx"))
    assert agent.export(tmp_path / "p.npz").observations > 2_000
    session = onnxruntime.InferenceSession(str(tmp_path / "p.onnx"))
    reader, task = numpy_policy.Policy(tmp_path / "p.npz"), env(**args)
    remembers = name == "gru"
    assert not session.get_overridable_initializers(), "onnxruntime warns of them"
    begun = {"memory": np.zeros((1, 3), np.float32)} if remembers else {}
    kept, state, memory = None, None, begun
    for seed in range(5):
        obs, ended = task.reset(seed=seed)[0], False
        while not ended:
            given = {"observation": np.float32(obs)[None], **memory}
            theirs, *after = session.run(["action", *["next_memory"] * remembers], given)
            mine, ours = reader(obs, memory=state), agent.predict(obs, memory=kept)
            if remembers:
                (mine, state), (ours, kept) = mine, ours
                memory = {"memory": after[0]}
                np.testing.assert_allclose(after[0][0], kept, atol=1e-6)
                np.testing.assert_array_equal(state, kept)
            assert theirs[0] == mine == ours
            obs, _, ended, *_ = task.step(ours)
        kept, state, memory = None, None, begun


def portable(network, size, seed=0):
    """A Gaussian policy in a Box with larger weights than one begins with."""
    rng = np.random.default_rng(seed)
    draw = lambda *shape: rng.normal(size=shape).astype("f4") / np.float32(np.sqrt(shape[0]))
    layers = tuple((draw(*shape), draw(shape[1])) for shape in network.shapes(size, (16, 16), 2))
    seen = Normaliser(rng.normal(size=size), rng.uniform(0.5, 2, size), 9.0)
    actor = Actor(layers, np.float32([0.5, 2]), (), seen, network=network)
    return Portable(actor, gym.spaces.Box(-2.0, 3.0, (2,), np.float32))


KINDS = {
    "dense": (Network(), 5),
    "gru": (Network(memory=6), 5),
    "cnn": (Network(image=(7, 6, 3), channels=(4, 5)), 126),
    "cnn, colours first": (Network(image=(7, 6, 3), colours_first=True, channels=(4, 5)), 126),
}


@pytest.mark.repeats
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_exported_actions_equal_ours(kind, activation):
    """To 1e-6 of half the bounds' width, on thousands of observations and memories."""
    count = repeats(2_000, 10_000)
    network, size = KINDS[kind]
    made = portable(replace(network, activation=activation), size)
    rng = np.random.default_rng(1)
    obs = made.actor.normaliser.mean + rng.normal(size=(count, size))
    memory = rng.uniform(-1, 1, (count, network.memory)).astype("f4") if network.memory else None
    noise = made.actor.draw(np.random.default_rng(4), (len(obs),))
    for heads in (
        onnx_heads(made, onnx_model(made, True, True), True, True),
        numpy_heads(made, made.npz()),
    ):
        action, sampled, *kept = heads(obs, 4, memory)
        assert np.abs(action - made.act(obs, None, memory)).max() <= 2.5e-6
        assert np.abs(sampled - made.act(obs, noise, memory)).max() <= 2.5e-6
        assert len(np.unique(action)) > 1_000
        if network.memory:
            assert np.abs(kept[0] - made.remembered(obs, memory)).max() <= 1e-6


@pytest.mark.parametrize("kind", KINDS)
def test_a_wrong_export_is_refused(kind):
    """Negative control: another kernel or gate, another activation, another order of colours."""
    made = portable(*KINDS[kind])
    check(made, onnx_heads(made, onnx_model(made, True, True), True, True), count=500)
    (weight, bias), *rest = made.actor.layers
    network = made.actor.network
    wrong = [
        replace(made.actor, layers=((weight + np.float32(1e-3), bias), *rest)),
        replace(made.actor, network=replace(network, activation="elu")),
        replace(made.actor, network=replace(network, colours_first=not network.colours_first)),
    ]
    for actor in wrong if network.image else wrong[:2]:
        other = replace(made, actor=actor)
        for heads in (
            onnx_heads(made, onnx_model(other, True, True), True, True),
            numpy_heads(made, other.npz()),
        ):
            with pytest.raises(Disagreement):
                check(made, heads, count=500)


@pytest.mark.parametrize("first", [False, True])
def test_pixels_are_scaled_by_their_bounds(first):
    """To [0, 1], whatever `normalise` says, and no statistics are kept of them."""
    args = {"size": 6, "colours_first": first}
    run = quick("cnn", normalise="epoch" if first else "running", env_args=args)
    env = opened(run)
    state = reset_state(run, env, first_state(run, Spaces.of(run, env)), 1)
    rollout, state = collect_epoch(run, env, state, 1, None)
    assert set(np.unique(rollout.seen)) == {0.0, 1.0} and rollout.mean.size == 0
    actor = actor_of(run, state)
    assert actor.network.image == (6, 6, 1) and actor.network.colours_first == first
    seen = actor.view(np.float32([[0] * 18 + [255] * 18]))
    np.testing.assert_array_equal(seen, np.float32([[0] * 18 + [1] * 18]))
    np.testing.assert_array_equal(actor.normaliser.mean, np.zeros(36))


def test_what_does_not_fit_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"encoder=gru cannot be used with ppo-lag.*c-trpo"):
        make_run("ppo-lag", encoder="gru")
    with pytest.raises(ValueError, match=r"encoder=cnn reads images.*encoder=mlp"):
        agent = Agent("c-trpo", **(QUICK | CNN | {"epoch_steps": 60}))
        agent.learn("probe/Speed-v0", 60, out=tmp_path / "none")
    assert not (tmp_path / "none").exists()
    with pytest.raises(ValueError, match="memory=0"):
        make_run("c-trpo", memory=0)
    with pytest.raises(ValueError, match="channels=\\(0,\\)"):
        make_run("c-trpo", channels=(0,))
    with pytest.raises(ValueError, match="activation='step' must be one of"):
        make_run("c-trpo", activation="step")
    run = quick("gru")
    folder = create(tmp_path / "tuned", replace(run, activation="relu"), opened(run))
    with pytest.raises(ValueError, match="other networks"):
        begin_with(folder, first_state(run, folder.spaces))


def test_first_order_methods_read_images():
    agent = Agent(
        "ppo-lag", passes=2, num_envs=3, epoch_steps=48, hidden=(4,), cost_limit=0.25,
        vectorise="sync", **CNN,
    )  # fmt: skip
    after = agent.learn(Tiles, 48, progress=False, env_args={"size": 6}).state.learner
    before = first_state(agent.run, agent.spaces).learner
    for part in ("policy", "critics"):
        one, other = (np.asarray(getattr(x, part).layers[0][0]) for x in (before, after))
        assert np.abs(one - other).max() > 0


def test_a_reader_of_numpy_refuses_what_is_not_finite():
    made = Portable(trained("gru").actor(), trained("gru").spaces.action)
    reader = numpy_policy.Policy(io.BytesIO(made.npz()))
    with pytest.raises(ValueError, match="NaN or infinity"):
        reader(np.zeros(2), memory=np.full(3, np.inf))
