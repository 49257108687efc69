# SPDX-License-Identifier: Apache-2.0
"""Deep updates on enumerated CMDPs: the same compiled code without sampling noise (C10-C14, C22).

A linear Categorical policy on one-hot states is the tabular softmax policy, and a batch weighted by
the occupancy makes every expectation exact, so closed forms are the referee of the deep code.
"""

import itertools
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from holdfast.algorithms import CTRPO, TRPO, c_npg
from holdfast.core.barrier import Barriers
from holdfast.core.critic import init_critics
from holdfast.core.linearise import linearise
from holdfast.core.trust_region import TrustRegion
from holdfast.core.types import Learner
from holdfast.exact import exact_batch, probabilities, tabular_policy
from holdfast.run import make_run
from holdfast.tabular.cmdp import toy, two_action_policy
from holdfast.tabular.instances import random_cmdp
from holdfast.tabular.lp import optimum
from holdfast.tabular.occupancy import constrained_gramian, evaluate, gradient

EXACT = TrustRegion(damping=0.0, solver="dense", kl_average=False, backtracks=60)


def learner_of(policy, algorithm, constraints=1):
    critics = init_critics(jax.random.key(0), policy.layers[0][0].shape[0], constraints, (2,))
    critics = jax.tree.map(
        lambda x: x.astype(policy.layers[0][0].dtype) if x.dtype.kind == "f" else x, critics
    )
    return Learner(policy, critics, algorithm.init(constraints, policy))


def logits_part(policy):
    """The tabular logits among the parameters (the linear layer also has a bias)."""
    return np.asarray(policy.layers[0][0])


@pytest.mark.parametrize("kind", ["entropy", "log"])
@pytest.mark.parametrize("point", [(0.3, 0.1), (0.6, 0.4)])
def test_the_deep_curvature_is_the_constrained_gramian(kind, point, float64):
    """C10 on the toy: the deep code's Hessian equals G_C = G_K + βφ''∇V_c∇V_cᵀ."""
    cmdp = toy()
    pi = two_action_policy(*point)
    batch, policy = exact_batch(cmdp, pi), tabular_policy(pi)
    slack = np.asarray(batch.cost_limit) - np.asarray(batch.cost_return)

    @jax.jit
    def matrix(policy, batch):
        local = linearise(policy, batch, False)
        wall = Barriers(kind, slack, jnp.ones(1))
        _, product = EXACT.direction(local, local.gradients(batch.adv_r[:, None])[0], wall)
        return jax.vmap(product)(jnp.eye(local.theta.size))

    deep = np.asarray(matrix(policy, batch))[:4, :4]  # the weight's part; the bias comes after it
    curvature = {"entropy": 1 / slack, "log": 1 / slack**2}[kind]
    np.testing.assert_allclose(deep, constrained_gramian(cmdp, pi, curvature), atol=1e-12)


def test_surrogate_gradients_are_the_gradients_of_the_values(float64):
    """C7, C9: ∇A_f at π_k = ∇V_f; through the deep code, on the toy and on random CMDPs."""
    for seed in range(3):
        cmdp = toy() if seed == 0 else random_cmdp(np.random.default_rng(seed), 4, 3, 2)
        actions = cmdp.reward.shape[1]
        pi = np.random.default_rng(seed).dirichlet(np.ones(actions), cmdp.reward.shape[0])
        if seed == 0:
            pi = two_action_policy(0.3, 0.1)
        local = linearise(tabular_policy(pi), exact_batch(cmdp, pi), False)
        batch = local.batch
        signals = [cmdp.reward, *cmdp.cost]
        advantages = jnp.concatenate([batch.adv_r[:, None], batch.adv_c], 1)
        size = cmdp.reward.size
        for g, signal in zip(local.gradients(advantages), signals, strict=True):
            exact = gradient(cmdp, pi, signal)
            # ravel_pytree puts the weight before the bias
            np.testing.assert_allclose(g[:size], np.ravel(exact), atol=1e-12)
    first = np.ravel(gradient(toy(), two_action_policy(0.3, 0.1), toy().reward))[[0, 2]]
    np.testing.assert_allclose(first, [0.128456, 0.073754], atol=5e-7)


@pytest.mark.parametrize(
    ("point", "rates"),
    [
        ((0.3, 0.1), (0.083337, 0.0640547, 0.0260202)),
        ((0.6, 0.4), (0.232945, 0.0117001, 0.000104909)),
    ],
)
def test_cost_rates_of_npg_and_both_c_npgs(point, rates, float64):
    """C11: dV_c/dt = rr / (1 + w s)."""
    cmdp, pi = toy(), two_action_policy(*point)
    batch, policy = exact_batch(cmdp, pi), tabular_policy(pi)
    local = linearise(policy, batch, False)
    g, a = local.gradients(batch.adv_r[:, None])[0], EXACT.spending(local)[0]
    for kind, expected in zip((None, "entropy", "log"), rates, strict=True):
        wall = kind and Barriers(kind, batch.cost_limit - batch.cost_return, jnp.ones(1))
        for solver in ("dense", "woodbury"):
            region = replace(EXACT, solver=solver, cg_steps=50)
            x, _ = region.direction(local, g, wall)
            np.testing.assert_allclose(a @ x, expected, rtol=7e-6)  # six printed digits


def test_scaling_of_costs(float64):
    """C22: (c, b) → (10c, 10b) leaves the log direction alone; entropy behaves like β → 10 β."""
    pi = two_action_policy(0.3, 0.1)
    cmdp = toy()
    scaled = replace(cmdp, cost=10 * cmdp.cost, cost_limit=10 * cmdp.cost_limit)

    def direction(problem, kind, beta):
        batch = exact_batch(problem, pi)
        local = linearise(tabular_policy(pi), batch, False)
        wall = Barriers(kind, batch.cost_limit - batch.cost_return, jnp.full(1, beta))
        return EXACT.direction(local, local.gradients(batch.adv_r[:, None])[0], wall)[0]

    np.testing.assert_allclose(
        direction(scaled, "log", 1.0), direction(cmdp, "log", 1.0), atol=1e-10
    )
    np.testing.assert_allclose(
        direction(scaled, "entropy", 1.0), direction(cmdp, "entropy", 10.0), atol=1e-10
    )


def iterate(cmdp, algorithm, start, steps):
    """Exact training: evaluate, update with the deep code, repeat; yields evaluations."""
    policy = tabular_policy(start)
    learner = learner_of(policy, algorithm, cmdp.cost.shape[0])
    improve = jax.jit(algorithm.improve)
    states = cmdp.reward.shape[0]
    pi = start
    for k in range(steps):
        found = evaluate(cmdp, pi)
        yield found
        learner = learner.improved(improve(learner, exact_batch(cmdp, pi), jax.random.key(k)))
        pi = probabilities(learner.policy, states)
    yield evaluate(cmdp, pi)


@pytest.mark.parametrize("barrier", ["entropy", "log"])
def test_c_trpo_is_safe_at_every_step_and_nears_the_lp_optimum(barrier, float64):
    """The gap shrinks with the radius; no step is ever unsafe."""
    cmdp, best = toy(), optimum(toy()).reward_return
    gaps = []
    for radius, steps in ((1e-2, 50), (1e-3, 400)):
        algorithm = CTRPO(barrier=barrier, region=replace(EXACT, radius=radius))
        path = list(iterate(cmdp, algorithm, two_action_policy(0.3, 0.1), steps))
        assert all(found.slack[0] > 0 for found in path)
        gaps.append(best - max(found.reward_return for found in path))
    assert 0 <= gaps[1] < gaps[0] < 0.02


def test_trpo_leaves_the_safe_set_on_the_same_problem(float64):
    algorithm = TRPO(region=replace(EXACT, radius=1e-2))
    path = list(iterate(toy(), algorithm, two_action_policy(0.3, 0.1), 120))
    assert path[-1].slack[0] < 0
    np.testing.assert_allclose(path[-1].reward_return, 1.84, atol=0.01)


def test_c_npg_follows_the_same_path_without_a_search(float64):
    algorithm = replace(
        c_npg(),
        region=replace(EXACT, radius=1e-4, backtracks=16, shrink=0.5),
        barrier="log",
    )
    path = list(iterate(toy(), algorithm, two_action_policy(0.3, 0.1), 400))
    assert all(found.slack[0] > 0 for found in path)
    assert path[-1].reward_return > 1.09


def test_recovery_with_hysteresis_and_two_constraints(float64):
    """Recovery ends only below h·b, and repairing one constraint does not break the other."""
    cmdp = toy()
    both = replace(
        cmdp,
        cost=np.concatenate([cmdp.cost, 0.5 * cmdp.reward[None]]),
        cost_limit=np.array([0.2, 0.5]),
    )
    algorithm = CTRPO(hysteresis=0.8, region=replace(EXACT, radius=1e-3))
    start = two_action_policy(0.2, 0.6)  # V_c far above 0.2, the second constraint holds
    path = list(iterate(both, algorithm, start, 400))
    assert path[0].slack[0] < 0 < path[0].slack[1]
    safe_from = next(k for k, found in enumerate(path) if found.slack[0] > 0.2 * 0.2)
    assert all(found.slack.min() > 0 for found in path[safe_from:])
    assert all(found.slack[1] > 0 for found in path)


def test_modes_by_hand():
    """Entered at J ≥ b, left at J < h b; the margin counts on both sides."""
    algorithm = CTRPO(hysteresis=0.8)
    batch = exact_batch(toy(), two_action_policy(0.3, 0.1))
    told = []
    was = jnp.array([False])
    for cost in (24.0, 25.0, 21.0, 20.0, 19.9, 24.9):
        now = replace(batch, cost_return=jnp.array([cost]), cost_limit=jnp.array([25.0]))
        was = algorithm.mode(was, now, now.cost_return)
        told.append(bool(was[0]))
    assert told == [False, True, True, True, False, False]
    careful = replace(now, cost_return=jnp.array([19.0]), cost_error=jnp.array([7.0]))
    assert bool(algorithm.mode(was, careful, jnp.array([26.0]))[0])


@pytest.mark.parametrize(
    ("share", "cost", "confidence", "stays"),
    [
        (0.5, 24.0, 1.0, True),  # the step promises twice the margin
        (2.0, 24.0, 1.0, False),  # half of it: this is as far as it gets
        (2.0, 24.0, 0.0, True),  # published: without a margin only h·b counts
        (2.0, 26.0, 1.0, True),  # above the limit nothing is over
    ],
)
def test_recovery_ends_where_a_step_changes_less_than_the_margin(
    share, cost, confidence, stays, float64
):
    pi = two_action_policy(0.3, 0.1)
    algorithm = CTRPO(region=EXACT, margin_confidence=confidence)
    learner = replace(learner_of(tabular_policy(pi), algorithm), extra=jnp.array([True]))
    known = {"cost_return": jnp.array([cost]), "cost_limit": jnp.array([25.0])}
    batch = replace(exact_batch(toy(), pi), **known)
    update = lambda error: algorithm.improve(
        learner, replace(batch, cost_error=jnp.asarray([error])), jax.random.key(0)
    )
    promised = -float(update(0.0).spent[0])
    assert 0 < share * promised < 1.0  # the margin alone does not reach the limit
    assert bool(update(share * promised).extra[0]) == stays


def stepped(algorithm, pi, progress, limit):
    """The exact update at a point of a run, as (policy, metrics)."""
    batch = exact_batch(toy(), pi)
    batch = replace(batch, progress=jnp.asarray(progress), cost_limit=jnp.asarray([limit]))
    found = algorithm.improve(learner_of(tabular_policy(pi), algorithm), batch, jax.random.key(0))
    return probabilities(found.policy, 2), found.metrics


def test_a_run_lands_below_its_limit(float64):
    """Last twentieth: repaired down to h·b, then left as it is. Before that nothing changes."""
    pi = two_action_policy(0.3, 0.1)
    cost = float(evaluate(toy(), pi).cost_return[0])
    ours, plain = CTRPO(region=EXACT), CTRPO(region=EXACT, landing=0.0)
    gains = lambda new: float(
        evaluate(toy(), new).reward_return - evaluate(toy(), pi).reward_return
    )
    saves = lambda new: cost - float(evaluate(toy(), new).cost_return[0])
    for limit in (2 * cost, 1.1 * cost):  # below h·b, and between h·b and b
        for algorithm, progress in ((ours, 0.94), (plain, 0.98)):
            new, told = stepped(algorithm, pi, progress, limit)
            assert gains(new) > 0 and not told["recovering"]
        np.testing.assert_array_equal(new, stepped(ours, pi, 0.94, limit)[0])
    kept, told = stepped(ours, pi, 0.95, 2 * cost)
    np.testing.assert_array_equal(kept, probabilities(tabular_policy(pi), 2))
    assert not told["recovering"]
    repaired, told = stepped(ours, pi, 0.95, 1.1 * cost)
    assert saves(repaired) > 0 and told["recovering"]
    near, far = ((1 + by) * cost / (1 - ours.hysteresis) for by in (-1e-6, 1e-6))
    np.testing.assert_array_equal(stepped(ours, pi, 0.95, near)[0], kept)
    gone_on = stepped(ours, pi, 0.95, far)[0]  # the limit is far: nothing to land from
    np.testing.assert_array_equal(gone_on, stepped(plain, pi, 0.95, far)[0])
    assert gains(gone_on) > 0


def test_corrected_divergences_are_both_of_old_from_new(float64):
    """D10, D17: Σ d_k KL(π_k ‖ π) + β D_φ(y_k ‖ y) of the linearised y, at a step of some size."""
    algorithm = make_run("c-trpo", "corrected").algorithm
    pi, new = two_action_policy(0.3, 0.1), two_action_policy(0.45, 0.2)
    batch, found = exact_batch(toy(), pi), evaluate(toy(), pi)
    visits = found.occupancy.sum(1)
    before = found.slack[0]
    after = before - visits @ (new * found.adv_c[0]).sum(1)
    kl = lambda p, q: visits @ (p * np.log(p / q)).sum(1)
    phi = lambda x, y: x * np.log(x) - y * np.log(y) - (np.log(y) + 1) * (x - y)
    wall = Barriers(algorithm.barrier, batch.cost_limit - batch.cost_return, jnp.ones(1))
    local = linearise(tabular_policy(pi), batch, False)
    ours = algorithm.region.trial(local, tabular_policy(new), batch.adv_r, wall).divergence
    np.testing.assert_allclose(ours, kl(pi, new) + phi(before, after), rtol=1e-10)
    for wrong in (kl(new, pi) + phi(before, after), kl(pi, new) + phi(after, before)):
        assert abs(ours - wrong) > 1e-3 * ours  # either mixed order is another number


def test_grid_search_of_the_exact_update(float64):
    """C13: the update as a grid search over all policies of the square, by the deep divergence."""
    cmdp, pi = toy(), two_action_policy(0.6, 0.4)
    found = evaluate(cmdp, pi)
    visits = found.occupancy.sum(1)
    axis = np.linspace(0, 1, 2001)
    new = np.stack([axis, 1 - axis])  # in either state; the square is their product
    square = lambda first, second: visits[0] * first[:, None] + visits[1] * second
    adv = lambda a: square(*(a @ new))
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(new > 0, new * np.log(new / pi[:, :, None]), 0.0)
    kl = square(*ratio.sum(1))
    gain, spent = adv(found.adv_r), adv(found.adv_c[0])
    inside = lambda div: np.where(div <= 0.05, gain, -np.inf)
    best = lambda score: np.unravel_index(score.argmax(), score.shape)

    cpo = best(np.where((kl <= 0.05) & (spent <= found.slack[0]), gain, -np.inf))
    np.testing.assert_allclose(axis[list(cpo)], [0.7825, 0.4650], atol=1e-12)
    np.testing.assert_allclose(gain[cpo], 0.14663, atol=5e-6)

    @jax.jit
    def wall(beta, spent):
        barriers = Barriers("entropy", jnp.asarray(found.slack), beta[None])
        return jax.vmap(lambda s: barriers.divergence(s[None]))(spent)

    regions = {}
    for beta in (1e-4, 1.0, 2.0, 1e6):
        flat = np.asarray(wall(np.asarray(beta), spent.ravel())).reshape(spent.shape)
        regions[beta] = kl + flat
    expected = {1.0: ((0.7785, 0.4590), 0.13962), 2.0: ((0.7810, 0.4550), 0.13758)}
    for beta, (point, value) in expected.items():
        at = best(inside(regions[beta]))
        np.testing.assert_allclose(axis[list(at)], point, atol=1e-12)
        np.testing.assert_allclose(gain[at], value, atol=5e-6)
    assert best(inside(regions[1e-4])) == cpo
    nested = [regions[b] <= 0.05 for b in (1e-4, 1.0, 2.0)]
    assert all((small <= large).all() for large, small in itertools.pairwise(nested))
    far = best(inside(regions[1e6]))
    # E9: δ(β) does not vanish as β grows; the grid leaves few points with almost no cost change.
    assert kl[far] == pytest.approx(0.05, abs=2e-3)

    # C14 on every grid point of the region: both performance bounds.
    chosen = np.argwhere(regions[1.0] <= 0.05)[::997]
    gamma = cmdp.gamma
    for i, j in chosen:
        other = two_action_policy(
            min(max(axis[i], 1e-12), 1 - 1e-12), min(max(axis[j], 1e-12), 1 - 1e-12)
        )
        truth = evaluate(cmdp, other)
        for adv_f, before, after, surrogate in (
            (found.adv_r, found.reward_return, truth.reward_return, gain[i, j]),
            (found.adv_c[0], found.cost_return[0], truth.cost_return[0], spent[i, j]),
        ):
            worst = np.abs((other * adv_f).sum(1)).max()
            bound = np.sqrt(2 * kl[i, j]) * gamma * worst / (1 - gamma)
            assert abs(after - before - surrogate) <= bound + 1e-9
    at = two_action_policy(0.7785, 0.4590)
    np.testing.assert_allclose(evaluate(cmdp, at).cost_return[0], 0.18569, atol=5e-6)


@pytest.mark.parametrize("kind", ["entropy", "log"])
def test_euler_thresholds(kind):
    """C27: just below the step bound the linearised margin stays positive, above it breaks."""
    y, rr, s, beta = 0.05, 0.7, 0.3, 0.4
    curvature = {"entropy": 1 / y, "log": 1 / y**2}[kind]
    rate = rr / (1 + beta * curvature * s)
    threshold = {"entropy": (y + beta * s) / rr, "log": (y**2 + beta * s) / (rr * y)}[kind]
    assert y - 0.999 * threshold * rate > 0
    assert y - 1.001 * threshold * rate < 0
