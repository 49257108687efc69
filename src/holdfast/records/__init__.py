# SPDX-License-Identifier: Apache-2.0
"""Reading the files of finished runs, ours and others'; no JAX import, no writing."""
