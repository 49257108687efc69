# SPDX-License-Identifier: Apache-2.0
"""What a run leaves behind: its folder, checkpoints and progress, written here and read here."""
