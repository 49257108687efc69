# SPDX-License-Identifier: Apache-2.0
"""Critics: one value network for the reward and one for each cost, fitted by minibatch regression.

The 1 + K networks share their shape, so they are one pytree with a leading axis and all passes over
the batch are one compiled scan.

    loss = Σ_i weight_i · (mean (v_i(s) − target_i)² + l2 · |parameters_i|²)

All weights are 1 except perhaps the reward's. The networks share no parameter; only the clip of
their joint gradient couples them. If each is clipped separately (`critic_apart`), each is a
separate fit, `fit_one`, and the fits run in parallel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array
from jax.flatten_util import ravel_pytree
from numpy.typing import NDArray

from holdfast.core.networks import DENSE, Network
from holdfast.core.policies import Layers, forward, init_layers
from holdfast.core.types import Batch, Metrics, check_range

Minibatches = tuple[NDArray[np.int32], NDArray[np.bool_]]
"""Row numbers [passes · M, minibatch] and which of them are real."""
Loss = Callable[[Array, Array, Array, Array], Array]
"""(parameters as one vector, observations, targets, weights) → the loss."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Critics:
    """Parameters of the 1 + K value networks and the moments of their optimiser."""

    layers: Layers
    """Each array with a leading axis of size 1 + K: reward first."""
    moments: optax.OptState
    """Adam's moments, over all parameters as one vector."""
    network: Network = field(default=DENSE, metadata={"static": True})


def init_critics(
    key: Array,
    obs_size: int,
    constraints: int,
    hidden: Sequence[int],
    network: Network = DENSE,
) -> Critics:
    """Fresh networks for the reward and `constraints` costs."""
    keys = jax.random.split(key, 1 + constraints)
    shapes = network.shapes(obs_size, hidden, 1)
    layers = jax.vmap(lambda k: init_layers(k, shapes))(keys)
    moments = optax.adam(0.0).init(ravel_pytree(layers)[0])  # zeros at any rate
    return Critics(layers, moments, network)


def values(layers: Layers, obs: Array, network: Network = DENSE) -> Array:
    """[B, 1 + K] the critics' values: reward first, then the costs."""
    each = lambda own: forward(network, own, obs)
    return jax.vmap(each, out_axes=1)(layers)[..., 0]


def regression_loss(
    layers: Layers,
    obs: Array,
    target: Array,
    weight: Array,
    l2: float,
    l2_biases: bool,
    network: Network = DENSE,
) -> Array:
    """Σ over critics of the weighted mean squared error plus the L2 term."""
    error = values(layers, obs, network) - target
    fit = jnp.sum(weight[:, None] * error**2) / jnp.sum(weight)
    penalised = jax.tree.leaves(layers) if l2_biases else [w for w, _ in layers]
    return fit + l2 * sum(jnp.sum(p * p) for p in penalised)


@dataclass(frozen=True)
class CriticFit:
    """Critics that are fitted separately from the policy, once in an epoch."""

    critic_lr: float = 1e-3
    """Learning rate of Adam."""
    critic_passes: int = 10
    """Passes over the batch in each epoch."""
    critic_decay: bool = False
    """Let the learning rate fall linearly to 0 within each fit."""
    critic_minibatch: int = 128
    """Samples in a minibatch; the last one of a pass is smaller."""
    critic_l2: float = 1e-3
    """Weight of the L2 term, the sum of squares of the critics' parameters."""
    critic_l2_biases: bool = True
    """Whether the L2 term of the critics includes biases."""
    critic_max_norm: float = 40.0
    """Largest norm of the critics' gradient: of all critics jointly, or of each
    (`critic_apart`)."""
    critic_apart: bool = False
    """Clip each critic's gradient separately, and fit each critic in its own thread."""
    critic_stale_norm: bool = False
    """Include the policy's last gradient in the norm that clips the critics, as in the published
    code."""
    critic_reward_weight: float = 1.0
    """Weight of the reward critic's loss; each cost critic has weight 1."""
    critic_first: bool = False
    """Fit the critics to an epoch before its advantages are computed, instead of after its update.

    Applies only if the epoch has at least as many samples as a critic has parameters; otherwise
    the critic could overfit the epoch."""

    def __post_init__(self) -> None:
        check_range(self, "(0, inf)", "try 0.001", "critic_lr")
        check_range(self, "[1, inf)", "10 and 128 are usual", "critic_passes", "critic_minibatch")
        check_range(self, "[0, inf)", "0 switches it off", "critic_l2")
        check_range(self, "(0, inf]", "inf switches it off", "critic_max_norm")
        check_range(self, "(0, inf)", "1 is usual", "critic_reward_weight")
        if self.critic_first and self.critic_stale_norm:
            raise ValueError(
                "critic_stale_norm=True cannot be used with critic_first=True: the norm is that of "
                "a policy step that comes after the fit; switch one of them off."
            )
        if self.critic_apart and self.critic_stale_norm:
            raise ValueError(
                "critic_stale_norm=True cannot be used with critic_apart=True: the norm belongs to "
                "the joint gradient of all critics; switch one of them off."
            )

    def loss(
        self, layers: Layers, obs: Array, target: Array, weight: Array, network: Network = DENSE
    ) -> Array:
        """The regression loss, with the reward critic's weight."""
        l2, biases = self.critic_l2, self.critic_l2_biases
        total = regression_loss(layers, obs, target, weight, l2, biases, network)
        if self.critic_reward_weight == 1:
            return total
        first = jax.tree.map(lambda p: p[:1], layers)
        reward = regression_loss(first, obs, target[:, :1], weight, l2, biases, network)
        return total + (self.critic_reward_weight - 1) * reward

    def comes_first(self, critics: Critics, samples: int) -> bool:
        """Whether an epoch of so many samples is fitted before its advantages are computed."""
        arrays = jax.tree.leaves(critics.layers)
        return self.critic_first and samples >= sum(p[0].size for p in arrays)

    def minibatches(self, key: Array, size: int, xp: Any = np) -> Minibatches:
        """All passes of a fit to `size` samples, shuffled: the same numbers in NumPy and in JAX.

        The last minibatch of a pass is filled up with rows of weight 0.
        """
        minibatch, passes = self.critic_minibatch, self.critic_passes
        per_pass = -(-size // minibatch)
        padding = per_pass * minibatch - size
        order = orders(key, passes, size, xp)
        index = xp.pad(order, ((0, 0), (0, padding))).reshape(-1, minibatch)
        used = xp.tile(xp.arange(per_pass * minibatch) < size, passes).reshape(-1, minibatch)
        return index, used

    def fit(
        self,
        critics: Critics,
        batch: Batch,
        picked: Minibatches,
        gradient_norm: Array | None = None,
    ) -> tuple[Critics, Metrics]:
        """Fit all critics to `batch.target`; `gradient_norm` is used only with
        `critic_stale_norm`.
        """
        flat, unravel = ravel_pytree(critics.layers)
        counts = self.critic_stale_norm and gradient_norm is not None
        start = jnp.asarray(gradient_norm if counts else 0.0, flat.dtype)
        loss_of: Loss = lambda params, obs, target, weight: self.loss(
            unravel(params), obs, target, weight, critics.network
        )
        flat, moments, loss = self._descend(
            loss_of, flat, critics.moments, batch, batch.target, picked, start
        )
        fitted = replace(critics, layers=unravel(flat), moments=moments)
        return fitted, {"critic_loss": loss}

    def fit_one(
        self, critics: Critics, batch: Batch, picked: Minibatches, which: Array
    ) -> tuple[Critics, Metrics]:
        """Fit one critic separately: index 0 is the reward's, then come the costs'.

        The result contains only that critic; `together` joins several.
        """
        one = _only(critics, which)
        flat, unravel = ravel_pytree(one.layers)
        target = jax.lax.dynamic_slice_in_dim(batch.target, which, 1, axis=1)
        l2, biases, reward = self.critic_l2, self.critic_l2_biases, self.critic_reward_weight

        def loss_of(params: Array, obs: Array, target: Array, weight: Array) -> Array:
            loss = regression_loss(
                unravel(params), obs, target, weight, l2, biases, critics.network
            )
            return loss if reward == 1 else jnp.where(which == 0, reward, 1.0) * loss

        none = jnp.zeros((), flat.dtype)
        flat, moments, loss = self._descend(loss_of, flat, one.moments, batch, target, picked, none)
        return replace(one, layers=unravel(flat), moments=moments), {"critic_loss": loss}

    def _descend(
        self,
        loss_of: Loss,
        flat: Array,
        moments: optax.OptState,
        batch: Batch,
        target: Array,
        picked: Minibatches,
        stale_norm: Array,
    ) -> tuple[Array, optax.OptState, Array]:
        """(parameters, moments, mean loss) after Adam's steps on all minibatches."""
        optimiser = optax.adam(self.critic_lr)
        count = len(picked[0])
        rates = 1 - jnp.arange(count, dtype=flat.dtype) / count  # of critic_lr
        rows = batch.obs.reshape(-1, batch.obs.shape[-1])  # [T, N, O] where a policy remembers

        def step(
            carry: tuple[Array, optax.OptState, Array], picked: tuple[Array, Array, Array]
        ) -> tuple[tuple[Array, optax.OptState, Array], Array]:
            params, moments, stale_norm = carry
            pick, valid, rate = picked
            weight = jnp.where(valid, batch.weight[pick], 0.0)
            loss, grad = jax.value_and_grad(loss_of)(params, rows[pick], target[pick], weight)
            norm = jnp.sqrt(jnp.sum(grad * grad) + stale_norm**2)
            scale = jnp.minimum(1.0, self.critic_max_norm / (norm + 1e-6))
            update, moments = optimiser.update(grad * scale, moments)
            if self.critic_decay:
                update = jax.tree.map(lambda u: rate * u, update)
            params = optax.apply_updates(params, update)
            return (jnp.asarray(params), moments, stale_norm * scale), loss

        all_picked = jnp.asarray(picked[0]), jnp.asarray(picked[1]), rates
        (flat, moments, _), losses = jax.lax.scan(step, (flat, moments, stale_norm), all_picked)
        return flat, moments, losses.mean()


def _only(critics: Critics, which: Array) -> Critics:
    """One of the critics and its moments."""
    unravel = ravel_pytree(critics.layers)[1]
    pick: Callable[[Array], Array] = lambda x: jax.lax.dynamic_slice_in_dim(x, which, 1)
    cut: Callable[[Array], Array] = lambda x: (
        ravel_pytree(jax.tree.map(pick, unravel(x)))[0] if x.ndim else x
    )
    layers, moments = jax.tree.map(pick, critics.layers), jax.tree.map(cut, critics.moments)
    return replace(critics, layers=layers, moments=moments)


def together(each: Sequence[Critics]) -> Critics:
    """Join several values with critics into one, in their order."""
    unravel = ravel_pytree(each[0].layers)[1]
    join: Callable[..., Any] = lambda *trees: jax.tree.map(lambda *x: jnp.concatenate(x), *trees)
    glue: Callable[..., Array] = lambda *x: (
        ravel_pytree(join(*map(unravel, x)))[0] if x[0].ndim else x[0]
    )
    layers = join(*(one.layers for one in each))
    moments = jax.tree.map(glue, *(one.moments for one in each))
    return replace(each[0], layers=layers, moments=moments)


def orders(key: Array, passes: int, size: int, xp: Any = jnp) -> Any:
    """[passes, size] independent random orders of the numbers below `size`.

    One integer contains a number and random bits above it. On a CPU these sort ten times faster
    than the pairs of `jax.random.permutation`, and ten times faster again in NumPy, outside of
    compiled functions. As there, rounds repeat until ties of random bits have no effect.
    """
    low = max(1, (size - 1).bit_length())
    place = xp.broadcast_to(xp.arange(size, dtype=xp.uint32), (passes, size))
    order = place
    for round_key in jax.random.split(key, -(-3 * low // (32 - low))):
        noise = xp.asarray(jax.random.bits(round_key, (passes, size), jnp.uint32)) << low
        packed = xp.sort(noise | place, axis=1)
        order = xp.take_along_axis(order, packed & ((1 << low) - 1), axis=1)
    return order.astype(xp.int32)
