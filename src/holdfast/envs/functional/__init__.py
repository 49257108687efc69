# SPDX-License-Identifier: Apache-2.0
"""Environments written in JAX: pure functions that run where the arrays are."""
