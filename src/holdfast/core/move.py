# SPDX-License-Identifier: Apache-2.0
"""A step of a trust-region method: evaluation of candidates, line search, and status.

Candidates along a step are tried until one is accepted:

backtrack   1, shrink, shrink², ...: the first that is accepted bracket     doubling, then
bisection: the longest that is accepted
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from holdfast.core.policies import Policy
from holdfast.core.types import Improvement, Metrics


class Status(enum.IntEnum):
    """Status of a step. Compiled code cannot raise, so it returns one of these."""

    ACCEPTED = 0
    NO_STEP_ACCEPTED = 1
    """No step along the direction was acceptable. Here, and in the next cases, the policy is
    unchanged.
    """
    NO_GRADIENT = 2
    """The gradient vanishes or has no curvature."""
    NOT_FINITE = 3
    """The gradient or the direction is not finite."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Trial:
    """Changes by a candidate policy, relative to the old policy."""

    gain: Array
    """E[(ratio − 1) · advantage], the change of the objective."""
    kl: Array
    """Mean KL, averaged or summed as the region's settings require."""
    spent: Array
    """[K] κ E[(ratio − 1) · A_c], the predicted change of each cost return."""
    divergence: Array
    """D, +inf outside the linearised safe set."""


Accept = Callable[[Trial], Array]
"""Whether a candidate is acceptable."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Move:
    """A finished step."""

    policy: Policy
    trial: Trial
    status: Array
    """A `Status`."""
    index: Array
    """Accepted candidate of the search, counted from 1; 0 if none was."""
    gradient_norm: Array
    step_norm: Array

    def improvement(self, extra: Any, metrics: Metrics, *, predicts: bool = True) -> Improvement:
        """The improvement of an algorithm with this next state and these own metrics.

        `predicts`: the method uses the predicted cost change, so it is reported.
        """
        spent = self.trial.spent if predicts else None
        return Improvement(self.policy, extra, metrics | self.metrics(), spent, self.gradient_norm)

    def metrics(self) -> Metrics:
        return {
            "kl": self.trial.kl,
            "divergence": self.trial.divergence,
            "gain": self.trial.gain,
            "accepted": self.index,
            "status": self.status,
            "gradient_norm": self.gradient_norm,
            "step_norm": self.step_norm,
        }


TryOut = Callable[[Array], Trial]
"""A share of the step → its trial."""
Found = tuple[Array, Array, Trial]
"""(share of the step, index of the candidate counted from 1 or 0 if none was, its trial)."""


def backtrack(
    try_out: TryOut,
    accept: Accept,
    usable: Array,
    tries: int,
    shrink: float,
    quit_not_finite: bool = False,
) -> Found:
    """The first of 1, shrink, shrink², ... that is accepted."""

    def body(state: tuple[Array, Array, Trial]) -> tuple[Array, Array, Trial]:
        j, _, _ = state
        trial = try_out(shrink ** j.astype(zero.dtype))
        return j + 1, accept(trial), trial

    def searching(state: tuple[Array, Array, Trial]) -> Array:
        hopeless = quit_not_finite & ~jnp.isfinite(state[2].kl)
        return usable & ~state[1] & ~hopeless & (state[0] < tries)

    blank = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), jax.eval_shape(try_out, 1.0))
    zero = blank.kl
    tried, accepted, trial = jax.lax.while_loop(
        searching, body, (jnp.zeros((), jnp.int32), jnp.zeros((), bool), blank)
    )
    index = jnp.where(accepted, tried, 0)
    return shrink ** (tried - 1).astype(zero.dtype), index, trial


def bracket(try_out: TryOut, accept: Accept, usable: Array, tries: int, radius: float) -> Found:
    """The longest accepted step up to 8 times the modelled one, by doubling and bisection.

    It stops once the divergence is within 5 % of the radius.
    """

    def body(state: tuple[Any, ...]) -> tuple[Any, ...]:
        j, low, high, index, best = state
        scale = jnp.where(jnp.isinf(high), jnp.maximum(2 * low, 1.0), 0.5 * (low + high))
        trial = try_out(scale)
        good = accept(trial)
        keep = lambda new, old: jnp.where(good, new, old)
        low, high = jnp.where(good, scale, low), jnp.where(good, high, scale)
        return j + 1, low, high, keep(j + 1, index), jax.tree.map(keep, trial, best)

    def searching(state: tuple[Any, ...]) -> Array:
        j, low, high, _, best = state
        done = (best.divergence >= 0.95 * radius) | (low >= 8.0) | (high - low < 1e-3)
        return usable & ~done & (j < tries)

    blank = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), jax.eval_shape(try_out, 1.0))
    number = lambda x: jnp.asarray(x, blank.kl.dtype)
    none = jnp.zeros((), jnp.int32)
    _, low, _, index, best = jax.lax.while_loop(
        searching, body, (none, number(0), number(jnp.inf), none, blank)
    )
    return low, index, best
