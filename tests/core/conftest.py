# SPDX-License-Identifier: Apache-2.0
"""The mathematics must not promote types by accident."""

import jax
import pytest

OPTAX = ("test_critic.py", "test_first_order.py", "test_multiplier.py")
"""Optax raises a float to an integer power."""


@pytest.fixture(autouse=True)
def strict_promotion(request):
    """Mixed types raise, except where optax itself mixes them."""
    lenient = request.node.path.name in OPTAX
    with jax.numpy_dtype_promotion("standard" if lenient else "strict"):
        yield
