# SPDX-License-Identifier: Apache-2.0
"""Stored evaluations of a run folder's newest policy: a file for sampled and one for greedy
actions.
"""

from pathlib import Path
from typing import Any, Literal

from holdfast.files import MALFORMED, read_json, reason

Acting = Literal["sampled", "greedy"]


def evaluation_file(folder: Path, acting: Acting) -> Path:
    return folder / f"evaluation_{acting}.json"


def read_evaluation(folder: Path, acting: Acting, epoch: int) -> dict[str, Any] | None:
    """The stored evaluation of that epoch's policy; None if it is of another epoch."""
    file = evaluation_file(folder, acting)
    found = read_json(file) if file.exists() else None
    return found if found is not None and found.get("epoch") == epoch else None


def read_violations(folder: Path, acting: Acting, epoch: int) -> tuple[float, float, float] | None:
    """Stored (rate, distance, distance when violating) of the worst constraint."""
    kept = read_evaluation(folder, acting, epoch)
    if kept is None:
        return None
    try:
        each = list(kept["cost"].values())
        worst = lambda name: max(float(cost[name]) for cost in each)
        rate = float(kept["violation_rate"]["estimate"])
        return rate, worst("distance"), worst("distance_violating")
    except MALFORMED as error:
        raise ValueError(
            f"'{evaluation_file(folder, acting)}' is not a valid evaluation ({reason(error)}); "
            "remove it and evaluate again."
        ) from None
