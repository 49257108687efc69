# SPDX-License-Identifier: Apache-2.0
"""Networks: against other implementations, in NumPy as in JAX, and their Fisher products."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from holdfast.core.linearise import linearise
from holdfast.core.networks import ACTIVATIONS, Network
from holdfast.core.policies import init_categorical, init_gaussian
from holdfast.core.types import sampled_batch
from holdfast.train.state import numpy_actor

PLAIN = Network()
CNN = Network(image=(5, 6, 2), channels=(3, 4))
GRU = Network(memory=5)
SIZES = {PLAIN: 4, CNN: 60, replace(CNN, colours_first=True): 60, GRU: 4}


def policy(network, kind="gaussian", dtype=jnp.float32, seed=0):
    """Compiled as one: op by op each shape would be compiled."""
    size = SIZES.get(network, 4)

    @jax.jit
    def init(key):
        if kind == "gaussian":
            return init_gaussian(key, size, 2, (6,), dtype, network)
        return init_categorical(key, size, (3, 2), (6,), dtype, network)

    return init(jax.random.key(seed))


def steps(network, times=7, envs=3, dtype=jnp.float32):
    """[T, N, O] of a policy that remembers, with recorded memories, and where episodes begin."""
    rng = np.random.default_rng(3)
    seen = rng.standard_normal((times, envs, SIZES[network]))
    memory = rng.uniform(-1, 1, (times, envs, network.memory))
    begins = np.zeros((times, envs), bool)
    begins[3, 0] = begins[5, 1] = begins[0, 2] = True
    joined = np.concatenate([seen, np.where(begins[..., None], 0, memory)], -1)
    return jnp.asarray(joined.astype(dtype)), begins


def test_activations_are_what_their_names_say():
    x = np.linspace(-4, 4, 41, dtype=np.float32)
    for name, ours in ACTIVATIONS.items():
        known = getattr(jnp, name, None) or getattr(jax.nn, name)
        for xp in (np, jnp):
            assert ours(x, xp).dtype == np.float32
            np.testing.assert_allclose(ours(x, xp), known(x), rtol=1e-5, atol=1e-6)
    assert np.isfinite(ACTIVATIONS["silu"](np.float32([-1e30, 1e30]), np)).all()


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("image", [(5, 6, 2), (8, 8, 1), (1, 3, 3)])
def test_convolutions_are_those_of_the_library(image, first):
    """JAX's own convolution, stride 2 and a border of zeros, on odd and even sizes."""
    height, width, colours = image
    network = Network("relu", image, first, (3, 4))
    shapes = network.shapes(height * width * colours, (), 2)
    rng = np.random.default_rng(0)
    layers = [(rng.normal(size=s).astype("f4"), rng.normal(size=s[1]).astype("f4")) for s in shapes]
    rows = rng.normal(size=(6, height * width * colours)).astype("f4")
    x = rows.reshape(6, colours, height, width) if first else rows.reshape(6, *image)
    x = x.transpose(0, 2, 3, 1) if first else x

    @jax.jit
    def library(layers, x):
        for weight, bias in layers[:2]:
            kernel = weight.reshape(3, 3, -1, len(bias))
            names = ("NHWC", "HWIO", "NHWC")
            border = [(1, 1), (1, 1)]
            x = jax.lax.conv_general_dilated(x, kernel, (2, 2), border, dimension_numbers=names)
            x = jax.nn.relu(x + bias)
        return x.reshape(6, -1) @ layers[2][0] + layers[2][1]

    expected = library(layers, x)
    compiled = jax.jit(lambda layers, rows: network(layers, rows, jnp)[0])
    for ours in (network(layers, rows, np)[0], compiled(layers, rows)):
        np.testing.assert_allclose(ours, expected, rtol=2e-4, atol=1e-5)


def test_a_memory_is_the_gru_of_onnx():
    """An independent definition: the operator GRU with its gates in its own order."""
    onnx, ort = pytest.importorskip("onnx"), pytest.importorskip("onnxruntime")
    rng, size, hidden = np.random.default_rng(0), 4, 5
    draw = lambda *shape: rng.normal(size=shape).astype("f4")
    (w, b), (u, c) = layers = (draw(size, 15), draw(15)), (draw(hidden, 15), draw(15))
    order = lambda x: np.concatenate([np.split(x, 3, -1)[i] for i in (1, 0, 2)], -1).T[None]
    constants = {"W": order(w), "R": order(u), "B": np.concatenate([order(b), order(c)], 1)}
    helper, names = onnx.helper, ["X", "W", "R", "B", "", "H"]
    node = helper.make_node("GRU", names, ["", "Y"], hidden_size=hidden, linear_before_reset=1)
    value = lambda name, last: helper.make_tensor_value_info(name, 1, (1, 3, last))
    numbers = [onnx.numpy_helper.from_array(v, k) for k, v in constants.items()]
    given = [value("X", size), value("H", hidden)]
    graph = helper.make_graph([node], "gru", given, [value("Y", hidden)], numbers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    x, memory = draw(3, size), draw(3, hidden)
    session = ort.InferenceSession(model.SerializeToString())
    (expected,) = session.run(None, {"X": x[None], "H": memory[None]})
    head = (draw(size + hidden, 1), draw(1))
    _, ours = Network(memory=hidden)((*layers, head), np.concatenate([x, memory], 1), np)
    np.testing.assert_allclose(ours, expected[0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("network", "kind"),
    [
        *((replace(PLAIN, activation=name), "gaussian") for name in ACTIVATIONS),
        (CNN, "gaussian"),
        (replace(CNN, colours_first=True), "choices"),
    ],
)
def test_numpy_says_what_jax_says(network, kind):
    SIZES.setdefault(network, 4)
    made = policy(network, kind)
    rows = np.random.default_rng(1).normal(size=(9, SIZES[network])).astype("f4")
    out, memory = numpy_actor(made).outputs(rows)
    said = jax.jit(lambda policy, rows: policy.outputs(rows))(made, rows)
    if kind == "gaussian":
        np.testing.assert_allclose(out, said[0], rtol=1e-5, atol=2e-6)
    else:
        for ours, block in zip(np.split(out, [3], 1), said, strict=True):
            np.testing.assert_allclose(jax.nn.log_softmax(ours), block, rtol=1e-5, atol=2e-6)
    assert memory.shape == (9, 0)


@pytest.mark.parametrize("network", [CNN, GRU])
def test_an_action_does_not_depend_on_its_neighbours_in_a_batch(network):
    actor = numpy_actor(policy(network))
    rows = np.random.default_rng(1).normal(size=(9, SIZES[network] + network.memory)).astype("f4")
    whole = actor.outputs(rows)
    for i in range(9):
        for a, b in zip(whole, actor.outputs(rows[i : i + 1]), strict=True):
            np.testing.assert_array_equal(a[i], b[0])


def test_learning_unrolls_what_acting_did():
    """Step by step in NumPy, memory handed on and emptied, against one unrolling in JAX."""
    made = policy(GRU)
    actor, (obs, begins) = numpy_actor(made), steps(GRU)
    memory, outs = np.asarray(obs[0, :, 4:]), []
    for t in range(len(obs)):
        memory = np.where(begins[t][:, None], np.float32(0), memory)
        out, memory = actor.outputs(np.concatenate([obs[t, :, :4], memory], 1))
        outs.append(out)
    unrolled = jax.jit(lambda policy, obs: policy.outputs(obs)[0])
    np.testing.assert_allclose(unrolled(made, obs), np.concatenate(outs), rtol=1e-5, atol=2e-6)
    forgotten = unrolled(made, obs.at[:, :, 4:].set(0))  # negative control
    assert np.abs(forgotten - np.concatenate(outs)).max() > 1e-2


def tiny_batch(obs, kind):
    rng, size = np.random.default_rng(2), int(np.prod(obs.shape[:-1]))
    action = rng.normal(size=(size, 2)) if kind == "gaussian" else rng.integers(0, 2, (size, 2))
    weight = jnp.asarray(rng.dirichlet(np.ones(size)))
    number = lambda *shape: jnp.asarray(rng.normal(size=shape))
    return sampled_batch(
        obs, jnp.asarray(action), number(size), number(size, 1),
        cost_return=jnp.ones(1), cost_limit=jnp.ones(1), weight=weight,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("network", "kind"),
    [
        (GRU, "gaussian"),
        pytest.param(CNN, "gaussian", marks=pytest.mark.thorough),
        pytest.param(GRU, "choices", marks=pytest.mark.thorough),
    ],
)
def test_fisher_products_go_through_what_reads(network, kind, float64):
    """Against a dense matrix, Jᵀ Λ J with J from finite differences, and the bend of the KL."""
    made = policy(network, kind, jnp.float64)
    if network.memory:
        obs, _ = steps(network, dtype=jnp.float64)
    else:
        obs = np.random.default_rng(1).standard_normal((8, SIZES[network]))
    batch = tiny_batch(obs, kind)
    theta, unravel = ravel_pytree(made)
    direction = np.random.default_rng(5).normal(size=theta.size)
    eye = np.eye(theta.size)

    @jax.jit
    def by_products(batch):
        return jax.vmap(linearise(made, batch, kl_average=False).fisher)(eye)

    @jax.jit
    def by_differences(batch):
        """(the dense matrix, the bend of the KL along a direction)."""
        outputs = made.outputs(obs)
        flat = lambda t: ravel_pytree(unravel(t).outputs(obs))[0]
        h, back = 1e-6, ravel_pytree(outputs)[1]
        slopes = jax.vmap(lambda e: (flat(theta + h * e) - flat(theta - h * e)) / (2 * h))(eye)
        metric = jax.vmap(lambda t: ravel_pytree(made.fisher(outputs, back(t), batch.weight))[0])
        kl = lambda t: batch.weight @ made.kl(outputs, unravel(t).outputs(obs))
        bend = (kl(theta + 1e-4 * direction) + kl(theta - 1e-4 * direction)) / 1e-8
        return slopes @ metric(slopes).T, bend

    ours, (expected, bend) = by_products(batch), by_differences(batch)
    np.testing.assert_allclose(ours, expected, atol=1e-7)
    np.testing.assert_allclose(direction @ ours @ direction, bend, rtol=1e-5)
    reads = sum(w.size + b.size for w, b in made.layers[: network.readers])
    assert np.abs(expected[:reads, :reads]).max() > 1e-4
    if network.memory:  # negative control: a memory that is data, not learned through time
        rows = obs.reshape(-1, obs.shape[-1])
        apart = by_products(replace(batch, obs=rows))
        assert np.abs(apart - expected).max() > 1e-3
