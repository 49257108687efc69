# SPDX-License-Identifier: Apache-2.0
"""The enumerated batch makes the deep mathematics exact."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from holdfast.core.barrier import Barriers
from holdfast.core.linearise import linearise
from holdfast.core.policies import Categorical
from holdfast.core.trust_region import TrustRegion
from holdfast.core.types import Batch
from holdfast.exact import exact_batch, probabilities, tabular_policy
from holdfast.tabular.cmdp import toy, two_action_policy
from holdfast.tabular.instances import random_cmdp
from holdfast.tabular.occupancy import constrained_gramian, evaluate, gradient, gramian
from holdfast.tabular.potentials import POTENTIALS


def test_rows_are_the_occupancy(rng: np.random.Generator) -> None:
    with jax.enable_x64(True):
        cmdp = random_cmdp(rng, 5, 3, 2)
        policy = rng.dirichlet(np.ones(3), size=5)
        batch, exact = exact_batch(cmdp, policy), evaluate(cmdp, policy)
        assert batch.obs.shape == (15, 5) and batch.action.shape == (15, 1)
        assert float(batch.weight.sum()) == pytest.approx(1.0, abs=1e-12)
        np.testing.assert_allclose(batch.adv_c[:, 1], exact.adv_c[1].reshape(-1), atol=1e-12)
        np.testing.assert_allclose(batch.cost_return, exact.cost_return, atol=1e-12)
        # The policy's own advantage is zero, and the targets are action values.
        assert abs(float(batch.weight @ batch.adv_r)) < 1e-12
        q = exact.value_r[:, None] + exact.adv_r
        np.testing.assert_allclose(batch.target[:, 0], q.reshape(-1), atol=1e-12)
        back = probabilities(tabular_policy(policy), 5)
        np.testing.assert_allclose(back, policy, atol=1e-12)


@pytest.mark.parametrize("barrier", ["entropy", "log"])
def test_deep_curvature_is_the_constrained_gramian(rng: np.random.Generator, barrier: str) -> None:
    """Gradients and Fisher products of core/ on the enumerated batch equal the exact ones."""
    with jax.enable_x64(True):
        cmdp = random_cmdp(rng, 4, 3, 2)
        probs = 0.9 / 3 + 0.1 * rng.dirichlet(np.ones(3), size=4)
        policy, batch = tabular_policy(probs), exact_batch(cmdp, probs)
        size = cmdp.reward.size
        assert ravel_pytree(policy)[0].size == size + 3  # weights first, then the bias
        slack = evaluate(cmdp, probs).slack

        @jax.jit
        def ours(policy: Categorical, batch: Batch):
            """(gradients of reward and costs, Fisher matrix, curvature with barriers)."""
            local = linearise(policy, batch, kl_average=True)
            signals = jnp.stack([batch.adv_r, *batch.adv_c.T], axis=1)
            terms = Barriers(barrier, jnp.asarray(slack), jnp.asarray([0.5, 2.0]))
            reward = local.gradients(batch.adv_r[:, None])[0]
            _, total = TrustRegion(damping=0.0).direction(local, reward, terms)
            dense = lambda product: jax.vmap(product)(jnp.eye(size + 3))[:size, :size]
            return local.gradients(signals)[:, :size], dense(local.fisher), dense(total)

        found, fisher, dense = ours(policy, batch)
        signals = np.concatenate([cmdp.reward[None], cmdp.cost])
        expected = gradient(cmdp, probs, signals).reshape(3, -1)
        np.testing.assert_allclose(found, expected, atol=1e-13)
        np.testing.assert_allclose(fisher, gramian(cmdp, probs), atol=1e-13)
        weight = np.array([0.5, 2.0]) * POTENTIALS[barrier].curvature(slack)
        np.testing.assert_allclose(dense, constrained_gramian(cmdp, probs, weight), atol=1e-12)


def test_boundary_policies_have_no_logits() -> None:
    with pytest.raises(ValueError, match="positive everywhere"):
        tabular_policy(two_action_policy(1.0, 0.5))
    assert exact_batch(toy(), two_action_policy(1.0, 0.5)).weight.dtype == jnp.float32
