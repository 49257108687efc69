# SPDX-License-Identifier: Apache-2.0
"""Many worlds advancing together, in one process."""
