# SPDX-License-Identifier: Apache-2.0
"""The only code that knows simulators."""
