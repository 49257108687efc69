# SPDX-License-Identifier: Apache-2.0
"""Holdfast: safe reinforcement learning that respects cost limits while it learns."""

__version__ = "0.1.0"
