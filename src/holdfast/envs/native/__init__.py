# SPDX-License-Identifier: Apache-2.0
"""The single-agent tasks of Safety-Gymnasium, rebuilt on current MuJoCo and batched."""

from holdfast.envs.native.catalogue import NATIVE_IDS, make
from holdfast.envs.native.describe import Description, describe
from holdfast.envs.native.epoch import Epoch
from holdfast.envs.native.pilot import Pilot

__all__ = ["NATIVE_IDS", "Description", "Epoch", "Pilot", "describe", "make"]
