# SPDX-License-Identifier: Apache-2.0
"""Linearisation of a policy: gradients of surrogates, Fisher products and linear solvers.

Gradients and products come from one linearisation of the network on the batch; the matrix is never
formed. Linear systems are solved with products only:

    conjugate_gradients   A x = v, or (A + M) x = v if M is easily inverted
    woodbury              (shift + Σ_i w_i a_i a_iᵀ) x = v in closed form, for any w and any a
    dense                 pseudo-inverse of the matrix formed column by column, for tiny problems

Pessimistic gradients (SHAPO, arXiv:2606.10228) are taken at a worse point nearby:

    f(θ) = E[π_θ / π_old · A],  v = ∇f(θ)       ε = ± √(2d / vᵀF⁻¹v) F⁻¹v       ∇f(θ + ε)

ε is the step of divergence d that changes f most: downward for the reward, upward for a cost.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import jax
import jax.numpy as jnp
from jax import Array
from jax.flatten_util import ravel_pytree

from holdfast.core.policies import Policy
from holdfast.core.types import Batch

Product = Callable[[Array], Array]
"""v [P] → A v [P] for a symmetric positive semi-definite A."""


@dataclass(frozen=True)
class Linearised:
    """A policy linearised at its parameters: outputs, gradients and Fisher products on a batch."""

    batch: Batch
    theta: Array
    """[P] all parameters as one vector."""
    moved: Callable[[Array], Policy]
    """step [P] → the policy at theta + step."""
    outputs: Any
    log_prob: Array
    """[B] log-probability of the batch's actions under the policy itself."""
    fisher: Product
    """v → F v, F = E[score scoreᵀ], divided by d_a if the KL is averaged."""
    gradients: Callable[[Array], Array]
    """[B, m] advantages → [m, P] gradients of E[ratio · advantage]."""

    def power(self) -> Array:
        """[K] κ² E[A_c²]: the unit for squares of the costs' gradients."""
        return self.batch.horizon**2 * (self.batch.weight @ self.batch.adv_c**2)


def linearise(policy: Policy, batch: Batch, kl_average: bool) -> Linearised:
    """All parts of the quadratic model, from one linearisation of the network."""
    theta, unravel = ravel_pytree(policy)
    outputs, push = jax.linearize(lambda t: unravel(t).outputs(batch.obs), theta)
    pull = jax.linear_transpose(push, theta)
    log_prob, pull_log = jax.vjp(lambda out: policy.log_prob(out, batch.action), outputs)
    scale = 1 / policy.action_dims if kl_average else 1.0

    def fisher(v: Array) -> Array:
        return scale * pull(policy.fisher(outputs, push(v), batch.weight))[0]

    def gradients(advantages: Array) -> Array:
        one = lambda adv: pull(pull_log(batch.weight * adv)[0])[0]
        return jax.vmap(one, in_axes=1)(advantages)

    return Linearised(
        batch, theta, lambda step: unravel(theta + step), outputs, log_prob, fisher, gradients
    )


Worse = Literal["lower", "higher"]
"""The direction in which f is worse."""


def pessimistic(
    local: Linearised,
    advantages: Array,
    gradients: Array,
    solved: Array,
    distance: float,
    worse: Worse,
) -> Array:
    """[m, P] gradients at θ + ε of advantages [B, m], from the plain ones v and F⁻¹v, both [m, P].

    The ratios at θ + ε weight the samples. If ε rounds to 0 they are 1, and the gradients equal the
    plain ones to the last digit.
    """
    size = jnp.sum(gradients * solved, 1)
    some = size > 0
    length = jnp.where(some, jnp.sqrt(2 * distance / jnp.where(some, size, 1.0)), 0.0)
    steps = length[:, None] * solved * (1.0 if worse == "higher" else -1.0)

    def one(step: Array, advantage: Array) -> Array:
        there = linearise(local.moved(step), local.batch, kl_average=False)
        ratio = jnp.exp(there.log_prob - local.log_prob)
        return there.gradients((ratio * advantage)[:, None])[0]

    return jax.vmap(one, in_axes=(0, 1))(steps, advantages)


def conjugate_gradients(
    product: Product, v: Array, steps: int, eps: float = 0.0, inverse: Product | None = None
) -> Array:
    """x with A x ≈ v after at most `steps` products, or once the residual is below 1e-10 of v.

    With `inverse`, which applies M⁻¹, x solves (A + M) x = v, preconditioned by M. M itself is
    never applied, as M p follows from the residuals, so its entries may have any size. `eps` is
    added to both denominators; the published runs used 1e-6, which slows the last steps.
    """
    easy: Product = inverse or (lambda r: r)

    def body(state: tuple[Array, ...]) -> tuple[Array, ...]:
        i, x, r, p, mp, rr = state
        z = product(p) + (mp if inverse else 0.0)
        a = _ratio(rr, p @ z + eps)
        x, r = x + a * p, r - a * z
        near = easy(r)
        new = r @ near
        b = _ratio(new, rr + eps)
        return i + 1, x, r, near + b * p, r + b * mp, new

    def unfinished(state: tuple[Array, ...]) -> Array:
        return (state[0] < steps) & (jnp.linalg.norm(state[2]) > enough)

    first, enough = easy(v), 1e-10 * jnp.linalg.norm(v)
    start = (jnp.zeros((), jnp.int32), jnp.zeros_like(v), v, first, v, v @ first)
    return jax.lax.while_loop(unfinished, body, start)[1]


def _ratio(a: Array, b: Array) -> Array:
    return jnp.where(b > 0, a / jnp.where(b > 0, b, 1.0), 0.0)


def woodbury(rows: Array, weight: Array, shift: float) -> Product:
    """v → (shift + Σ_i w_i a_i a_iᵀ)⁻¹ v for rows a_i [K, P] and w_i ≥ 0.

    The rows √w_i a_i span directions v_j with singular values σ_j; there the matrix is shift +
    σ_j², elsewhere shift. No singular matrix is inverted: rows may depend on each other, be zero,
    or exceed `shift` by more than the precision. Directions due to rounding alone are dropped.
    """
    _, sigma, span = jnp.linalg.svd(jnp.sqrt(weight)[:, None] * rows, full_matrices=False)
    sigma = jnp.where(sigma > 10 * jnp.finfo(sigma.dtype).eps * sigma[0], sigma, 0.0)
    held = sigma**2 / (shift + sigma**2)
    return lambda v: (v - (held * (span @ v)) @ span) / shift


def dense(product: Product, v: Array, rcond: float) -> Array:
    """Least-norm x with A x = v; directions below `rcond` of the largest eigenvalue are dropped."""
    matrix = jax.vmap(product)(jnp.eye(v.shape[0], dtype=v.dtype))
    return jnp.linalg.pinv(0.5 * (matrix + matrix.T), rtol=rcond, hermitian=True) @ v


def mean_diagonal(product: Product, size: int, dtype: jnp.dtype) -> Array:
    """trace(A) / P by 8 fixed Rademacher probes: E[zᵀ A z] = trace(A)."""
    z = jax.random.rademacher(jax.random.key(0), (8, size), dtype)
    return jax.lax.map(lambda v: v @ product(v), z).mean() / size
