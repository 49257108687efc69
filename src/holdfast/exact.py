# SPDX-License-Identifier: Apache-2.0
"""Any algorithm's own `improve` on a finite CMDP, without sampling noise.

The batch enumerates all state-action pairs with their exact occupancy and advantages, the policy is
a table of logits, and everything runs in float64: what is left is the algorithm itself. This is how
the deep code is judged against the linear programme and the exact updates of `holdfast.tabular`.
"""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from holdfast.algorithms import Algorithm
from holdfast.core.critic import init_critics
from holdfast.core.types import Learner
from holdfast.tabular.batch import batch_of, probabilities, tabular_policy
from holdfast.tabular.cmdp import FiniteCMDP, check_policy
from holdfast.tabular.flow import Trajectory
from holdfast.tabular.occupancy import ExactValues, evaluate
from holdfast.update import split

__all__ = ["exact_run", "without_damping"]


def without_damping(algorithm: Any, radius: float | None = None) -> Any:
    """The algorithm with an exact dense solve in its trust region, and maybe another radius."""
    region = replace(algorithm.region, damping=0.0, solver="dense", kl_average=False)
    if radius is not None:
        region = replace(region, radius=radius)
    return replace(algorithm, region=region)


def exact_run(
    algorithm: Algorithm, cmdp: FiniteCMDP, policy: ArrayLike, updates: int, seed: int = 0
) -> Trajectory:
    """Apply `updates` exact updates from a positive policy [S, A]; limits are the CMDP's."""
    start = check_policy(cmdp, policy)
    # optax counts its steps in float32, which strict promotion refuses to mix with float64.
    with jax.enable_x64(True), jax.numpy_dtype_promotion("standard"):
        learner = _learner(algorithm, cmdp, start, seed)
        improve = split(algorithm).improve
        points: list[ExactValues] = [evaluate(cmdp, start)]
        for k in range(updates):
            batch = replace(batch_of(cmdp, points[-1]), progress=jnp.asarray(k / updates))
            step = improve(learner, batch, jax.random.key(seed + k))
            learner = learner.improved(step)
            law: Any = learner.policy
            points.append(evaluate(cmdp, probabilities(law, cmdp.num_states)))
    return Trajectory.of(np.arange(updates + 1.0), points, f"took all {updates} updates")


def _learner(algorithm: Algorithm, cmdp: FiniteCMDP, start: Any, seed: int) -> Learner:
    """Logits of the start policy; exact advantages need critics only to be trained jointly."""
    critics = init_critics(jax.random.key(seed), cmdp.num_states, cmdp.num_constraints, (1,))
    wide = lambda x: x.astype(jnp.float64) if jnp.issubdtype(x.dtype, jnp.floating) else x
    policy = tabular_policy(start)
    extra = jax.tree.map(wide, algorithm.init(cmdp.num_constraints, policy))
    return Learner(policy, jax.tree.map(wide, critics), extra)
