# SPDX-License-Identifier: Apache-2.0
"""Reading what runs left behind, ours and others'; nothing here imports JAX or writes a file."""
