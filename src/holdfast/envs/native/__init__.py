# SPDX-License-Identifier: Apache-2.0
"""The single-agent tasks of Safety-Gymnasium, rebuilt on current MuJoCo and batched.

Names are imported when first used: whoever needs the list of ids, or the data of a policy, does
not load a simulator.
"""

import importlib
from typing import TYPE_CHECKING, Any

from holdfast.envs.registry import TIME_LIMITS

if TYPE_CHECKING:
    from holdfast.envs.native.catalogue import make
    from holdfast.envs.native.description import Description, describe
    from holdfast.envs.native.epoch import Epoch
    from holdfast.envs.native.pilot import Pilot
    from holdfast.envs.native.single import SixTuple

__all__ = ["NATIVE_IDS", "Description", "Epoch", "Pilot", "SixTuple", "describe", "make"]

NATIVE_IDS: tuple[str, ...] = tuple(TIME_LIMITS)
"""All ids, the same as in Safety-Gymnasium."""

_HOMES = {
    "Description": "description",
    "Epoch": "epoch",
    "Pilot": "pilot",
    "SixTuple": "single",
    "describe": "description",
    "make": "catalogue",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
