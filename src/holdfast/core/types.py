# SPDX-License-Identifier: Apache-2.0
"""The types of an update: `Batch` and `Learner` in, `Improvement` out.

Shapes: B samples, O observation size, K constraints. `Batch.weight` sums to one: 1/B for samples,
the occupancy d(s, a) when a finite CMDP is enumerated, so the same update runs without noise.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import isfinite
from typing import TYPE_CHECKING, Any, Literal

import jax
import jax.numpy as jnp
from jax import Array

if TYPE_CHECKING:
    from holdfast.core.critic import Critics
    from holdfast.core.policies import Policy

Metrics = dict[str, Array]
"""Documented name → scalar."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Batch:
    """The data of one update."""

    obs: Array
    """[B, O], normalised; for a policy with a memory [T, N, O], the steps in order (B = T·N)."""
    action: Array
    """[B, A] float for Gaussian policies, [B, D] integer for Categorical ones."""
    weight: Array
    """[B], sums to one."""
    adv_r: Array
    """[B] advantage of the reward, standardised or exact."""
    adv_c: Array
    """[B, K] advantages of the costs, centred or exact; never rescaled for barrier methods."""
    target: Array
    """[B, 1 + K] regression targets of the critics: reward first, then the costs."""
    episode: Array
    """[B] integer: samples of one episode share a number; for errors blocked by episode."""
    cost_return: Array
    """[K] estimate of J_c, the constrained quantity of the current policy."""
    cost_error: Array
    """[K] standard error of `cost_return`; 0 when exact."""
    cost_limit: Array
    """[K] b, the upper bound of `cost_return`."""
    horizon: Array
    """[] κ, converts a mean advantage to a change of `cost_return`: 1/(1 − γ), 1 if normalised."""
    length: Array
    """[] mean episode length, the other candidate for κ."""
    cost_lam: Array
    """[] λ of the costs' generalised advantages; 1 when they are exact."""
    progress: Array
    """[] share of training done before this update, in [0, 1); for schedules."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Learner:
    """All values that learning changes: policy, critics and the algorithm's state."""

    policy: Policy
    critics: Critics
    extra: Any
    """The algorithm's own state: a pytree of arrays, from its `init`."""

    def improved(self, step: Improvement) -> Learner:
        """The learner after a step; critics that the step did not train are unchanged."""
        return Learner(step.policy, step.critics or self.critics, step.extra)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Improvement:
    """The result of an algorithm's update."""

    policy: Policy
    extra: Any
    """Its own next state."""
    metrics: Metrics
    spent: Array | None = None
    """[K] the predicted change of each cost return, of a method that compares it with limits."""
    gradient_norm: Array | None = None
    """Norm of the gradient of the policy's objective, if there is one; critics may be clipped by it
    (D7).
    """
    critics: Critics | None = None
    """Only for a method with a `JointCritic`; other critics are fitted by the training loop."""

    def with_metrics(self, metrics: Metrics, **fields: Any) -> Improvement:
        """A copy with further metrics, and these fields changed."""
        return replace(self, metrics=metrics | self.metrics, **fields)


CostScale = Literal["discount", "episode", "none"]
"""κ: 1/(1 − γ), the mean episode length, or 1 (`cost_scale`, D11 and D18)."""


def in_units(batch: Batch, cost_scale: CostScale) -> Batch:
    """The batch with `horizon` set to the unit factor of that name."""
    if cost_scale == "discount":
        return batch
    return replace(
        batch,
        horizon=batch.length if cost_scale == "episode" else jnp.ones_like(batch.horizon),
    )


def check_range(settings: object, interval: str, hint: str, *names: str) -> None:
    """Settings of these names must lie in an interval such as "(0, 1]"; `hint` is the remedy.

    Infinity lies in "(0, inf]" only.
    """
    low, high = map(float, interval[1:-1].split(","))
    from_on = {"(0": "be positive", "[0": "not be negative", "[1": "be at least 1"}
    must = from_on[interval[:2]] if high == float("inf") else f"lie in {interval}"
    for name in names:
        value = getattr(settings, name)
        above = value >= low if interval[0] == "[" else value > low
        below = value <= high if interval[-1] == "]" else value < high
        if not (above and below):
            known = isfinite(value) or isfinite(high)
            raise ValueError(f"{name}={value} must {must if known else 'be finite'}; {hint}.")


def sampled_batch(
    obs: Array,
    action: Array,
    adv_r: Array,
    adv_c: Array,
    *,
    cost_return: Array,
    cost_limit: Array,
    weight: Array | None = None,
    **rest: Array,
) -> Batch:
    """A batch with defaults: equal weights, no targets, κ = 1."""
    size, constraints = adv_c.shape
    defaults = {
        "target": jnp.zeros((size, 1 + constraints), adv_r.dtype),
        "episode": jnp.arange(size),
        "cost_error": jnp.zeros_like(cost_return),
        "horizon": jnp.ones((), adv_r.dtype),
        "length": jnp.ones((), adv_r.dtype),
        "cost_lam": jnp.ones((), adv_r.dtype),
        "progress": jnp.zeros((), adv_r.dtype),
    }
    return Batch(
        obs=obs,
        action=action,
        weight=jnp.full(size, 1 / size, adv_r.dtype) if weight is None else weight,
        adv_r=adv_r,
        adv_c=adv_c,
        cost_return=cost_return,
        cost_limit=cost_limit,
        **(defaults | rest),
    )
