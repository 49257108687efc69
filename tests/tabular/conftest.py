# SPDX-License-Identifier: Apache-2.0
"""One seeded generator for each exact test."""

import numpy as np
import pytest


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20240711)
