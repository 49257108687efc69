# SPDX-License-Identifier: Apache-2.0
"""Natural gradients in other parameters than softmax logits: escort and log-linear policies.

A parametrisation enters by its scores ∇_θ log π(a|s) [S, A, P] alone. Where it is regular (scores
span every change of the policy) C-NPG moves the policy in the same way whatever the parameters are:
softmax logits are no restriction, only the cheapest choice.
"""

import numpy as np

from holdfast.tabular.barrier import barrier_named
from holdfast.tabular.cmdp import FiniteCMDP, Floats
from holdfast.tabular.flow import Geometry
from holdfast.tabular.occupancy import ExactValues


def escort_scores(policy: Floats, power: float = 2.0) -> Floats:
    """∇_θ log π of π(a|s) ∝ θ[s,a]^p with θ > 0 [S, A, S·A]."""
    theta = policy ** (1.0 / power)
    return log_linear_scores(policy, np.eye(policy.size)) * (power / theta.reshape(-1))


def log_linear_scores(policy: Floats, features: Floats) -> Floats:
    """∇_θ log π of π(a|s) ∝ exp(f(s,a)·θ) for features f [S·A, P]: [S, A, P]."""
    rows = features.reshape(*policy.shape, -1)
    return rows - np.einsum("sa,sap->sp", policy, rows)[:, None, :]


def policy_velocity(
    cmdp: FiniteCMDP, found: ExactValues, scores: Floats, geometry: Geometry = Geometry()
) -> Floats:
    """∂_t log π [S, A] along θ' = G_C⁺ ∇V_r, from the dense Gramian of these parameters."""
    flat = scores.reshape(-1, scores.shape[-1])
    weighted = found.occupancy.reshape(-1, 1) * flat
    normals = found.adv_c.reshape(cmdp.num_constraints, -1) @ weighted
    beta = geometry.weights(cmdp)
    on = beta > 0.0
    weight = beta[on] * barrier_named(geometry.barrier).curvature(found.slack[on])
    metric = flat.T @ weighted + (normals[on].T * weight) @ normals[on]
    uphill = found.adv_r.reshape(-1) @ weighted
    step = np.linalg.pinv(metric, rcond=1e-12, hermitian=True) @ uphill
    return (flat @ step).reshape(found.policy.shape)
