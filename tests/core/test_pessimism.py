# SPDX-License-Identifier: Apache-2.0
"""Pessimistic gradients against a closed form on finite CMDPs, and their limit d → 0."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from full import first_is_quick
from holdfast.algorithms import ALGORITHMS
from holdfast.core.linearise import linearise
from holdfast.core.trust_region import TrustRegion
from holdfast.core.types import Learner
from holdfast.exact import exact_batch, tabular_policy, without_damping
from holdfast.tabular.instances import random_cmdp
from holdfast.tabular.occupancy import evaluate, softmax

CMDP = random_cmdp(np.random.default_rng(5), 4, 3)
START = softmax(np.random.default_rng(6).normal(size=(4, 3)))
METHODS = ("c-trpo", "trpo", "npg", "c-npg", "cpo", "pcpo", "sb-trpo", "trpo-lag")


def scores(pi):
    """[S, A, S·A + A] of the logits and of the bias that all states share."""
    states, actions = pi.shape
    each = np.eye(actions)[None] - pi[:, None]
    table = np.einsum("st,sab->satb", np.eye(states), each).reshape(states, actions, -1)
    return np.concatenate([table, each], -1)


def by_hand(adv, distance, sign):
    """∇E[π_{θ+ε}/π · A] at θ + ε, ε the step of divergence `distance` that changes it most."""
    d = evaluate(CMDP, START).occupancy
    old = scores(START)
    v = np.einsum("sa,sa,sap->p", d, adv, old)
    x = np.linalg.pinv(np.einsum("sa,sap,saq->pq", d, old, old), rcond=1e-12) @ v
    step = sign * np.sqrt(2 * distance / (v @ x)) * x
    pi = softmax(np.log(START) + step[:12].reshape(4, 3) + step[12:])
    return np.einsum("sa,sa,sap->p", d * pi / START, adv, scores(pi))


@pytest.mark.parametrize("distance", [1e-5, 1e-2])
def test_the_gradients_are_those_of_the_worse_policy(distance, float64):
    found = evaluate(CMDP, START)
    region = TrustRegion(damping=0.0, solver="dense", kl_average=False, pessimism=distance)

    @jax.jit
    def gradients(policy, batch):
        """(of the worse reward, of the worse cost, of the plain reward)."""
        local = linearise(policy, batch, False)
        seen = region.gradient(local, batch.adv_r), region.spending(local)[0]
        return *seen, local.gradients(batch.adv_r[:, None])[0]

    *seen, plain = map(np.asarray, gradients(tabular_policy(START), exact_batch(CMDP, START)))
    for mine, adv, sign in zip(seen, (found.adv_r, found.adv_c[0]), (-1, 1), strict=True):
        np.testing.assert_allclose(mine, by_hand(adv, distance, sign), atol=1e-12)
        wrong = by_hand(adv, distance, -sign)  # the control: the other side is another gradient
        assert np.abs(mine - wrong).max() > 1e-2 * np.sqrt(distance)
    assert np.abs(seen[0] - plain).max() > 1e-2 * np.sqrt(distance)


def improved(name, distance, limit):
    algorithm = without_damping(ALGORITHMS[name].make(), 1e-3)
    algorithm = replace(algorithm, region=replace(algorithm.region, pessimism=distance))
    cmdp = replace(CMDP, cost_limit=jnp.asarray([limit]))
    policy = tabular_policy(START)
    extra = jax.tree.map(
        lambda x: x.astype(jnp.float64) if x.dtype == jnp.float32 else x, algorithm.init(1, policy)
    )
    learner = Learner(policy, None, extra)
    with jax.numpy_dtype_promotion("standard"):
        batch = exact_batch(cmdp, START)
        return jax.jit(algorithm.improve)(learner, batch, jax.random.key(0))


@pytest.mark.parametrize("name", first_is_quick(METHODS))
def test_every_trust_region_method_reduces_to_the_plain_one(name, float64):
    """At d → 0 to the last digit; at a finite d it is another step (the control)."""
    limit = float(evaluate(CMDP, START).cost_return[0]) + 0.02
    layers = lambda distance: np.asarray(improved(name, distance, limit).policy.layers[0][0])
    plain = layers(0.0)
    assert np.array_equal(layers(1e-60), plain)
    assert not np.array_equal(layers(1e-3), plain)


def test_nothing_to_see_where_there_is_no_gradient(float64):
    region = TrustRegion(damping=0.1, pessimism=1e-5)
    local = linearise(tabular_policy(START), exact_batch(CMDP, START), False)
    assert np.all(np.asarray(region.gradient(local, jnp.zeros(12))) == 0.0)


def test_a_negative_distance_is_refused():
    with pytest.raises(ValueError, match="pessimism=-1"):
        TrustRegion(pessimism=-1.0)
