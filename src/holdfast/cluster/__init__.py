# SPDX-License-Identifier: Apache-2.0
"""Other machines: a Ray cluster and its tasks, and remote storage of run folders."""
