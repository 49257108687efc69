# SPDX-License-Identifier: Apache-2.0
"""Occupancies, values, gradients and metrics (checks C1-C4, C7-C9, C24, C25)."""

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

from holdfast.tabular.cmdp import FiniteCMDP, Floats, toy, two_action_policy
from holdfast.tabular.instances import random_cmdp
from holdfast.tabular.occupancy import (
    advantage,
    constrained_gramian,
    evaluate,
    gradient,
    gramian,
    mean_kl,
    occupancy,
    policy_of,
    softmax,
    state_value,
)
from tabular_scale import conditional_entropy_hessian, occupancy_jacobian


def draw(rng: np.random.Generator) -> tuple[FiniteCMDP, Floats]:
    cmdp = random_cmdp(rng, int(rng.integers(2, 9)), int(rng.integers(2, 5)), 2)
    return cmdp, rng.dirichlet(np.ones(cmdp.num_actions), size=cmdp.num_states)


def test_c1_occupancy_laws(rng: np.random.Generator) -> None:
    for _ in range(20):
        cmdp, policy = draw(rng)
        d = occupancy(cmdp, policy)
        inflow = cmdp.gamma * np.einsum("sa,sat->t", d, cmdp.transition)
        assert abs(d.sum() - 1.0) < 1e-12
        np.testing.assert_allclose(d.sum(axis=1), inflow + 0.1 * cmdp.initial, atol=1e-12)
        value = state_value(cmdp, policy, cmdp.reward)
        assert np.sum(cmdp.reward * d) == pytest.approx(0.1 * cmdp.initial @ value, abs=1e-12)
        np.testing.assert_allclose(policy_of(d), policy, atol=1e-12)


@pytest.mark.parametrize(
    ("first", "reward", "cost"),
    [((0, 0), 0.0, 0.004842), ((0, 1), 1.84, 0.92), ((1, 0), 0.98, 0.0982), ((1, 1), 1.20, 0.28)],
)
def test_c2_c3_deterministic_policies(first: tuple[int, int], reward: float, cost: float) -> None:
    found = evaluate(toy(), two_action_policy(*first))
    assert found.reward_return == pytest.approx(reward, abs=1e-12)
    assert found.cost_return[0] == pytest.approx(cost, abs=5e-7)


def test_c4_uniform_policy() -> None:
    found = evaluate(toy(), two_action_policy(0.5, 0.5))
    assert found.reward_return == pytest.approx(0.735, abs=1e-12)
    assert found.cost_return[0] == pytest.approx(0.26385, abs=1e-12)
    np.testing.assert_allclose(found.occupancy, [[0.265, 0.265], [0.235, 0.235]], atol=1e-12)


def test_c7_performance_difference(rng: np.random.Generator) -> None:
    for _ in range(20):
        cmdp, old = draw(rng)
        new = rng.dirichlet(np.ones(cmdp.num_actions), size=cmdp.num_states)
        signals = np.concatenate([cmdp.reward[None], cmdp.cost])
        moved = occupancy(cmdp, new) - occupancy(cmdp, old)
        rise = np.einsum("sa,ksa->k", moved, signals)
        predicted = np.einsum("sa,ksa->k", occupancy(cmdp, new), advantage(cmdp, old, signals))
        np.testing.assert_allclose(rise, predicted, atol=1e-10)
        # Advantages that carry (1−γ) themselves would be short by exactly that factor (E6).
        normalised = np.einsum(
            "sa,ksa->k", occupancy(cmdp, new), (1 - cmdp.gamma) * advantage(cmdp, old, signals)
        )
        np.testing.assert_allclose(normalised / rise, 1 - cmdp.gamma, rtol=1e-9)


def test_c7_gradient_of_the_surrogate_is_the_gradient_of_the_value(
    rng: np.random.Generator,
) -> None:
    """d·A, the Jacobian of the occupancy and complex-step differentiation agree."""
    for _ in range(5):
        cmdp, policy = draw(rng)
        theta = np.log(policy)
        by_theorem = gradient(cmdp, policy, cmdp.reward)
        by_jacobian = occupancy_jacobian(cmdp, policy).T @ cmdp.reward.reshape(-1)
        np.testing.assert_allclose(by_theorem.reshape(-1), by_jacobian, atol=1e-12)
        np.testing.assert_allclose(by_theorem, complex_step(cmdp, theta, cmdp.reward), atol=1e-10)


def complex_step(cmdp: FiniteCMDP, theta: Floats, signal: Floats) -> Floats:
    """∂V_f/∂θ without cancellation: the imaginary part of V_f(θ + ih)/h."""
    grad = np.zeros(theta.size)
    for i in range(theta.size):
        shifted = theta.astype(complex).reshape(-1)
        shifted[i] += 1e-30j
        weight = np.exp(shifted.reshape(theta.shape))
        policy = weight / weight.sum(axis=1, keepdims=True)
        moves = np.einsum("sa,sat->st", policy, cmdp.transition)
        system = np.eye(cmdp.num_states) - cmdp.gamma * moves.T
        visits = np.linalg.solve(system, (1 - cmdp.gamma) * cmdp.initial.astype(complex))
        grad[i] = np.sum(visits[:, None] * policy * signal).imag / 1e-30
    return grad.reshape(theta.shape)


def test_c8_advantages() -> None:
    found = evaluate(toy(), two_action_policy(0.6, 0.4))
    assert found.reward_return == pytest.approx(0.676, abs=1e-12)
    assert found.cost_return[0] == pytest.approx(0.19148, abs=1e-12)
    np.testing.assert_allclose(found.adv_r, [[0.328, -0.492], [1.308, -0.872]], atol=1e-12)
    expected = [[-0.08456, 0.12684], [0.78084, -0.52056]]
    np.testing.assert_allclose(found.adv_c[0], expected, atol=1e-12)


def test_c9_gradients() -> None:
    cmdp, policy = toy(), two_action_policy(0.3, 0.1)
    found = evaluate(cmdp, policy)
    assert found.reward_return == pytest.approx(0.25779221, abs=5e-9)
    assert found.cost_return[0] == pytest.approx(0.06334416, abs=5e-9)
    reward, cost = gradient(cmdp, policy, cmdp.reward), gradient(cmdp, policy, cmdp.cost[0])
    np.testing.assert_allclose(reward[:, 0], [0.128456, 0.073754], atol=5e-7)
    np.testing.assert_allclose(cost[:, 0], [0.006533, 0.039361], atol=5e-7)


def test_c24_mirror_function_and_its_divergence(rng: np.random.Generator) -> None:
    def negative_entropy(d: Floats) -> float:
        return float(np.sum(d * np.log(policy_of(d))))

    for _ in range(20):
        cmdp, policy = draw(rng)
        other = rng.dirichlet(np.ones(cmdp.num_actions), size=cmdp.num_states)
        d1, d2 = occupancy(cmdp, policy), occupancy(cmdp, other)
        nudge = rng.normal(size=d2.shape)
        slope = np.sum(np.log(policy_of(d2)) * nudge)
        analytic = derivative(lambda h, d=d2, u=nudge: complex_negative_entropy(d + h * u))
        assert analytic == pytest.approx(slope, abs=1e-12 * max(1.0, abs(slope)))
        bregman = negative_entropy(d1) - negative_entropy(d2) - np.sum(np.log(other) * (d1 - d2))
        assert bregman == pytest.approx(mean_kl(policy, other, d1.sum(axis=1)), abs=1e-12)


def complex_negative_entropy(d: np.ndarray) -> complex:
    return complex(np.sum(d * (np.log(d) - np.log(d.sum(axis=1, keepdims=True)))))


def derivative(f: Callable[[complex], complex]) -> float:
    return f(1e-30j).imag / 1e-30


def test_c25_hessian_pulls_back_to_the_gramian(rng: np.random.Generator) -> None:
    for _ in range(10):
        cmdp, policy = draw(rng)
        jacobian, d = occupancy_jacobian(cmdp, policy), occupancy(cmdp, policy)
        pulled = jacobian.T @ conditional_entropy_hessian(d) @ jacobian
        np.testing.assert_allclose(pulled, gramian(cmdp, policy), atol=1e-12)
        weight = np.array([0.7, 1.3])
        grads = jacobian.T @ cmdp.cost.reshape(2, -1).T
        np.testing.assert_allclose(
            pulled + grads @ np.diag(weight) @ grads.T,
            constrained_gramian(cmdp, policy, weight),
            atol=1e-12,
        )


def test_softmax_is_stable_and_kl_knows_the_boundary() -> None:
    np.testing.assert_allclose(softmax(np.array([[1e4, 0.0]])), [[1.0, 0.0]])
    inside, corner = two_action_policy(0.5, 0.5), two_action_policy(1.0, 0.5)
    visits = np.array([0.5, 0.5])
    assert mean_kl(inside, corner, visits) == np.inf
    assert mean_kl(corner, inside, visits) == pytest.approx(0.5 * np.log(2))
