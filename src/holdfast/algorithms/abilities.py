# SPDX-License-Identifier: Apache-2.0
"""Abilities of algorithms, as base classes without fields of their own: an algorithm declares them.

    class CTRPO(InTrustRegion, ComparesCosts, HasBarrier, ChecksLimits): ...

Training asks by `isinstance`. A field of such a name alone declares nothing.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping

from holdfast.core.first_order import FirstOrder
from holdfast.core.trust_region import TrustRegion
from holdfast.core.types import CostScale


class RewardOnly:
    """An algorithm that ignores costs."""


class InMinibatches:
    """An algorithm whose policy learns from minibatches, so that `improve` uses its random key."""

    loop: FirstOrder


class InTrustRegion:
    """An algorithm that takes one step inside a trust region around the old policy."""

    region: TrustRegion


class ComparesCosts:
    """An algorithm that compares predicted with measured cost; `cost_scale` is the unit."""

    cost_scale: CostScale


class HasBarrier:
    """An algorithm whose divergence has a barrier, which may be the user's own."""

    barrier: str


class ChecksLimits(ABC):
    """An algorithm that cannot keep every limit."""

    @abstractmethod
    def check_limits(self, limits: Mapping[str, float]) -> None:
        """ValueError where it cannot; `cost_limit` is that of constraints without their own."""
