# SPDX-License-Identifier: Apache-2.0
"""The mathematics must not promote types by accident."""

import jax
import pytest


@pytest.fixture(autouse=True)
def strict_promotion(request):
    """Mixed types raise, except where optax itself mixes them."""
    lenient = request.node.path.name == "test_critic.py"
    with jax.numpy_dtype_promotion("standard" if lenient else "strict"):
        yield
