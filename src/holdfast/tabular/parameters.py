# SPDX-License-Identifier: Apache-2.0
"""Parametrisations of policies: maps from parameters θ to π_θ(a|s).

    softmax       π ∝ exp θ[s,a]
    escort        π ∝ |θ[s,a]|^p
    log-linear    π ∝ exp(f(s,a)·θ)

A parametrisation is regular where its scores ∇_θ log π span every change of the policy. There θ ↦
d_π is a submersion onto the occupancies, and the Gramian is the pullback of one metric on these. So
the natural gradient moves d_π along the same path for all regular parameters: softmax logits are no
restriction, only the fastest choice. Escort is regular where no θ[s,a] is 0, log-linear where the
features, centred in each state, have rank S·(A − 1).
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from holdfast.tabular.cmdp import Floats
from holdfast.tabular.occupancy import softmax


@dataclass(frozen=True)
class Parametrisation:
    """Three functions of parameters θ, an array of any shape with P entries."""

    name: str
    policy: Callable[[Floats], Floats]
    """θ ↦ π [S, A]."""
    scores: Callable[[Floats], Floats]
    """θ ↦ ∇_θ log π(a|s) [S, A, P]."""
    inverse: Callable[[Floats], Floats]
    """A positive policy π [S, A] ↦ its parameters; ValueError if there are none."""


def escort(power: float = 2.0) -> Parametrisation:
    """π(a|s) ∝ |θ[s,a]|^p (Mei et al. 2020); ∂ log π(a|s)/∂θ[s,a'] = p (1[a=a'] − π(a'|s))/θ[s,a'].

    Regular where no parameter is 0.
    """
    if power < 1.0:
        raise ValueError(f"power={power} must be at least 1, or π is not smooth in θ.")

    def policy(theta: Floats) -> Floats:
        weight = np.abs(theta / np.abs(theta).max(axis=1, keepdims=True)) ** power
        return weight / weight.sum(axis=1, keepdims=True)

    return Parametrisation(
        name=f"escort of power {power:g}",
        policy=policy,
        scores=lambda theta: table_scores(policy(theta)) * (power / theta.reshape(-1)),
        inverse=lambda pi: pi ** (1.0 / power),
    )


def log_linear(features: ArrayLike) -> Parametrisation:
    """π(a|s) ∝ exp(f(s,a)·θ) for features f [S, A, P]; ∇ log π = f(s,a) − E_π f(s,·).

    Regular if the features, centred in each state, have rank S·(A − 1). With a smaller rank the
    flow follows another path, within the representable policies.
    """
    f = np.asarray(features, dtype=np.float64)
    if f.ndim != 3 or not np.all(np.isfinite(f)):
        raise ValueError(f"features of shape {f.shape} must be finite and have a shape [S, A, P].")
    flat = (f - f.mean(axis=1, keepdims=True)).reshape(-1, f.shape[2])

    def inverse(pi: Floats) -> Floats:
        logits = np.log(pi)
        wanted = (logits - logits.mean(axis=1, keepdims=True)).reshape(-1)
        theta = np.linalg.lstsq(flat, wanted)[0]
        miss = float(np.abs(flat @ theta - wanted).max())
        if miss > 1e-8 * max(1.0, float(np.abs(wanted).max())):
            raise ValueError(
                f"these {f.shape[2]} features cannot represent the policy: the nearest logits "
                f"differ by {miss:.3g}. Start from the uniform policy, or give features of full "
                "rank."
            )
        return theta

    return Parametrisation(
        name=f"log-linear in {f.shape[2]} features",
        policy=lambda theta: softmax(f @ theta),
        scores=lambda theta: f - np.einsum("sa,sap->sp", softmax(f @ theta), f)[:, None, :],
        inverse=inverse,
    )


def table_scores(policy: Floats) -> Floats:
    """∂ log π(a|s)/∂θ[s',a'] = 1[s=s'] (1[a=a'] − π(a'|s)) of softmax logits, [S, A, S·A]."""
    states, actions = policy.shape
    scores = np.zeros((states, actions, states, actions))
    here = np.arange(states)
    scores[here, :, here, :] = np.eye(actions) - policy[:, None, :]
    return scores.reshape(states, actions, states * actions)


SOFTMAX = Parametrisation(
    name="softmax",
    policy=softmax,
    scores=lambda theta: table_scores(softmax(theta)),
    inverse=np.log,
)
"""π(a|s) ∝ exp θ[s,a] with ∂ log π(a|s)/∂θ[s,a'] = 1[a=a'] − π(a'|s); regular everywhere."""
