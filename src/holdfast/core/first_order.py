# SPDX-License-Identifier: Apache-2.0
"""First-order learning: minibatch passes of Adam on a loss, stopped by the KL from the old policy.

    repeat up to `passes` times:
        for each shuffled minibatch:  one Adam step on  loss(π) + critic losses
        stop once  E[KL(π_old ‖ π)] > kl_stop

An algorithm is defined by its loss. The passes are one compiled loop, including critics and early
stop. The joint gradient of all trained parts is clipped as one vector.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, cast

import jax
import jax.numpy as jnp
import optax
from jax import Array
from jax.flatten_util import ravel_pytree

from holdfast.core.critic import orders, regression_loss
from holdfast.core.networks import DENSE, Network
from holdfast.core.policies import Layers, Policy
from holdfast.core.types import Batch, Improvement, Learner, Metrics, check_range


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Rows:
    """A minibatch of m samples."""

    obs: Array
    action: Array
    weight: Array
    """[m], sums to one; 0 for rows that only fill up the last minibatch."""
    adv_r: Array
    adv_c: Array
    """[m, K]"""
    target: Array
    log_prob: Array
    """[m] log-probability of the actions under the policy that took them."""


_ADAM = optax.scale_by_adam()

Loss = Callable[[Policy, Rows], Array]
"""The policy's loss on a minibatch."""


def ratio(policy: Policy, rows: Rows) -> Array:
    """[m] π(a|s) / π_old(a|s)."""
    return jnp.exp(policy.log_prob(policy.outputs(rows.obs), rows.action) - rows.log_prob)


def clipped_gain(rho: Array, advantage: Array, rows: Rows, clip: float) -> Array:
    """E[min(ρ A, clip(ρ, 1 ± clip) A)], a pessimistic gain that does not rise beyond the clip."""
    cut = jnp.clip(rho, 1 - clip, 1 + clip)
    return rows.weight @ jnp.minimum(rho * advantage, cut * advantage)


def clipped_cost(
    rho: Array, advantage: Array, rows: Rows, clip: float, centre: bool = False
) -> Array:
    """[K] E[max(ρ A, clip(ρ, 1 ± clip) A)] of advantages [m, K]: pessimistic for a cost.

    `centre` subtracts E[A], whose noise in a minibatch would count as cost.
    """
    cut = jnp.clip(rho, 1 - clip, 1 + clip)
    cost = rows.weight @ jnp.maximum(rho[:, None] * advantage, cut[:, None] * advantage)
    return cost - rows.weight @ advantage if centre else cost


def clipped_loss(clip: float) -> Loss:
    """PPO's loss on `adv_r`."""
    return lambda policy, rows: -clipped_gain(ratio(policy, rows), rows.adv_r, rows, clip)


def spent(old: Policy, new: Policy, batch: Batch) -> Array:
    """[K] κ E[(ρ − 1) A_c], the predicted change of each cost return, on the whole batch."""
    log_prob = lambda policy: policy.log_prob(policy.outputs(batch.obs), batch.action)
    return batch.horizon * ((batch.weight * jnp.expm1(log_prob(new) - log_prob(old))) @ batch.adv_c)


@dataclass(frozen=True)
class JointCritic:
    """Critics that are trained in the policy's own minibatches."""

    critic_lr: float = 3e-4
    """Learning rate of the critics' Adam."""
    critic_l2: float = 1e-3
    """Weight of the L2 term, the sum of squares of the critics' parameters."""
    critic_l2_biases: bool = True
    """Whether the L2 term of the critics includes biases."""

    def __post_init__(self) -> None:
        check_range(self, "(0, inf)", "try 0.0003", "critic_lr")
        check_range(self, "[0, inf)", "0 switches it off", "critic_l2")

    def loss(self, layers: Layers, rows: Rows, network: Network = DENSE) -> Array:
        l2, biases = self.critic_l2, self.critic_l2_biases
        return regression_loss(layers, rows.obs, rows.target, rows.weight, l2, biases, network)


@dataclass(frozen=True)
class FirstOrder:
    """Minibatch passes: their number, size, learning rate and KL stop."""

    actor_lr: float = 3e-4
    """Learning rate of the policy's Adam at the start of training."""
    actor_decay: bool = True
    """Let the policy's learning rate fall linearly to 0 over the run."""
    passes: int = 40
    """Largest number of passes over the batch in one epoch."""
    minibatch: int = 64
    """Samples in a minibatch; the last one of a pass is smaller."""
    kl_stop: float = 0.02
    """Stop after the pass in which the mean KL(old ‖ new) exceeds this."""
    max_norm: float = 40.0
    """Largest norm of the joint gradient of policy and critics."""

    def __post_init__(self) -> None:
        check_range(self, "[1, inf)", "40 and 64 are usual", "passes", "minibatch")
        check_range(self, "(0, inf)", "try 0.0003", "actor_lr")
        check_range(self, "(0, inf]", "inf switches it off", "kl_stop", "max_norm")

    def init(self, policy: Policy) -> optax.OptState:
        """Fresh moments of the policy's Adam, over all its parameters as one vector."""
        return _ADAM.init(ravel_pytree(policy)[0])

    def joint(
        self,
        learner: Learner,
        moments: optax.OptState,
        batch: Batch,
        key: Array,
        loss: Loss,
        critic: JointCritic,
    ) -> Improvement:
        """Train policy and critics together; `extra` of the result contains the policy's
        moments.
        """
        flat, unravel = ravel_pytree(learner.critics.layers)
        critics = _Part(
            lambda params, rows: critic.loss(unravel(params), rows, learner.critics.network),
            cast(_Step, optax.adam(critic.critic_lr).update),
        )
        old = learner.policy
        start = _Fit(ravel_pytree(old)[0], moments), _Fit(flat, learner.critics.moments)
        parts = self._policy_part(old, batch, loss), critics
        (actor, fitted), losses, metrics = self._passes(old, old, start, parts, batch, key)
        return Improvement(
            policy=ravel_pytree(old)[1](actor.params),
            extra=actor.moments,
            metrics=metrics | {"actor_loss": losses[0], "critic_loss": losses[1]},
            critics=replace(learner.critics, layers=unravel(fitted.params), moments=fitted.moments),
        )

    def actor(
        self,
        policy: Policy,
        moments: optax.OptState,
        batch: Batch,
        key: Array,
        loss: Loss,
        acted: Policy | None = None,
    ) -> Improvement:
        """Train the policy alone; `acted` took the actions if `policy` itself did not."""
        flat, unravel = ravel_pytree(policy)
        parts = (self._policy_part(policy, batch, loss),)
        (end,), losses, metrics = self._passes(
            policy, acted or policy, (_Fit(flat, moments),), parts, batch, key
        )
        return Improvement(unravel(end.params), end.moments, metrics | {"actor_loss": losses[0]})

    def _policy_part(self, old: Policy, batch: Batch, loss: Loss) -> _Part:
        unravel = ravel_pytree(old)[1]
        rate = self.actor_lr * (1 - batch.progress if self.actor_decay else 1.0)

        def step(gradient: Array, moments: Any) -> tuple[Array, Any]:
            move, moments = cast(Any, _ADAM.update(gradient, moments))
            return -(rate * move).astype(gradient.dtype), moments

        return _Part(lambda params, rows: loss(unravel(params), rows), step)

    def _passes(
        self,
        old: Policy,
        acted: Policy,
        start: tuple[_Fit, ...],
        parts: tuple[_Part, ...],
        batch: Batch,
        key: Array,
    ) -> tuple[tuple[_Fit, ...], Array, Metrics]:
        """Train all parts, the policy first: (their final values, their last losses, metrics)."""
        unravel = ravel_pytree(old)[1]
        outputs = old.outputs(batch.obs)
        log_prob = acted.log_prob(acted.outputs(batch.obs), batch.action)
        samples = Rows(
            batch.obs, batch.action, batch.weight, batch.adv_r, batch.adv_c, batch.target, log_prob
        )

        def step(fits: tuple[_Fit, ...], rows: Rows) -> tuple[tuple[_Fit, ...], Array]:
            def total(params: list[Array]) -> tuple[Array, Array]:
                losses = [part.loss(x, rows) for part, x in zip(parts, params, strict=True)]
                return jnp.stack(losses).sum(), jnp.stack(losses)

            gradients, losses = jax.grad(total, has_aux=True)([fit.params for fit in fits])
            norm = jnp.sqrt(sum((g @ g for g in gradients[1:]), gradients[0] @ gradients[0]))
            scale = jnp.minimum(1.0, self.max_norm / (norm + 1e-6))
            ends: list[_Fit] = []
            for part, fit, gradient in zip(parts, fits, gradients, strict=True):
                change, moments = part.step(gradient * scale, fit.moments)
                ends.append(_Fit(fit.params + change, moments))
            return tuple(ends), losses

        def one_pass(state: _Pass) -> _Pass:
            done, fits, _, _ = state
            rows = _shuffled(jax.random.fold_in(key, done), samples, self.minibatch)
            fits, losses = jax.lax.scan(step, fits, rows)
            new = unravel(fits[0].params).outputs(batch.obs)
            return done + 1, fits, batch.weight @ old.kl(outputs, new), losses.mean(0)

        def continues(state: _Pass) -> Array:
            # written so that a KL that is not a number ends the loop
            return (state[0] < self.passes) & ((state[0] == 0) | (state[2] <= self.kl_stop))

        zero = jnp.zeros((), batch.weight.dtype)
        first = jnp.zeros((), jnp.int32), start, zero, jnp.zeros(len(parts), zero.dtype)
        done, end, kl, losses = jax.lax.while_loop(continues, one_pass, first)
        return end, losses, {"kl": kl, "passes": done}


_Step = Callable[[Array, Any], tuple[Array, Any]]


@dataclass(frozen=True)
class _Part:
    """One of the jointly trained parts; its parameters are a flat vector."""

    loss: Callable[[Array, Rows], Array]
    step: _Step
    """(gradient, moments) → (change of the parameters, moments)."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class _Fit:
    """The state of a part that the passes change."""

    params: Array
    moments: Any


_Pass = tuple[Array, tuple[_Fit, ...], Array, Array]
"""(passes done, all parts, KL, mean losses)."""


def _shuffled(key: Array, samples: Rows, minibatch: int) -> Rows:
    """All samples in random order, as [M, minibatch, ...]; weights sum to one in each."""
    size = samples.weight.shape[0]
    count = -(-size // minibatch)
    order = orders(key, 1, size)[0]
    index = jnp.pad(order, (0, count * minibatch - size)).reshape(count, minibatch)
    rows = jax.tree.map(lambda x: x[index], samples)
    real = (jnp.arange(count * minibatch) < size).reshape(count, minibatch)
    weight = jnp.where(real, rows.weight, 0.0)
    return replace(rows, weight=weight / weight.sum(1, keepdims=True))
