# SPDX-License-Identifier: Apache-2.0
"""Many runs: what to run (suites, cells), and how (local processes, Ray)."""
