# SPDX-License-Identifier: Apache-2.0
"""A step of a trust-region method: what a candidate would bring, what was taken, how it ended."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
from jax import Array

from holdfast.core.policies import Policy
from holdfast.core.types import Improvement, Metrics


class Status(enum.IntEnum):
    """How a step ended. Compiled code cannot raise, so it returns one of these."""

    ACCEPTED = 0
    NO_STEP_ACCEPTED = 1
    NO_GRADIENT = 2
    NOT_FINITE = 3

    @property
    def sentence(self) -> str:
        return {
            Status.ACCEPTED: "a step inside the trust region was taken",
            Status.NO_STEP_ACCEPTED: "no step along the direction was acceptable; the policy stays",
            Status.NO_GRADIENT: "the gradient vanishes or has no curvature; the policy stays",
            Status.NOT_FINITE: "the gradient or the direction is not finite; the policy stays",
        }[self]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Trial:
    """What a candidate policy would bring, all against the old policy."""

    gain: Array
    """E[(ratio − 1) · advantage], the change of the objective."""
    kl: Array
    """Mean KL, reduced as the region says."""
    spent: Array
    """[K] κ E[(ratio − 1) · A_c], the predicted change of each cost return."""
    divergence: Array
    """D, +inf outside the linearised safe set."""


Accept = Callable[[Trial], Array]
"""Whether a candidate may be taken."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Move:
    """A finished step."""

    policy: Policy
    trial: Trial
    status: Array
    """A `Status`."""
    index: Array
    """Accepted candidate of the search, counted from 1; 0 if none was."""
    gradient_norm: Array
    step_norm: Array

    def improvement(self, extra: Any, metrics: Metrics) -> Improvement:
        """Of an algorithm with this next state and these metrics of its own."""
        return Improvement(self.policy, extra, metrics | self.metrics(), self.gradient_norm)

    def metrics(self) -> Metrics:
        return {
            "kl": self.trial.kl,
            "divergence": self.trial.divergence,
            "gain": self.trial.gain,
            "accepted": self.index,
            "status": self.status,
            "gradient_norm": self.gradient_norm,
            "step_norm": self.step_norm,
        }
