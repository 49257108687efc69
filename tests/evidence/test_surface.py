# SPDX-License-Identifier: Apache-2.0
"""Started unsafe without hysteresis: nothing is stuck; noise alone brings recovery back."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "evidence"))

from holdfast.tabular.cmdp import toy
from surface import UNSAFE, run


def test_only_noise_brings_it_back_into_recovery():
    exact, noisy = (run(toy(), UNSAFE, 1.0, noise, updates=100, seed=0) for noise in (0.0, 0.05))
    assert exact.above == 0.0 and exact.recovering == 0.0
    assert -1e-3 < exact.excess <= 0.0 and exact.gap < 0.1  # at the limit, and not stuck there
    assert noisy.recovering > 0.05 and noisy.excess < -0.01  # and costs it a distance
