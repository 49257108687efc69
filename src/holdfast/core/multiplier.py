# SPDX-License-Identifier: Apache-2.0
"""Prices of constraint violation: λ ≥ 0, one for each constraint, updated once in an epoch.

    Multiplier   gradient ascent on λ (J_c − b): by Adam (published) or with a plain step
    PID          a controller on J_c − b: proportional, integral and derivative terms

Both are values with `init` and `update`; the state's `value` [K] is the price. A method that uses
it learns from the mixed advantage (A_r − Σ λ_i A_i) / (1 + Σ λ_i).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, cast

import jax
import jax.numpy as jnp
import optax
from jax import Array

from holdfast.core.types import Batch, Improvement, check_range


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Price:
    """State of a `Multiplier`."""

    value: Array
    """[K] λ."""
    moments: optax.OptState


@dataclass(frozen=True)
class Multiplier:
    """λ by gradient ascent on the dual problem, clamped to [0, max]."""

    multiplier_init: float = 0.001
    """λ before the first update."""
    multiplier_lr: float = 0.035
    """Step size of λ: with adam about its change in an epoch, with sgd a factor on the
    violation."""
    multiplier_rule: Literal["adam", "sgd"] = "adam"
    """Optimiser of λ: adam changes λ by about the step size whatever the violation, as in the
    published code; sgd in proportion to the violation."""
    multiplier_max: float | None = None
    """Largest λ; none: unbounded."""

    def __post_init__(self) -> None:
        check_range(self, "(0, inf)", "try 0.035", "multiplier_lr")
        check_range(self, "[0, inf)", "prices are never negative", "multiplier_init")
        _check_max(self, "multiplier_init")

    def init(self, constraints: int) -> Price:
        value = jnp.zeros(constraints) + self.multiplier_init
        return Price(value, _ADAM.init(value))

    def update(self, price: Price, batch: Batch) -> Price:
        """λ ← clamp(λ + lr · step(J_c − b)); Adam's moments survive the clamp."""
        gradient = (batch.cost_limit - batch.cost_return).astype(price.value.dtype)
        step, moments = gradient, price.moments
        if self.multiplier_rule == "adam":
            step, moments = cast(Any, _ADAM.update(gradient, price.moments))
        value = jnp.clip(price.value - self.multiplier_lr * step, 0.0, self.multiplier_max)
        return Price(value, moments)


_ADAM = optax.scale_by_adam()


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Control:
    """State of a `PID` controller."""

    value: Array
    """[K] λ."""
    integral: Array
    proportional: Array
    average: Array
    history: Array
    """[delay, K] earlier averages, oldest first."""


@dataclass(frozen=True)
class PID:
    """λ = max(0, K_P P + I + K_D D) (Stooke, Achiam, Abbeel 2020).

    P averages the violation, I sums K_I times the violation and is never negative, D is the rise of
    the averaged cost over `pid_delay` epochs.
    """

    pid_p: float = 0.1
    """K_P, gain on the violation."""
    pid_i: float = 0.01
    """K_I, gain on the summed violation."""
    pid_d: float = 0.01
    """K_D, gain on the rise of the cost."""
    pid_delay: int = 10
    """Epochs over which the rise of the cost is measured."""
    pid_smoothing: float = 0.95
    """Weight of the past in the averages of P and D; 0: no averaging."""
    pid_init: float = 0.001
    """I before the first update."""
    multiplier_max: float | None = None
    """Largest λ; none: unbounded. The division by 1 + λ keeps steps bounded."""

    def __post_init__(self) -> None:
        check_range(self, "[1, inf)", "10 is usual", "pid_delay")
        check_range(self, "[0, 1)", "0 is off", "pid_smoothing")
        check_range(self, "[0, inf)", "0 is off", "pid_p", "pid_i", "pid_d", "pid_init")
        _check_max(self, "pid_init")

    def init(self, constraints: int) -> Control:
        zero = jnp.zeros(constraints)
        history = jnp.zeros((self.pid_delay, constraints))
        return Control(zero + self.pid_init, zero + self.pid_init, zero, zero, history)

    def update(self, control: Control, batch: Batch) -> Control:
        dtype = control.value.dtype
        cost = batch.cost_return.astype(dtype)
        error = cost - batch.cost_limit.astype(dtype)
        keep = self.pid_smoothing
        integral = jnp.maximum(control.integral + self.pid_i * error, 0.0)
        proportional = keep * control.proportional + (1 - keep) * error
        average = keep * control.average + (1 - keep) * cost
        rise = jnp.maximum(average - control.history[0], 0.0)
        value = self.pid_p * proportional + integral + self.pid_d * rise
        return Control(
            jnp.clip(value, 0.0, self.multiplier_max),
            integral,
            proportional,
            average,
            jnp.concatenate([control.history[1:], average[None]]),
        )


def _check_max(rule: Multiplier | PID, first: str) -> None:
    """Check the largest price of a rule, and that the field `first` is not larger."""
    if rule.multiplier_max is None:
        return
    check_range(rule, "[0, inf]", "inf switches it off", "multiplier_max")
    if (value := getattr(rule, first)) > rule.multiplier_max:
        raise ValueError(
            f"{first}={value} must lie between 0 and multiplier_max={rule.multiplier_max}; prices "
            "are never negative."
        )


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Priced:
    """State of a first-order method with a price."""

    price: Price | Control
    moments: optax.OptState
    """Moments of the policy's Adam."""


def priced(step: Improvement, price: Price | Control) -> Improvement:
    """The result of the first-order loop, whose state are its moments, with the price."""
    return step.with_metrics({"multiplier": price.value.sum()}, extra=Priced(price, step.extra))


def mixed_advantage(batch: Batch, price: Array, rescale: bool = True) -> Array:
    """[B] A_r − Σ λ_i A_i, divided by 1 + Σ λ_i so that a high price does not enlarge the step."""
    price = price.astype(batch.adv_r.dtype)
    mixed = batch.adv_r - batch.adv_c @ price
    return mixed / (1 + price.sum()) if rescale else mixed
