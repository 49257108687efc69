# SPDX-License-Identifier: Apache-2.0
"""A barrier of one's own for C-TRPO: φ(x) = 1/x, steeper near the limit than −log x."""

from holdfast import Generator

reciprocal = Generator(
    "reciprocal",
    value=lambda x: 1 / x,
    slope=lambda x: -1 / x**2,
    curvature=lambda x: 2 / x**3,
)
