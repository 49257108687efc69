# SPDX-License-Identifier: Apache-2.0
"""What slow noise does to a policy gradient, in closed form on a linear system.

    s' = α s + a + ξ,   a = θ + σ ε,   cost s',   V(s) = α s / (1 − γα)

The TD error of the exact critic is (a + ξ) / (1 − γα), so with q = γλ the generalised advantage is
A_t = Σ_l q^l (σ ε_{t+l} + ξ_{t+l}) / (1 − γα). Noise of correlation ρ and the score ε_t / σ of a
single action give

    E[A_t ε_t / σ] = 1 / ((1 − γα) (1 − qρ))            1 / (1 − qρ) times that of white noise
    long-run variance, ξ large = ν² / ((1 − γα)² σ²) · (1 + qρ) / ((1 − q²) (1 − qρ))

so the signal for each step, mean² / variance, grows by 1 / (1 − q²ρ²): up to the horizon of the
advantage, 1 / (1 − q²), and no further.
"""

import jax.numpy as jnp
import numpy as np
import pytest

from holdfast.core.estimate import gae
from holdfast.envs.noise import persistence, slow_normal

ALPHA, GAMMA, LAM, SIGMA = 0.9, 0.99, 0.95, 0.5
Q = GAMMA * LAM


def advantages(normal: np.ndarray, disturbance: np.ndarray) -> np.ndarray:
    """Of the library's own estimator along the linear system, [T, N]."""
    state = np.zeros((len(normal) + 1, normal.shape[1]))
    for t in range(len(normal)):
        state[t + 1] = ALPHA * state[t] + SIGMA * normal[t] + disturbance[t]
    value = ALPHA / (1 - GAMMA * ALPHA) * state
    given = (state[1:], value[:-1], value[1:], np.zeros(normal.shape))
    found = gae(*map(jnp.asarray, given), gamma=GAMMA, lam=LAM)
    return np.asarray(found)


def terms(time: float, spread: float, steps: int = 4_000, count: int = 200) -> np.ndarray:
    """A_t ε_t / σ, [T, N], without the last steps, whose sums are cut."""
    rng = np.random.default_rng(0)
    normal = slow_normal(rng, (steps, count), time).astype(float)
    disturbance = spread * rng.standard_normal((steps, count))
    return (advantages(normal, disturbance) * normal / SIGMA)[:-200]


def gain(rho: float) -> float:
    return 1 / (1 - (Q * rho) ** 2)


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("time", [0.0, 5.0, 20.0])
def test_the_predicted_change_is_too_large_by_a_known_factor(time: float):
    rho, unit = persistence(time), 1 / (1 - GAMMA * ALPHA)
    each = terms(time, 0.0).mean(0)
    wrong = 1 / (1 - GAMMA * rho) if time else 1 / (1 - Q)  # the control: λ forgotten, or ρ = 1
    error = 4 * each.std() / np.sqrt(each.size)
    assert each.mean() == pytest.approx(unit / (1 - Q * rho), abs=error)
    assert abs(each.mean() - unit * wrong) > error


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("time", [5.0, 20.0])
def test_the_signal_grows_up_to_the_horizon_of_the_advantage(time: float):
    """Measured: mean² per variance of the mean, beside that of white noise in the same system."""
    rho, spread = persistence(time), 20.0
    signal = {}
    for each in (0.0, time):
        mean = 1 / ((1 - GAMMA * ALPHA) * (1 - Q * persistence(each)))
        signal[each] = mean**2 / terms(each, spread).mean(0).var()
    ratio = signal[time] / signal[0.0]
    # A variance from 200 series is known to 10 %, their ratio to 14 %.
    assert ratio == pytest.approx(gain(rho), rel=0.4)
    assert ratio > 1.5
    unbounded = (1 + rho) / (1 - rho)  # the control: what an endless horizon would give
    assert ratio < 0.6 * unbounded


def test_noise_beyond_the_horizon_brings_nothing():
    assert gain(persistence(10.0)) > 0.4 * gain(1.0)
    assert gain(1.0) - gain(persistence(1_000.0)) < 0.03 * gain(1.0)
    assert gain(1.0) == pytest.approx(1 / (1 - Q * Q))
