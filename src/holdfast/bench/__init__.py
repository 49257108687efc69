# SPDX-License-Identifier: Apache-2.0
"""Many runs: what to run (suites, cells), how (local processes, Ray), and reading them back."""
