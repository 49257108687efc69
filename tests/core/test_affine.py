# SPDX-License-Identifier: Apache-2.0
"""Layers by blocks of rows: the same function and derivatives as the plain ones."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from holdfast.core import networks
from holdfast.core.networks import BLOCK, affine


@pytest.fixture
def given():
    rng = np.random.default_rng(0)
    normal = lambda *shape: jnp.asarray(rng.standard_normal(shape), jnp.float32)
    return lambda *rows: (normal(*rows, 5), normal(5, 3), normal(3))


def plain(rows, weight, bias):
    return rows @ weight + bias


@pytest.mark.parametrize("rows", [(BLOCK,), (2 * BLOCK,), (2 * BLOCK + 7,), (3, BLOCK + 1)])
def test_values_and_gradients_are_those_of_plain_layers(given, rows):
    arguments = given(*rows)
    loss = lambda layer: lambda *x: jnp.sum(jnp.tanh(layer(*x)) ** 2)
    blocked = lambda *x: affine(*x, jnp)
    np.testing.assert_allclose(blocked(*arguments), plain(*arguments), rtol=1e-5, atol=1e-5)
    found, expected = (
        jax.jit(jax.grad(loss(layer), (0, 1, 2)))(*arguments) for layer in (blocked, plain)
    )
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)


def test_no_sum_of_a_gradient_is_longer_than_a_block(given):
    """Every product of the compiled gradient contracts at most `BLOCK` rows; plain ones do not."""
    arguments = given(3 * BLOCK)

    def longest(layer):
        gradient = jax.grad(lambda w, b: layer(arguments[0], w, b).sum(), (0, 1))
        equations = jax.make_jaxpr(gradient)(*arguments[1:]).eqns
        products = [e for e in equations if e.primitive.name == "dot_general"]
        sizes = []
        for e in products:
            (left, _), _ = e.params["dimension_numbers"]
            sizes.append(np.prod([e.invars[0].aval.shape[axis] for axis in left]))
        return max(sizes)

    assert longest(lambda *x: affine(*x, jnp)) == BLOCK
    assert longest(plain) == 3 * BLOCK


def test_processes_that_act_keep_the_plain_product(given):
    rows, weight, bias = map(np.asarray, given(3 * BLOCK))
    np.testing.assert_array_equal(affine(rows, weight, bias, np), rows @ weight + bias)
    assert networks.DENSE.dense(((weight, bias),), rows, np).shape == (3 * BLOCK, 3)
