# SPDX-License-Identifier: Apache-2.0
"""Trust regions on random batches: model, search, statuses, accepted steps inside their region."""

import functools
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.flatten_util import ravel_pytree

from full import first_is_quick, repeats
from holdfast.core.barrier import Barriers
from holdfast.core.linearise import linearise
from holdfast.core.move import Status
from holdfast.core.policies import init_categorical, init_gaussian
from holdfast.core.trust_region import TrustRegion, blocked_error
from holdfast.core.types import sampled_batch


def batch(seed=0, size=60, constraints=1, action="box", dtype=jnp.float64, **rest):
    """In NumPy: what JAX draws is compiled for each shape and type."""
    rng = np.random.default_rng(seed)
    draw = lambda *shape: rng.standard_normal(shape).astype(dtype)
    acts = draw(size, 2) if action == "box" else rng.integers(0, 3, (size, 2), np.int32)
    adv_c = draw(size, constraints)
    return sampled_batch(
        draw(size, 4),
        acts,
        draw(size),
        adv_c - adv_c.mean(0),
        cost_return=np.full(constraints, 15.0, dtype),
        cost_limit=np.full(constraints, 25.0, dtype),
        **({"horizon": np.asarray(10.0, dtype)} | rest),
    )


@functools.cache
def policy(action="box", dtype=jnp.float64, seed=3):
    if action == "box":
        return init_gaussian(jax.random.key(seed), 4, 2, (6,), dtype)
    return init_categorical(jax.random.key(seed), 4, (3, 3), (6,), dtype)


def maximise(region, old, b, advantage, wall=None, accept=None):
    """Compiled as in training; op by op it would take seconds."""
    return jax.jit(lambda o, x, a: region.maximise(o, x, a, wall, accept))(old, b, advantage)


def barriers(b, kind="entropy", beta=1.0, **rest):
    slack = b.cost_limit - b.cost_return
    return Barriers(kind, slack, jnp.full_like(slack, beta), **rest)


@pytest.mark.parametrize(
    ("action", "kind", "order"),
    [
        ("box", "entropy", "old-new"),
        pytest.param("box", "log", "new-old", marks=pytest.mark.thorough),
        pytest.param("discrete", "log", "old-new", marks=pytest.mark.thorough),
        pytest.param("discrete", "reversed-entropy", "new-old", marks=pytest.mark.thorough),
    ],
)
def test_the_curvature_is_the_hessian_of_the_divergence(action, kind, order, float64):
    """C10: autodiff of the divergence that the search tests = F + Σ w a aᵀ that the solver uses."""
    region = TrustRegion(damping=0.0, kl_order=order)
    b, old = batch(action=action, constraints=2, size=30), policy(action)

    @jax.jit
    def derivatives(old, b):
        wall = barriers(b, kind, 0.7)
        local = linearise(old, b, region.kl_average)
        _, product = region.direction(local, local.gradients(b.adv_r[:, None])[0], wall)
        divergence = lambda step: region.trial(local, local.moved(step), b.adv_r, wall).divergence
        zero = jnp.zeros_like(local.theta)
        value, slope = jax.value_and_grad(divergence)(zero)
        return value, slope, jax.hessian(divergence)(zero), jax.vmap(product)(jnp.eye(zero.size))

    value, slope, hessian, matrix = derivatives(old, b)
    assert value == 0.0
    np.testing.assert_allclose(slope, 0.0, atol=1e-12)
    np.testing.assert_allclose(matrix, hessian, atol=1e-10)


def test_gradients_are_those_of_the_surrogates(float64):
    b, old = batch(constraints=2), policy()

    @jax.jit
    def gradients(old, b):
        """(of reward, of cost) by the linear model, then (of reward, of cost) by autodiff."""
        local = linearise(old, b, True)
        theta, unravel = ravel_pytree(old)
        log_old = old.log_prob(old.outputs(b.obs), b.action)

        def surrogate(t, adv):
            new = unravel(t)
            ratio = jnp.exp(new.log_prob(new.outputs(b.obs), b.action) - log_old)
            return jnp.sum(b.weight * ratio * adv)

        direct = jax.vmap(jax.grad(surrogate), (None, 1))(theta, b.adv_c)
        model = local.gradients(b.adv_r[:, None])[0], TrustRegion().spending(local)
        return *model, jax.grad(surrogate)(theta, b.adv_r), direct

    reward, cost, direct_reward, direct_cost = gradients(old, b)
    np.testing.assert_allclose(reward, direct_reward, atol=1e-12)
    np.testing.assert_allclose(cost, 10.0 * direct_cost, atol=1e-12)


@pytest.mark.parametrize("constraints", first_is_quick([3, 1]))
def test_all_solvers_find_the_same_direction(constraints, float64):
    """C20: Woodbury, CG on the sum and the dense inverse agree, also for a very stiff barrier."""
    b, old = batch(constraints=constraints), policy()
    b = replace(b, cost_return=b.cost_limit - 1e-4)
    found = []
    for solver in ("woodbury", "sum", "dense"):
        region = TrustRegion(solver=solver, cg_steps=400)

        @jax.jit
        def direction(o, x, region=region):
            local = linearise(o, x, True)
            return region.direction(local, local.gradients(x.adv_r[:, None])[0], barriers(x))[0]

        found.append(direction(old, b))
    np.testing.assert_allclose(found[0], found[2], rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(found[1], found[2], rtol=1e-5, atol=1e-7)


@pytest.mark.thorough
def test_one_constraint_twice_with_half_the_weight_is_one_constraint(float64):
    """C20, the split of beta."""
    one, old = batch(constraints=1), policy()
    two = replace(
        one,
        adv_c=np.tile(one.adv_c, (1, 2)),
        cost_return=np.tile(one.cost_return, 2),
        cost_limit=np.tile(one.cost_limit, 2),
    )
    region = TrustRegion(cg_steps=200)
    single = maximise(region, old, one, one.adv_r, barriers(one, beta=1.0))
    double = maximise(region, old, two, two.adv_r, barriers(two, beta=0.5))
    np.testing.assert_allclose(single.trial.divergence, double.trial.divergence, rtol=1e-8)
    for a, c in zip(jax.tree.leaves(single.policy), jax.tree.leaves(double.policy), strict=True):
        np.testing.assert_allclose(a, c, atol=1e-8)


@pytest.mark.thorough
def test_duplicating_samples_is_doubling_their_weight(float64):
    b, old = batch(size=20), policy()
    rows = np.concatenate([np.arange(20), np.arange(5)])
    weight = np.where(np.arange(20) < 5, 2.0, 1.0) / 25
    names = ("obs", "action", "adv_r", "adv_c", "target", "episode")
    cut = {n: np.asarray(getattr(b, n))[rows] for n in names}
    doubled = replace(b, weight=np.full(25, 1 / 25), **cut)
    weighted = replace(b, weight=weight)
    region = TrustRegion(cg_steps=100)
    left = maximise(region, old, doubled, doubled.adv_r, barriers(doubled))
    right = maximise(region, old, weighted, weighted.adv_r, barriers(weighted))
    np.testing.assert_allclose(
        ravel_pytree(left.policy)[0], ravel_pytree(right.policy)[0], atol=1e-9
    )


@functools.cache
def stepper(search, kind, radius):
    """Compiled once for all examples: the step, and an independent look at what it did."""
    region = TrustRegion(radius=radius, search=search)

    @jax.jit
    def run(old, b):
        wall = barriers(b, kind)
        move = maximise(region, old, b, b.adv_r, wall)
        return move, region.trial(linearise(old, b, True), move.policy, b.adv_r, wall)

    return run


@pytest.mark.parametrize(
    ("search", "kind", "radius"),
    [
        ("backtrack", "entropy", 0.01),
        pytest.param("backtrack", "log", 0.5, marks=pytest.mark.thorough),
        pytest.param("bracket", "entropy", 0.5, marks=pytest.mark.thorough),
        pytest.param("bracket", "reversed-entropy", 1e-4, marks=pytest.mark.thorough),
    ],
)
@pytest.mark.repeats
@given(seed=st.integers(0, 10_000), slack=st.floats(1e-3, 20))
@settings(max_examples=repeats(20, 100), deadline=None)
def test_accepted_steps_lie_in_their_region(search, kind, seed, slack, radius):
    b, old = batch(seed, dtype=jnp.float32, size=64), policy(dtype=jnp.float32)
    b = replace(b, cost_return=b.cost_limit - jnp.float32(slack))
    move, again = stepper(search, kind, radius)(old, b)
    if move.status == Status.ACCEPTED:
        assert again.divergence <= radius * (1 + 1e-4)
        assert again.gain >= -1e-6
        assert again.spent[0] < slack
    else:
        np.testing.assert_array_equal(ravel_pytree(move.policy)[0], ravel_pytree(old)[0])


@pytest.mark.thorough
def test_bracket_uses_the_budget_that_backtracking_leaves(float64):
    b, old = batch(), policy()
    short = maximise(TrustRegion(radius=0.01, damping=1.0), old, b, b.adv_r)
    long = maximise(TrustRegion(radius=0.01, damping=1.0, search="bracket"), old, b, b.adv_r)
    assert short.trial.divergence < 0.009
    assert 0.0095 <= long.trial.divergence <= 0.01
    assert long.trial.gain > short.trial.gain


def test_a_small_step_has_the_length_of_the_quadratic_model(float64):
    """Without damping the divergence of a short full step is the radius itself."""
    b, old = batch(), policy()
    region = TrustRegion(radius=1e-12, damping=0.0, cg_steps=300)
    whatever = lambda trial: jnp.isfinite(trial.kl)
    move = maximise(region, old, b, b.adv_r, barriers(b), whatever)
    np.testing.assert_allclose(move.trial.divergence, 1e-12, rtol=5e-3)


def test_statuses():
    b, old = batch(dtype=jnp.float32), policy(dtype=jnp.float32)
    region = TrustRegion()
    still = maximise(region, old, b, jnp.zeros_like(b.adv_r))
    assert still.status == Status.NO_GRADIENT and still.index == 0
    np.testing.assert_array_equal(ravel_pytree(still.policy)[0], ravel_pytree(old)[0])
    broken = maximise(region, old, b, np.concatenate([[np.float32("nan")], b.adv_r[1:]]))
    assert broken.status == Status.NOT_FINITE
    np.testing.assert_array_equal(ravel_pytree(broken.policy)[0], ravel_pytree(old)[0])
    refused = maximise(region, old, b, b.adv_r, accept=lambda trial: trial.gain > 1e9)
    assert refused.status == Status.NO_STEP_ACCEPTED


@pytest.mark.thorough
def test_the_first_acceptable_candidate_is_taken():
    """Index counts from 1, and each candidate is 0.8 times the one before."""
    b, old = batch(dtype=jnp.float32), policy(dtype=jnp.float32)
    region = TrustRegion()
    full = maximise(region, old, b, b.adv_r, accept=lambda t: jnp.isfinite(t.kl))
    assert full.index == 1
    third = maximise(region, old, b, b.adv_r, accept=lambda t: t.kl < 0.8**2.5**2 * full.trial.kl)
    np.testing.assert_allclose(
        third.step_norm / full.step_norm, 0.8 ** (third.index - 1), rtol=1e-4
    )


def test_averaging_the_kl_divides_it_by_the_action_dimensions(float64):
    b, old = batch(), policy()
    moved = jax.tree.map(lambda x: x + 0.01, old)

    @functools.partial(jax.jit, static_argnums=0)
    def kl(average, old, moved, b):
        region = TrustRegion(kl_average=average)
        return region.trial(linearise(old, b, True), moved, b.adv_r, None).kl

    average, total = kl(True, old, moved, b), kl(False, old, moved, b)
    np.testing.assert_allclose(total, 2 * average, rtol=1e-12)


def test_relative_damping_scales_with_the_curvature(float64):
    b, old = batch(), policy()
    region = TrustRegion(damping=0.5, damping_rule="relative")

    @jax.jit
    def matrices(old, b):
        local = linearise(old, b, True)
        eye = jnp.eye(local.theta.size)
        return jax.vmap(local.fisher)(eye), jax.vmap(region.damped(local))(eye)

    matrix, damped = (np.asarray(found) for found in matrices(old, b))
    added = damped - matrix
    expected = 0.5 * np.trace(matrix) / len(matrix)
    np.testing.assert_allclose(added[0, 0], expected, rtol=0.5)  # eight probes estimate the trace
    np.testing.assert_allclose(added, added[0, 0] * np.eye(len(added)), atol=1e-12)


def test_error_blocked_by_episode(float64):
    """Against NumPy: standard error of a sum over independent episodes."""
    episode = np.repeat([0, 1, 2, 3, 4], 12)
    b = batch(episode=episode)
    excess = np.random.default_rng(8).standard_normal(60)
    share = np.asarray(b.weight) * excess * b.adv_c[:, 0]
    totals = share.reshape(5, 12).sum(1)
    expected = 10.0 * np.sqrt(5) * totals.std(ddof=1)
    np.testing.assert_allclose(jax.jit(blocked_error)(b, excess)[0], expected, rtol=1e-12)


@pytest.mark.thorough
def test_confidence_on_what_is_spent_makes_steps_shorter(float64):
    b, old = batch(), policy()
    b = replace(b, cost_return=b.cost_limit - 0.05)
    plain = maximise(TrustRegion(), old, b, b.adv_r, barriers(b))
    careful = maximise(TrustRegion(), old, b, b.adv_r, barriers(b, confidence=2.0))
    assert careful.index > plain.index or careful.status == Status.NO_STEP_ACCEPTED


@pytest.mark.parametrize(
    ("settings_", "words"),
    [({"radius": 0.0}, "radius"), ({"shrink": 1.0}, "shrink"), ({"damping": -1.0}, "damping")],
)
def test_bad_settings_are_named(settings_, words):
    with pytest.raises(ValueError, match=words):
        TrustRegion(**settings_)
