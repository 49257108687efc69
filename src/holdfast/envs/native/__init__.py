# SPDX-License-Identifier: Apache-2.0
"""The single-agent tasks of Safety-Gymnasium, rebuilt on current MuJoCo and batched."""

from holdfast.envs.native.catalogue import NATIVE_IDS, make

__all__ = ["NATIVE_IDS", "make"]
