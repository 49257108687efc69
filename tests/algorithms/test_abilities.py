# SPDX-License-Identifier: Apache-2.0
"""An algorithm declares its abilities, and has the field or method that each of them names."""

from dataclasses import dataclass

import pytest

from holdfast.algorithms import (
    ALGORITHMS,
    ChecksLimits,
    ComparesCosts,
    HasBarrier,
    InMinibatches,
    InTrustRegion,
)
from holdfast.core.first_order import FirstOrder

NEEDED = {
    InMinibatches: "loop",
    InTrustRegion: "region",
    ComparesCosts: "cost_scale",
    HasBarrier: "barrier",
    ChecksLimits: "check_limits",
}


@pytest.mark.parametrize("name", ALGORITHMS)
def test_declared_abilities_are_those_of_the_fields(name: str) -> None:
    algorithm = ALGORITHMS[name].make()
    assert isinstance(algorithm, InMinibatches) != isinstance(algorithm, InTrustRegion)
    for ability, member in NEEDED.items():
        assert isinstance(algorithm, ability) == hasattr(algorithm, member), member


def test_a_field_alone_declares_nothing() -> None:
    @dataclass(frozen=True)
    class Other:
        loop: FirstOrder = FirstOrder()

    @dataclass(frozen=True)
    class Declared(InMinibatches):
        loop: FirstOrder = FirstOrder()

    assert not isinstance(Other(), InMinibatches)
    assert isinstance(Declared(), InMinibatches)


def test_check_limits_must_be_written() -> None:
    class Forgetful(ChecksLimits):
        pass

    with pytest.raises(TypeError, match="check_limits"):
        Forgetful()  # type: ignore[abstract]
