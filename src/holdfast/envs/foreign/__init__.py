# SPDX-License-Identifier: Apache-2.0
"""Any Gymnasium environment as a batch: its source, spaces, costs, and recorded actions for
resuming.
"""
