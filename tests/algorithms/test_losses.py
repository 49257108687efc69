# SPDX-License-Identifier: Apache-2.0
"""Losses and gradients against independent NumPy formulae, in both presets.

The policy is linear-Gaussian, so the reference needs nothing but arrays; gradients are central
differences of the reference in double precision.
"""

from collections.abc import Callable
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from holdfast.algorithms import C3PO, CSPO, CUP, FOCOPS, IPO, P3O
from holdfast.core.first_order import Rows
from holdfast.core.policies import Gaussian
from holdfast.core.types import sampled_batch
from holdfast.run import make_run

M, N_OBS, A, K = 24, 3, 2, 2
RNG = np.random.default_rng(11)
OBS, ACTION = RNG.normal(size=(M, N_OBS)), RNG.normal(size=(M, A))
ADV_R, ADV_C = RNG.normal(size=M), RNG.normal(size=(M, K))
OLD = RNG.normal(size=N_OBS * A + 2 * A) * 0.3
NEW = OLD + RNG.normal(size=OLD.size) * 0.08
HALF = OLD + RNG.normal(size=OLD.size) * 0.08
Floats = np.ndarray
pytestmark = pytest.mark.usefixtures("float64")


def parts(theta: Floats) -> tuple[Floats, Floats]:
    """ravel_pytree's order: bias and weight of the layer as (weight, bias), then log_std."""
    weight, rest = theta[: N_OBS * A].reshape(N_OBS, A), theta[N_OBS * A :]
    return OBS @ weight + rest[:A], rest[A:]


def log_prob(theta: Floats) -> Floats:
    mean, log_std = parts(theta)
    z = (ACTION - mean) / np.exp(log_std)
    return (-0.5 * z**2 - log_std - 0.5 * np.log(2 * np.pi)).sum(1)


def rho(theta: Floats) -> Floats:
    return np.exp(log_prob(theta) - log_prob(OLD))


def kl(first: Floats, second: Floats) -> Floats:
    (m1, l1), (m2, l2) = parts(first), parts(second)
    return (l2 - l1 + (np.exp(2 * l1) + (m1 - m2) ** 2) / (2 * np.exp(2 * l2)) - 0.5).sum(1)


def ppo(theta: Floats, adv: Floats) -> float:
    r = rho(theta)
    return -np.minimum(r * adv, np.clip(r, 0.8, 1.2) * adv).mean()


def pessimistic(theta: Floats, adv: Floats) -> float:
    r = rho(theta)
    return np.maximum(r * adv, np.clip(r, 0.8, 1.2) * adv).mean()


def policy(theta: Floats) -> Gaussian:
    weight, rest = theta[: N_OBS * A].reshape(N_OBS, A), theta[N_OBS * A :]
    return Gaussian(((jnp.asarray(weight), jnp.asarray(rest[:A])),), jnp.asarray(rest[A:]))


def rows(adv_r: Floats = ADV_R) -> Rows:
    old = policy(OLD)
    obs, action = jnp.asarray(OBS), jnp.asarray(ACTION)
    weight, empty = jnp.full(M, 1 / M), jnp.zeros((M, 1 + K))
    before = old.log_prob(old.outputs(obs), action)
    return Rows(obs, action, weight, jnp.asarray(adv_r), jnp.asarray(ADV_C), empty, before)


def batch(cost: list[float], limit: list[float]):
    made = sampled_batch(
        jnp.asarray(OBS),
        jnp.asarray(ACTION),
        jnp.asarray(ADV_R),
        jnp.asarray(ADV_C),
        cost_return=jnp.asarray(cost),
        cost_limit=jnp.asarray(limit),
    )
    return replace(made, horizon=jnp.asarray(100.0), length=jnp.asarray(1000.0))


def check(loss: Callable[[Gaussian], jax.Array], reference: Callable[[Floats], float]) -> None:
    value, grad = jax.value_and_grad(loss)(policy(NEW))
    assert float(value) == pytest.approx(reference(NEW), rel=1e-10)
    step = 1e-6
    slope = [
        (reference(NEW + step * e) - reference(NEW - step * e)) / (2 * step)
        for e in np.eye(NEW.size)
    ]
    np.testing.assert_allclose(ravel_pytree(grad)[0], slope, rtol=1e-5, atol=1e-7)


def preset(name: str, side: str):
    return make_run(name, side).algorithm  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("side", ["published", "corrected"])
def test_focops(side: str) -> None:
    algorithm = preset("focops", side)
    assert isinstance(algorithm, FOCOPS)
    algorithm = FOCOPS(mask=algorithm.mask, state_kl=float(np.median(kl(NEW, OLD))))

    def reference(theta: Floats) -> float:
        k, near = kl(theta, OLD), (kl(NEW, OLD) <= algorithm.state_kl).astype(float)
        gain = rho(theta) * ADV_R / 1.5
        if side == "corrected":
            return (near * (k - gain)).mean()
        return (near * k).mean() - near.mean() * gain.mean()

    check(lambda p: algorithm.loss(policy(OLD), p, rows()), reference)


def test_focops_published_mask_is_the_broadcast_slip() -> None:
    """(B, 1) against (B,): the mean over the B x B matrix is what the closed form says (D25)."""
    k, near = kl(NEW, OLD)[:, None], (kl(NEW, OLD) <= 0.02).astype(float)[:, None]
    slip = ((k - (rho(NEW) * ADV_R / 1.5)[None, :]) * near).mean()
    value = FOCOPS(mask="batch").loss(policy(OLD), policy(NEW), rows())
    assert float(value) == pytest.approx(slip, rel=1e-10)


@pytest.mark.parametrize("side", ["published", "corrected"])
def test_cup(side: str) -> None:
    algorithm = preset("cup", side)
    assert isinstance(algorithm, CUP)
    assert algorithm.multiplier.multiplier_max == (0.2 if side == "published" else 2.0)
    price = np.array([0.2, 0.1])
    seen = batch([0.0] * K, [1.0] * K)
    for lam in (0.95, 0.5):  # whatever `cost_lam` the advantages were made with
        coefficient = float(algorithm.coefficient(replace(seen, cost_lam=jnp.asarray(lam))))
        assert coefficient == pytest.approx((1 - 0.99 * lam) / (1 - 0.99))

    def reference(theta: Floats) -> float:
        paid = (coefficient * rho(theta)[:, None] * ADV_C * price).sum(1)
        return (paid + kl(theta, HALF)).mean()

    weight = jnp.asarray(coefficient * price)
    check(lambda p: algorithm.projection(policy(HALF), p, rows(), weight), reference)


@pytest.mark.parametrize("side", ["published", "corrected"])
@pytest.mark.parametrize("cost", [[13.0, 24.0], [30.0, 24.0], [30.0, 26.0]])
def test_ipo(side: str, cost: list[float]) -> None:
    algorithm = preset("ipo", side)
    assert isinstance(algorithm, IPO)
    sign = -1 if side == "published" else 1
    kappa = 1.0 if side == "published" else 1000.0
    slack = 25.0 - np.array(cost)
    recovering = bool((slack <= 0).any())
    excess = np.maximum(-slack, 0)
    share = excess / excess.sum() if recovering else excess

    def reference(theta: Floats) -> float:
        if recovering:
            return pessimistic(theta, ADV_C @ share)
        weight = sign * kappa / (20.0 * slack)
        return ppo(theta, ADV_R) + (rho(theta) * (ADV_C @ weight)).mean()

    seen = replace(batch(cost, [25.0] * K), horizon=jnp.asarray(kappa))
    weight = algorithm.weight(seen)
    args = (weight, jnp.asarray(share), jnp.asarray(recovering))
    check(lambda p: algorithm.loss(p, rows(), *args), reference)


@pytest.mark.parametrize("side", ["published", "corrected"])
def test_p3o(side: str) -> None:
    algorithm = preset("p3o", side)
    assert isinstance(algorithm, P3O)
    kappa = 10.0 if side == "published" else 20.0
    offset = 0.01 * (np.array([30.0, 5.0]) - 25.0)

    def reference(theta: Floats) -> float:
        total = ppo(theta, ADV_R)
        for i in range(K):
            noise = ADV_C[:, i].mean() if side == "corrected" else 0.0
            total += kappa * max(0.0, pessimistic(theta, ADV_C[:, i]) - noise + offset[i])
        return total

    check(lambda p: algorithm.loss(p, rows(), jnp.asarray(offset)), reference)


@pytest.mark.parametrize("hinge", ["relu", "softplus"])
def test_c3po(hinge: str) -> None:
    algorithm = C3PO(hinge=hinge)  # pyright: ignore[reportArgumentType]
    slack = np.array([10.0, -3.0])
    free = np.minimum(slack, 0.05 * slack)
    assert free.tolist() == [0.5, -3.0]

    def reference(theta: Floats) -> float:
        total = ppo(theta, ADV_R)
        for i in range(K):
            x = pessimistic(theta, ADV_C[:, i]) - free[i]
            total += 7.0 * (max(0.0, x) if hinge == "relu" else np.log1p(np.exp(x)))
        return total

    check(lambda p: algorithm.loss(p, rows(), jnp.asarray(free), jnp.asarray(7.0)), reference)


def test_cspo() -> None:
    algorithm = CSPO(correction=3.0)
    offset, price, weight = np.array([0.05, -9.0]), np.array([0.4, 0.3]), np.array([2.0, 5.0])

    def reference(theta: Floats) -> float:
        total = ppo(theta, ADV_R)
        for i in range(K):
            excess = offset[i] + ((rho(theta) - 1) * ADV_C[:, i]).mean()
            total += price[i] * excess + 1.5 * weight[i] * max(0.0, excess) ** 2
        return total

    args = tuple(map(jnp.asarray, (offset, price, weight)))
    check(lambda p: algorithm.loss(p, rows(), *args), reference)


def test_cspo_leaves_the_optimum_of_the_price_alone() -> None:
    """At ĝ = 0 the correction and its gradient vanish; where the limit is broken they do not."""
    price, weight = jnp.full(K, 0.4), jnp.full(K, 2.0)

    def slope(correction: float, offset: float) -> Floats:
        loss = lambda p: CSPO(correction=correction).loss(
            p, rows(), jnp.full(K, offset), price, weight
        )
        return np.asarray(ravel_pytree(jax.grad(loss)(policy(OLD)))[0])

    np.testing.assert_array_equal(slope(3.0, 0.0), slope(0.0, 0.0))
    assert np.abs(slope(3.0, 0.1) - slope(0.0, 0.1)).max() > 1e-3


def test_cspo_weighs_by_the_distance_to_the_limit() -> None:
    """w = 1 / (|∇ĝ|² + 1e-8), capped, then averaged; the gradient by central differences."""
    seen, old = batch([30.0, 5.0], [25.0] * K), policy(OLD)
    mean = lambda theta, i: (rho(theta) * ADV_C[:, i]).mean()
    slopes = [
        [(mean(OLD + 1e-6 * e, i) - mean(OLD - 1e-6 * e, i)) / 2e-6 for e in np.eye(OLD.size)]
        for i in range(K)
    ]
    expected = 1 / (np.square(slopes).sum(1) + 1e-8)
    first = CSPO(weight_max=1e6).weight(old, seen, jnp.zeros(K))
    np.testing.assert_allclose(first, expected, rtol=1e-6)
    cap = float(expected.min())
    assert float(CSPO(weight_max=cap).weight(old, seen, jnp.zeros(K)).max()) == pytest.approx(cap)
    later = CSPO(weight_max=1e6, weight_keep=0.75).weight(old, seen, jnp.full(K, 8.0))
    np.testing.assert_allclose(later, 6.0 + 0.25 * expected, rtol=1e-6)


@pytest.mark.parametrize("centre", [False, True])
def test_a_minibatch_of_costly_samples_is_not_a_violation(centre: bool) -> None:
    """At the old policy nothing has changed: only the centred hinge sees that in a minibatch."""
    costly = jnp.abs(jnp.asarray(ADV_C))
    seen = replace(rows(), adv_c=costly)
    offset = jnp.full(K, -1e-3)
    for algorithm in (P3O(centre=centre), C3PO(centre=centre)):
        args = (offset,) if isinstance(algorithm, P3O) else (-offset, jnp.asarray(10.0))
        charged = float(algorithm.loss(policy(OLD), seen, *args)) + float(ADV_R.mean())
        expected = 0.0 if centre else 10.0 * float((costly.mean(0) - 1e-3).sum())
        assert charged == pytest.approx(expected, abs=1e-9)
