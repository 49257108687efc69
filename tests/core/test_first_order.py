# SPDX-License-Identifier: Apache-2.0
"""The minibatch passes: Adam by hand, the joint clip, the early stop, fillers that do not count."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from holdfast.core.critic import init_critics
from holdfast.core.first_order import (
    FirstOrder,
    JointCritic,
    Rows,
    clipped_cost,
    clipped_gain,
    ratio,
)
from holdfast.core.policies import Layers, Policy, init_gaussian
from holdfast.core.types import Batch, Learner, sampled_batch


def make(size: int = 40) -> tuple[Policy, Batch]:
    keys = jax.random.split(jax.random.key(0), 5)
    policy = init_gaussian(keys[0], 3, 2, (8,))
    obs = jax.random.normal(keys[1], (size, 3))
    action = jax.random.normal(keys[2], (size, 2))
    adv = jax.random.normal(keys[3], (size, 2))
    target = jax.random.normal(keys[4], (size, 2))
    limits = {"cost_return": jnp.array([1.0]), "cost_limit": jnp.array([2.0])}
    return policy, sampled_batch(obs, action, adv[:, 0], adv[:, 1:], target=target, **limits)


def loss(policy: Policy, rows: Rows) -> jax.Array:
    return -clipped_gain(ratio(policy, rows), rows.adv_r, rows, 0.2)


def train(loop: FirstOrder, policy: Policy, batch: Batch, critic: JointCritic):
    critics = init_critics(jax.random.key(1), 3, 1, (8,))
    learner = Learner(policy, critics, None)
    return learner, jax.jit(loop.joint, static_argnums=(4, 5))(
        learner, loop.init(policy), batch, jax.random.key(2), loss, critic
    )


def test_one_full_batch_pass_is_one_adam_step() -> None:
    """The first step of Adam is lr · g / (|g| + eps), g the jointly clipped gradient."""
    policy, batch = make()
    critic, loop = JointCritic(), FirstOrder(passes=1, minibatch=40, max_norm=0.05)
    before, after = train(loop, policy, batch, critic)

    @jax.jit
    def gradients(policy: Policy, layers: Layers, b: Batch):
        """(of the policy's loss, of the critics' loss, the policy's loss)."""
        log_prob = policy.log_prob(policy.outputs(b.obs), b.action)
        rows = Rows(b.obs, b.action, b.weight, b.adv_r, b.adv_c, b.target, log_prob)
        own = jax.grad(loss)(policy, rows), jax.grad(critic.loss)(layers, rows)
        return *(ravel_pytree(grad)[0] for grad in own), loss(policy, rows)

    g, h, value = map(np.asarray, gradients(policy, before.critics.layers, batch))
    scale = 0.05 / float(np.sqrt(g @ g + h @ h))
    assert scale < 1
    for old, new, grad in (
        (before.policy, after.policy, g),
        (before.critics.layers, after.critics.layers, h),
    ):
        moved = np.asarray(ravel_pytree(new)[0]) - np.asarray(ravel_pytree(old)[0])
        expected = -3e-4 * (grad * scale) / (np.abs(grad * scale) + 1e-8)
        np.testing.assert_allclose(moved, expected, atol=2e-7)
    assert int(after.metrics["passes"]) == 1
    assert float(after.metrics["actor_loss"]) == pytest.approx(float(value), rel=1e-5)


def test_learning_rate_follows_progress() -> None:
    policy, batch = make()
    moved = []
    for progress in (0.0, 0.75):
        late = replace(batch, progress=jnp.asarray(progress))
        _, after = train(FirstOrder(passes=1, minibatch=40), policy, late, JointCritic())
        moved.append(ravel_pytree(after.policy)[0] - ravel_pytree(policy)[0])
    np.testing.assert_allclose(moved[1], 0.25 * moved[0], atol=2e-8)


@pytest.mark.thorough
def test_early_stop_and_number_of_passes() -> None:
    policy, batch = make()
    passes = lambda **k: int(
        train(FirstOrder(**k), policy, batch, JointCritic())[1].metrics["passes"]
    )
    assert passes(passes=7, kl_stop=1e9) == 7
    assert passes(passes=7, kl_stop=1e-12) == 1
    stopped = train(FirstOrder(actor_lr=0.01, kl_stop=0.02), policy, batch, JointCritic())[1]
    assert 1 <= int(stopped.metrics["passes"]) < 40 and float(stopped.metrics["kl"]) > 0.02


@pytest.mark.thorough
def test_fillers_of_the_last_minibatch_do_not_count() -> None:
    """A minibatch larger than the batch is the full batch."""
    policy, batch = make()
    exact, filled = (
        train(FirstOrder(passes=3, minibatch=m), policy, batch, JointCritic())[1] for m in (40, 64)
    )
    for a, b in zip(jax.tree.leaves(exact), jax.tree.leaves(filled), strict=True):
        np.testing.assert_allclose(a, b, atol=5e-6)


@pytest.mark.thorough
def test_doubling_a_weight_is_duplicating_a_sample() -> None:
    policy, batch = make(20)
    twice = jax.tree.map(
        lambda x: jnp.concatenate([x, x[:1]]) if x.shape[:1] == (20,) else x, batch
    )
    twice = replace(twice, weight=jnp.full(21, 1 / 21))
    heavy = replace(batch, weight=jnp.full(20, 1 / 21).at[0].mul(2))
    loop = FirstOrder(passes=2, minibatch=32)
    results = [train(loop, policy, b, JointCritic())[1].policy for b in (twice, heavy)]
    for a, b in zip(*map(jax.tree.leaves, results), strict=True):
        np.testing.assert_allclose(a, b, atol=5e-6)


def test_actor_alone_measures_ratios_from_who_acted() -> None:
    policy, batch = make()
    other = jax.tree.map(lambda x: x + 0.1, policy)
    seen = lambda p, rows: rows.weight @ jnp.exp(rows.log_prob) + 0.0 * p.log_std.sum()
    loop = FirstOrder(passes=1, minibatch=40)
    after = loop.actor(policy, loop.init(policy), batch, jax.random.key(0), seen, acted=other)
    expected = batch.weight @ jnp.exp(other.log_prob(other.outputs(batch.obs), batch.action))
    assert float(after.metrics["actor_loss"]) == pytest.approx(float(expected), rel=1e-5)
    assert "critic_loss" not in after.metrics and after.critics is None
    for old, new in zip(jax.tree.leaves(policy), jax.tree.leaves(after.policy), strict=True):
        assert bool(jnp.all(old == new))


def test_surrogates_are_pessimistic() -> None:
    _, batch = make()
    rho = jnp.linspace(0.5, 1.6, 40)
    rows = Rows(*[None] * 2, batch.weight, *[None] * 4)  # pyright: ignore[reportArgumentType]
    plain = float(batch.weight @ (rho * batch.adv_r))
    assert float(clipped_gain(rho, batch.adv_r, rows, 0.2)) < plain
    assert float(clipped_cost(rho, batch.adv_r[:, None], rows, 0.2)[0]) > plain
    at_old = jnp.ones(40)
    assert float(clipped_gain(at_old, batch.adv_r, rows, 0.2)) == pytest.approx(
        float(batch.weight @ batch.adv_r)
    )


@pytest.mark.parametrize(
    "bad",
    [{"passes": 0}, {"minibatch": 0}, {"actor_lr": 0.0}, {"kl_stop": -1.0}, {"max_norm": 0.0}],
)
def test_bad_settings(bad: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="must be"):
        FirstOrder(**bad)  # pyright: ignore[reportArgumentType]
