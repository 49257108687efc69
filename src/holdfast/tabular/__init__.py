# SPDX-License-Identifier: Apache-2.0
"""Exact finite constrained MDPs, in float64."""
