# SPDX-License-Identifier: Apache-2.0
"""One update of policy and critics.

    update = make_update(algorithm)
    learner, metrics, spent = update(learner, batch, key, advantages)

By default the critics come first (`critic_first`): they are fitted to the epoch, the epoch's
advantages are computed again with the fitted critics, and then the policy takes its step. Without
`critic_first`, or if an epoch has fewer samples than a critic has parameters, fit and step run in
parallel. The fit is a chain of small products that uses one core; the step uses all of them. Both
are pure functions, so the order in which they end cannot change a bit. Only a fit with the norm of
the policy's gradient (`critic_stale_norm`) waits for the step.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from holdfast.algorithms import Algorithm, InMinibatches
from holdfast.core.critic import CriticFit, Critics, Minibatches, together
from holdfast.core.types import Batch, Improvement, Learner, Metrics
from holdfast.process import shared

Fit = Callable[[Critics, Batch, Minibatches, Array | None], tuple[Critics, Metrics]]

Advantages = Callable[[Critics], dict[str, Array]]
"""Advantages and targets of an epoch by these critics (`core.estimate`)."""


@dataclass(frozen=True)
class Update:
    """The compiled parts of an update; a call runs the whole update."""

    improve: Callable[[Learner, Batch, Array], Improvement]
    """The step of the policy, with the update's key."""
    fit: Fit | None = None
    """None: critics learn in the policy's own minibatches, so `improve` returns them too."""
    minibatches: Callable[[Array, Batch], Minibatches] | None = None
    """The update's key and a batch → the minibatches of the fit."""
    fit_waits: bool = False
    """The fit uses the norm of the policy's gradient (D7), so it comes second."""
    fit_first: Callable[[Critics, int], bool] = lambda *_: False
    """Whether critics are fitted before the policy's step, with so many samples."""

    def __call__(
        self, learner: Learner, batch: Batch, key: Array, advantages: Advantages | None = None
    ) -> tuple[Learner, Metrics, Array | None]:
        """The learner after the update, its metrics, and [K] its predicted cost changes, if any.

        `advantages` computes them again after a fit that comes first. Without it the batch's
        advantages are used, as for exact ones, which need no critics.
        """
        improve, fit, minibatches = self.improve, self.fit, self.minibatches
        if fit is None or minibatches is None:
            step = improve(learner, batch, key)
            return learner.improved(step), step.metrics, step.spent
        picked = minibatches(key, batch)
        if self.fit_first(learner.critics, len(batch.weight)):
            critics, fitted = fit(learner.critics, batch, picked, None)
            if advantages:
                seen = advantages(critics)
                batch = replace(batch, adv_r=seen["adv_r"], adv_c=seen["adv_c"])
            step = improve(learner, batch, key)
        elif self.fit_waits:
            step = improve(learner, batch, key)
            critics, fitted = fit(learner.critics, batch, picked, step.gradient_norm)
        else:
            with ThreadPoolExecutor(1) as beside:
                fitting = beside.submit(fit, learner.critics, batch, picked, None)
                step = improve(learner, batch, key)
                critics, fitted = fitting.result()
        return Learner(step.policy, critics, step.extra), step.metrics | fitted, step.spent


@shared
def make_update(algorithm: Algorithm, on_device: bool = False) -> Update:
    """The update of an algorithm: its step of the policy and the fit of the critics.

    Minibatches are drawn in NumPy, which sorts faster on a CPU, or `on_device`: the same ones.
    """
    critic = algorithm.critic
    if not isinstance(critic, CriticFit):
        return Update(jax.jit(algorithm.improve))
    both_draw = isinstance(algorithm, InMinibatches)

    def improve(learner: Learner, batch: Batch, key: Array) -> Improvement:
        return algorithm.improve(learner, batch, jax.random.split(key)[0] if both_draw else key)

    shuffled = critic.minibatches
    if on_device:
        shuffled = jax.jit(partial(critic.minibatches, xp=jnp), static_argnums=1)

    def minibatches(key: Array, batch: Batch) -> Minibatches:
        own = jax.random.split(key)[1] if both_draw else key
        return shuffled(own, len(batch.weight))

    return Update(
        jax.jit(improve),
        SideBySide(jax.jit(critic.fit_one), jax.jit(_joined))
        if critic.critic_apart
        else jax.jit(critic.fit),
        minibatches,
        fit_waits=critic.critic_stale_norm and not both_draw,
        fit_first=critic.comes_first,
    )


@dataclass(frozen=True)
class SideBySide:
    """Fit each critic by a call of one compiled function, so the bits do not depend on the
    cores.
    """

    fit_one: Callable[..., tuple[Critics, Metrics]]
    join: Callable[[list[tuple[Critics, Metrics]]], tuple[Critics, Metrics]]

    def __call__(
        self, critics: Critics, batch: Batch, picked: Minibatches, _: Array | None
    ) -> tuple[Critics, Metrics]:
        one = lambda which: self.fit_one(critics, batch, picked, np.int32(which))
        count = batch.target.shape[1]
        with ThreadPoolExecutor(count) as pool:
            first = pool.submit(one, 0).result()  # compiled, and under way: JAX does not wait
            return self.join([first, *pool.map(one, range(1, count))])


def _joined(fits: list[tuple[Critics, Metrics]]) -> tuple[Critics, Metrics]:
    """All critics, and the sum of their losses."""
    losses = jnp.stack([metrics["critic_loss"] for _, metrics in fits])
    return together([critics for critics, _ in fits]), {"critic_loss": losses.sum()}
