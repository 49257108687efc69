# SPDX-License-Identifier: Apache-2.0
"""What becomes of a policy: `export` for use elsewhere, `film` to look at, `certify`: its card."""
