# SPDX-License-Identifier: Apache-2.0
"""Any algorithm's own `improve` on a finite CMDP, without sampling noise.

A finite CMDP is one weighted batch: a row for each (s, a), weighted by the occupancy d(s,a), with
exact advantages; observations are one-hot states. A linear Categorical policy on these is the
tabular softmax policy; its weight matrix contains the logits θ[s,a]. Convention N makes the unit
factor κ (`horizon`) equal to 1, and everything is computed in float64. So only the algorithm itself
is compared with the linear programme and the exact updates of `holdfast.tabular`.
"""

from dataclasses import replace
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from holdfast.algorithms import Algorithm, InTrustRegion
from holdfast.core.critic import init_critics
from holdfast.core.policies import Categorical
from holdfast.core.types import Batch, Learner, sampled_batch
from holdfast.tabular.cmdp import FiniteCMDP, Floats, check_policy
from holdfast.tabular.flow import Trajectory
from holdfast.tabular.occupancy import ExactValues, evaluate, softmax
from holdfast.train.update import make_update

__all__ = [
    "enumerated",
    "exact_batch",
    "exact_run",
    "probabilities",
    "tabular_policy",
    "without_damping",
]


def exact_batch(cmdp: FiniteCMDP, policy: ArrayLike) -> Batch:
    """Enumerate all S·A pairs under the policy π(a|s) [S, A], in JAX's precision."""
    return enumerated(cmdp, evaluate(cmdp, policy))


def enumerated(cmdp: FiniteCMDP, found: ExactValues) -> Batch:
    """The batch of a policy with known values."""
    states, actions = cmdp.reward.shape
    as_jax = lambda x: jnp.asarray(x, float)
    value = np.concatenate([found.value_r[None], found.value_c])[:, :, None]
    adv = np.concatenate([found.adv_r[None], found.adv_c])
    return sampled_batch(
        as_jax(np.repeat(np.eye(states), actions, axis=0)),
        jnp.tile(jnp.arange(actions), states)[:, None],
        as_jax(found.adv_r.reshape(-1)),
        as_jax(found.adv_c.reshape(cmdp.num_constraints, -1).T),
        weight=as_jax(found.occupancy.reshape(-1)),
        target=as_jax((value + adv).reshape(1 + cmdp.num_constraints, -1).T),
        cost_return=as_jax(found.cost_return),
        cost_limit=as_jax(cmdp.cost_limit),
        horizon=as_jax(1.0),
        length=as_jax(1.0),
        progress=as_jax(0.0),
    )


def tabular_policy(policy: Floats) -> Categorical:
    """The linear Categorical policy with the action probabilities `policy[s]` (all positive) in
    state s.
    """
    if np.any(policy <= 0.0):
        raise ValueError(
            "a softmax policy is positive everywhere, but the smallest entry here is "
            f"{policy.min():.3g}; mix the policy with a little of the uniform one."
        )
    weight = jnp.asarray(np.log(policy), float)
    return Categorical(((weight, jnp.zeros(policy.shape[1], weight.dtype)),), (policy.shape[1],))


def probabilities(policy: Categorical, num_states: int) -> Floats:
    """π(a|s) [S, A] in float64 of a Categorical policy that observes one-hot states."""
    (logits,) = policy.outputs(jnp.eye(num_states, dtype=policy.layers[0][0].dtype))
    return softmax(np.asarray(logits, dtype=np.float64))


Made = TypeVar("Made", bound=InTrustRegion)


def without_damping(algorithm: Made, radius: float | None = None) -> Made:
    """The algorithm with an exact dense solve in its trust region, and perhaps another radius."""
    region = replace(algorithm.region, damping=0.0, solver="dense", kl_average=False)
    if radius is not None:
        region = replace(region, radius=radius)
    known: Any = algorithm  # a dataclass, which a protocol cannot require
    return replace(known, region=region)


def exact_run(
    algorithm: Algorithm, cmdp: FiniteCMDP, policy: ArrayLike, updates: int, seed: int = 0
) -> Trajectory:
    """Apply `updates` exact updates from a positive policy [S, A]; limits are the CMDP's."""
    start = check_policy(cmdp, policy)
    # optax counts its steps in float32, which strict promotion refuses to mix with float64.
    with jax.enable_x64(True), jax.numpy_dtype_promotion("standard"):
        learner = _learner(algorithm, cmdp, start, seed)
        improve = make_update(algorithm).improve
        points: list[ExactValues] = [evaluate(cmdp, start)]
        for k in range(updates):
            batch = replace(enumerated(cmdp, points[-1]), progress=jnp.asarray(k / updates))
            step = improve(learner, batch, jax.random.key(seed + k))
            learner = learner.improved(step)
            assert isinstance(learner.policy, Categorical)
            points.append(evaluate(cmdp, probabilities(learner.policy, cmdp.num_states)))
    return Trajectory.of(np.arange(updates + 1.0), points, f"took all {updates} updates")


def _learner(algorithm: Algorithm, cmdp: FiniteCMDP, start: Floats, seed: int) -> Learner:
    """Learner with the start policy's logits; its critics matter only to algorithms that fit both
    jointly.
    """
    critics = init_critics(jax.random.key(seed), cmdp.num_states, cmdp.num_constraints, (1,))
    wide = lambda x: x.astype(jnp.float64) if jnp.issubdtype(x.dtype, jnp.floating) else x
    policy = tabular_policy(start)
    extra = jax.tree.map(wide, algorithm.init(cmdp.num_constraints, policy))
    return Learner(policy, jax.tree.map(wide, critics), extra)
