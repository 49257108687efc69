# SPDX-License-Identifier: Apache-2.0
"""Progress displays: `training_bar` of a run, `episode_bars` of evaluation and filming."""
