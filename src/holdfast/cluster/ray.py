# SPDX-License-Identifier: Apache-2.0
"""Ray: joining a cluster, and checking the versions of its machines."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from typing import Any

from holdfast.process import PACKAGES, optional, versions


def connect(address: str) -> Any:
    """The ray module, joined to the cluster at `address`; local: one of this machine alone."""
    ray = optional("ray", "ray", "a cluster")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    if not ray.is_initialized():
        alone = {"include_dashboard": False} if address == "local" else {}
        try:
            ray.init(address=address, log_to_driver=False, **alone)
        except ConnectionError as error:
            raise ValueError(
                f"no Ray cluster answers at '{address}' ({str(error).splitlines()[0]}); start one "
                "with `ray start --head` and name its address."
            ) from None
    return ray


def first_line(error: Exception) -> str:
    """The first line of Ray's error, without its long explanations."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


class Unequal(ValueError):
    """A machine with other versions; `node` is its name in Ray."""

    node = ""


def refuse_versions(wanted: Mapping[str, str]) -> None:
    """Refuse, on a machine of the cluster, other package versions than the driver's."""
    here = versions()
    for name in ("python", *PACKAGES):
        theirs, ours = wanted.get(name, "none"), here.get(name, "none")
        if name == "python":  # bits do not depend on its last number
            theirs, ours = (".".join(text.split(".")[:2]) for text in (theirs, ours))
        if theirs != ours:
            raise Unequal(
                f"{platform.node()} has {name} {ours}, and this run was begun with {name} "
                f"{theirs}: results would differ; install the same versions on all machines."
            )
