# SPDX-License-Identifier: Apache-2.0
"""A finite CMDP as one weighted batch, so that deep updates run on it without sampling noise.

One row for each (s, a), weighted by the occupancy d(s,a); observations are one-hot states. A linear
Categorical policy on one-hot states is the tabular softmax policy: its weight matrix holds the
logits θ[s,a]. Convention N makes the unit factor κ (`horizon`) equal to 1.
"""

import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from holdfast.core.policies import Categorical
from holdfast.core.types import Batch, sampled_batch
from holdfast.tabular.cmdp import FiniteCMDP, Floats
from holdfast.tabular.occupancy import ExactValues, evaluate, softmax


def exact_batch(cmdp: FiniteCMDP, policy: ArrayLike) -> Batch:
    """Enumerate all S·A pairs under the policy π(a|s) [S, A], in JAX's precision."""
    return batch_of(cmdp, evaluate(cmdp, policy))


def batch_of(cmdp: FiniteCMDP, found: ExactValues) -> Batch:
    """The enumerated batch of a policy that is evaluated already."""
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
    """The linear Categorical policy whose action law in state s is `policy[s]` (all positive)."""
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
