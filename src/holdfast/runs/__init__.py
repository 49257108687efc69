# SPDX-License-Identifier: Apache-2.0
"""Run folders: writing, resuming and reading of settings, checkpoints and progress."""
