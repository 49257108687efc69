# SPDX-License-Identifier: Apache-2.0
"""Judging the safety of a policy: fresh episodes, proved verdicts, and changed conditions."""
