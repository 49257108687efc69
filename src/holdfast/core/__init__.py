# SPDX-License-Identifier: Apache-2.0
"""Mathematics on arrays: no environments, no files, no clock."""
