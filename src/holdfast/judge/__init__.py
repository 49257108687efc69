# SPDX-License-Identifier: Apache-2.0
"""Whether a policy is safe: fresh episodes, verdicts that are proofs, and changed conditions."""
