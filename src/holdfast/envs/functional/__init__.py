# SPDX-License-Identifier: Apache-2.0
"""Environments written in JAX: pure functions, compiled and run on the device of the arrays."""
