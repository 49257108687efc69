# SPDX-License-Identifier: Apache-2.0
"""First-order learning: minibatch passes of Adam on a loss, stopped by the distance travelled.

    repeat up to `passes` times:
        for each shuffled minibatch:  one Adam step on  loss(π) + critic losses
        stop once  E[KL(π_old ‖ π)] > kl_stop

An algorithm is its loss. The passes are one compiled loop, critics and early stop included; the
gradient of everything that is trained together is clipped as one vector.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import jax
import jax.numpy as jnp
import optax
from jax import Array
from jax.flatten_util import ravel_pytree

from holdfast.core.critic import CriticFit, Critics, orders
from holdfast.core.policies import Layers, Policy
from holdfast.core.types import Batch, Learner, Metrics, replace


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Rows:
    """A minibatch of m samples."""

    obs: Array
    action: Array
    weight: Array
    """[m], sums to one; 0 where a row only fills up the last minibatch."""
    adv_r: Array
    adv_c: Array
    """[m, K]"""
    target: Array
    log_prob: Array
    """[m] of the actions under the policy that took them."""


_ADAM = optax.scale_by_adam()
_NOTHING = optax.identity()

Loss = Callable[[Policy, Rows], Array]
"""What a policy is to minimise on a minibatch."""


def ratio(policy: Policy, rows: Rows) -> Array:
    """[m] π(a|s) / π_old(a|s)."""
    return jnp.exp(policy.log_prob(policy.outputs(rows.obs), rows.action) - rows.log_prob)


def clipped_gain(rho: Array, advantage: Array, rows: Rows, clip: float) -> Array:
    """E[min(ρ A, clip(ρ, 1 ± clip) A)], a pessimistic gain: nothing is won beyond the clip."""
    cut = jnp.clip(rho, 1 - clip, 1 + clip)
    return rows.weight @ jnp.minimum(rho * advantage, cut * advantage)


def clipped_cost(rho: Array, advantage: Array, rows: Rows, clip: float) -> Array:
    """[K] E[max(ρ A, clip(ρ, 1 ± clip) A)] of advantages [m, K]: pessimistic for a cost."""
    cut = jnp.clip(rho, 1 - clip, 1 + clip)
    return rows.weight @ jnp.maximum(rho[:, None] * advantage, cut[:, None] * advantage)


def spent(old: Policy, new: Policy, batch: Batch) -> Array:
    """[K] κ E[(ρ − 1) A_c], the predicted change of each cost return, on the whole batch."""
    log_prob = lambda policy: policy.log_prob(policy.outputs(batch.obs), batch.action)
    return batch.horizon * ((batch.weight * jnp.expm1(log_prob(new) - log_prob(old))) @ batch.adv_c)


def check_clip(clip: float) -> None:
    if not 0 < clip < 1:
        raise ValueError(f"clip={clip} must lie in (0, 1); 0.2 is the usual choice.")


@dataclass(frozen=True)
class JointCritic:
    """Critics that are trained in the policy's own minibatches."""

    critic_lr: float = 3e-4
    """Learning rate of the critics' Adam."""
    critic_l2: float = 1e-3
    """Weight of the sum of squares of all parameters of the critics."""
    critic_l2_biases: bool = True
    """Whether that sum includes the biases (D6)."""

    def fit(self) -> CriticFit:
        return CriticFit(
            critic_lr=self.critic_lr,
            critic_l2=self.critic_l2,
            critic_l2_biases=self.critic_l2_biases,
        )

    def init(self, key: Array, obs_size: int, constraints: int, hidden: Sequence[int]) -> Critics:
        """Fresh networks for the reward and `constraints` costs."""
        return self.fit().init(key, obs_size, constraints, hidden)

    def loss(self, layers: Layers, rows: Rows) -> Array:
        return self.fit().loss(layers, rows.obs, rows.target, rows.weight)


@dataclass(frozen=True)
class FirstOrder:
    """The passes: how many, on how much data, how fast and how far."""

    actor_lr: float = 3e-4
    """Learning rate of the policy's Adam at the start of training."""
    actor_decay: bool = True
    """Let that rate fall linearly to 0 over the run."""
    passes: int = 40
    """Most passes over the batch in one epoch."""
    minibatch: int = 64
    """Samples in a minibatch; the last one of a pass is smaller."""
    kl_stop: float = 0.02
    """Stop after the pass that takes the mean KL(old ‖ new) beyond this."""
    max_norm: float = 40.0
    """The gradient of all that is trained together is clipped to this norm."""

    def __post_init__(self) -> None:
        if self.passes < 1 or self.minibatch < 1:
            raise ValueError(
                f"passes={self.passes} and minibatch={self.minibatch} must be at least 1."
            )
        for name in ("actor_lr", "kl_stop", "max_norm"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name}={getattr(self, name)} must be positive.")

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
    ) -> tuple[Learner, optax.OptState, Metrics]:
        """Train policy and critics together; `extra` is left to the caller."""
        flat, unravel = ravel_pytree(learner.critics.layers)
        optimiser = critic.fit().optimiser()
        value_loss = lambda params, rows: critic.loss(unravel(params), rows)
        old = learner.policy
        actor, unravel_policy = ravel_pytree(old)
        start = _Fit(actor, moments, flat, learner.critics.moments)
        rows = _rows(batch, old.log_prob(old.outputs(batch.obs), batch.action))
        end, told = self._passes(old, start, rows, batch, key, loss, value_loss, optimiser)
        critics = Critics(unravel(end.critics), end.critic_moments)
        policy = unravel_policy(end.actor)
        return replace(learner, policy=policy, critics=critics), end.moments, told

    def actor(
        self,
        policy: Policy,
        moments: optax.OptState,
        batch: Batch,
        key: Array,
        loss: Loss,
        acted: Policy | None = None,
    ) -> tuple[Policy, optax.OptState, Metrics]:
        """Train the policy alone; `acted` took the actions if `policy` itself did not."""
        flat, unravel = ravel_pytree(policy)
        start = _Fit(flat, moments, jnp.zeros(0, flat.dtype), None)
        behaviour = acted or policy
        log_prob = behaviour.log_prob(behaviour.outputs(batch.obs), batch.action)
        end, told = self._passes(policy, start, _rows(batch, log_prob), batch, key, loss)
        del told["critic_loss"]
        return unravel(end.actor), end.moments, told

    def _passes(
        self,
        old: Policy,
        start: _Fit,
        samples: Rows,
        batch: Batch,
        key: Array,
        loss: Loss,
        value_loss: Callable[[Array, Rows], Array] = lambda _, rows: jnp.zeros_like(rows.weight[0]),
        optimiser: optax.GradientTransformation = _NOTHING,
    ) -> tuple[_Fit, Metrics]:
        unravel = ravel_pytree(old)[1]
        outputs = old.outputs(batch.obs)
        rate = self.actor_lr * (1 - batch.progress if self.actor_decay else 1.0)

        def step(fit: _Fit, rows: Rows) -> tuple[_Fit, Array]:
            def total(actor: Array, critics: Array) -> tuple[Array, Array]:
                parts = jnp.stack([loss(unravel(actor), rows), value_loss(critics, rows)])
                return parts.sum(), parts

            (grad, critic_grad), parts = jax.grad(total, (0, 1), has_aux=True)(
                fit.actor, fit.critics
            )
            norm = jnp.sqrt(grad @ grad + critic_grad @ critic_grad)
            scale = jnp.minimum(1.0, self.max_norm / (norm + 1e-6))
            updates = (
                _ADAM.update(grad * scale, fit.moments),
                optimiser.update(critic_grad * scale, fit.critic_moments),
            )
            (move, moments), (shift, critic_moments) = cast(Any, updates)
            actor = fit.actor - (rate * move).astype(fit.actor.dtype)
            return _Fit(actor, moments, fit.critics + shift, critic_moments), parts

        def one_pass(state: tuple[Array, _Fit, Array, Array]) -> tuple[Array, _Fit, Array, Array]:
            done, fit, _, _ = state
            rows = _shuffled(jax.random.fold_in(key, done), samples, self.minibatch)
            fit, parts = jax.lax.scan(step, fit, rows)
            new = unravel(fit.actor).outputs(batch.obs)
            return done + 1, fit, batch.weight @ old.kl(outputs, new), parts.mean(0)

        def going(state: tuple[Array, _Fit, Array, Array]) -> Array:
            # written so that a KL that is not a number ends the loop
            return (state[0] < self.passes) & ((state[0] == 0) | (state[2] <= self.kl_stop))

        zero = jnp.zeros((), batch.weight.dtype)
        done, end, kl, parts = jax.lax.while_loop(
            going, one_pass, (jnp.zeros((), jnp.int32), start, zero, jnp.zeros(2, zero.dtype))
        )
        told = {"kl": kl, "passes": done, "actor_loss": parts[0], "critic_loss": parts[1]}
        return end, told


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class _Fit:
    """What the passes change: parameters as flat vectors, with their moments."""

    actor: Array
    moments: optax.OptState
    critics: Array
    critic_moments: Any


def _rows(batch: Batch, log_prob: Array) -> Rows:
    return Rows(
        batch.obs,
        batch.action,
        batch.weight,
        batch.adv_r,
        batch.adv_c,
        batch.target,
        log_prob,
    )


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
