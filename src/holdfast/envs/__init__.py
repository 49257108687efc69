# SPDX-License-Identifier: Apache-2.0
"""Environments: native, foreign and functional ones, and the loops that act in them."""
