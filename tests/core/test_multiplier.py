# SPDX-License-Identifier: Apache-2.0
"""Prices against traces computed by hand."""

import math
from collections import deque

import jax.numpy as jnp
import numpy as np
import pytest

from holdfast.core.multiplier import PID, Multiplier, mixed_advantage
from holdfast.core.types import Batch, sampled_batch

COSTS = [60.0, 40.0, 26.0, 10.0, 0.0, 0.0, 24.0, 25.0, 90.0, 30.0, 28.0, 25.5, 20.0, 31.0]


def batch_with(cost: list[float], limit: list[float]) -> Batch:
    one = jnp.ones((2, len(cost)))
    return sampled_batch(
        jnp.zeros((2, 1)),
        jnp.zeros((2, 1)),
        jnp.array([1.0, -1.0]),
        one * jnp.array([[1.0], [-1.0]]),
        cost_return=jnp.array(cost),
        cost_limit=jnp.array(limit),
    )


def trace(rule: Multiplier | PID, costs: list[float]) -> list[float]:
    state = rule.init(1)
    found = []
    for cost in costs:
        state = rule.update(state, batch_with([cost], [25.0]))  # pyright: ignore[reportArgumentType]
        found.append(float(state.value[0]))
    return found


def test_adam_trace() -> None:
    m = v = 0.0
    lam, expected = 0.001, []
    for n, cost in enumerate(COSTS, 1):
        g = -(cost - 25.0)
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        move = (m / (1 - 0.9**n)) / (math.sqrt(v / (1 - 0.999**n)) + 1e-8)
        lam = max(0.0, lam - 0.035 * move)
        expected.append(lam)
    np.testing.assert_allclose(trace(Multiplier(), COSTS), expected, rtol=1e-4)
    assert expected[0] == pytest.approx(0.036)  # one step size, whatever the violation


def test_sgd_trace_and_cap() -> None:
    rule = Multiplier(multiplier_rule="sgd", multiplier_lr=0.01, multiplier_max=0.5)
    assert trace(rule, [60.0, 40.0, 100.0, 0.0]) == pytest.approx([0.351, 0.5, 0.5, 0.25])
    assert trace(rule, [0.0, 0.0, 30.0]) == pytest.approx([0.0, 0.0, 0.05])


def test_moments_survive_the_clamp() -> None:
    """After a long safe phase the price reacts with delay, as the published one."""
    late = trace(Multiplier(), [0.0] * 20 + [30.0])
    assert late[-2] == 0.0 and late[-1] == 0.0
    assert trace(Multiplier(), [30.0])[0] > 0.03


def pid_by_hand(costs: list[float]) -> list[float]:
    integral, p, average, queue = 0.001, 0.0, 0.0, deque([0.0], maxlen=10)
    found = []
    for cost in costs:
        e = cost - 25.0
        integral = max(0.0, integral + 0.01 * e)
        p = 0.95 * p + 0.05 * e
        average = 0.95 * average + 0.05 * cost
        d = max(0.0, average - queue[0])
        queue.append(average)
        found.append(max(0.0, 0.1 * p + integral + 0.01 * d))
    return found


def test_pid_trace() -> None:
    found = trace(PID(), COSTS)
    np.testing.assert_allclose(found, pid_by_hand(COSTS), rtol=1e-5, atol=1e-6)
    assert found[0] == pytest.approx(0.351 + 0.1 * 1.75 + 0.01 * 3.0, rel=1e-5)


def test_pid_without_averages() -> None:
    rule = PID(pid_smoothing=0.0, pid_delay=1, pid_init=0.0)
    # e = 35, 15: I = 0.35, 0.5; P = e; D = 60, then 0 since the cost falls
    assert trace(rule, [60.0, 40.0]) == pytest.approx([3.5 + 0.35 + 0.6, 1.5 + 0.5], rel=1e-5)


def test_one_price_for_each_constraint() -> None:
    for rule in (Multiplier(), PID()):
        state = rule.init(2)
        state = rule.update(state, batch_with([60.0, 0.0], [25.0, 25.0]))  # pyright: ignore[reportArgumentType]
        assert float(state.value[0]) > 0.03 and float(state.value[1]) == 0.0


def test_mixed_advantage() -> None:
    batch = batch_with([0.0, 0.0], [1.0, 1.0])
    price = jnp.array([0.5, 2.0])
    np.testing.assert_allclose(mixed_advantage(batch, price), [-1.5 / 3.5, 1.5 / 3.5], rtol=1e-6)
    np.testing.assert_allclose(mixed_advantage(batch, price, rescale=False), [-1.5, 1.5])


@pytest.mark.parametrize(
    "make",
    [
        lambda: Multiplier(multiplier_lr=0.0),
        lambda: Multiplier(multiplier_init=-1.0),
        lambda: Multiplier(multiplier_init=1.0, multiplier_max=0.5),
        lambda: PID(pid_delay=0),
        lambda: PID(pid_smoothing=1.0),
        lambda: PID(pid_p=-1.0),
    ],
)
def test_bad_settings(make: object) -> None:
    with pytest.raises(ValueError, match="must"):
        make()  # pyright: ignore[reportCallIssue]
