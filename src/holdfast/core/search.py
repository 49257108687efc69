# SPDX-License-Identifier: Apache-2.0
"""How far to go along a step: candidates are tried until one is accepted.

backtrack   1, shrink, shrink², ...: the first that is accepted
bracket     doubling, then bisection: the longest that is accepted
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from holdfast.core.move import Accept, Trial

TryOut = Callable[[Array], Trial]
"""A share of the step → what it would bring."""
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

    Stops once the divergence lies within 5 % of the radius, so the budget is really used.
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
