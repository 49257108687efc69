# SPDX-License-Identifier: Apache-2.0
"""Optax raises a float to an integer power, which strict promotion of types forbids."""

from collections.abc import Iterator

import jax
import pytest


@pytest.fixture(autouse=True)
def standard_promotion() -> Iterator[None]:
    with jax.numpy_dtype_promotion("standard"):
        yield
