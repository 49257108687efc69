# SPDX-License-Identifier: Apache-2.0
"""The paper's theorems checked on finite CMDPs, its figures, and the interactive page."""
