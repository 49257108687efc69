# SPDX-License-Identifier: Apache-2.0
"""One file for each algorithm: hyper-parameters, `init`, `update`."""
