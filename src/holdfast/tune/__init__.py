# SPDX-License-Identifier: Apache-2.0
"""Tuning: a search for settings by Optuna, whose trials are ordinary run folders."""
