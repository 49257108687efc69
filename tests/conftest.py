# SPDX-License-Identifier: Apache-2.0
"""Settings of every test: CPU, fast compilation, and float64 where it is asked for."""

import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import pytest

# Tests compile hundreds of small functions and run each once: compiling fast is what counts.
jax.config.update("jax_disable_most_optimizations", True)


@pytest.fixture
def float64():
    """Mathematics is checked in double precision, through the same code."""
    with jax.enable_x64(True):
        yield
