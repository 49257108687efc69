# SPDX-License-Identifier: Apache-2.0
"""Evaluations that are kept in a run folder: of the sampled and of the greedy final policy.

evaluation_sampled.json and evaluation_greedy.json hold `Evaluation.summary` and the epoch of the
policy. An evaluation of another epoch than the one asked for is none.
"""

from pathlib import Path
from typing import Any, Literal

from holdfast.evaluate import Evaluation
from holdfast.reading import MALFORMED, reason
from holdfast.runs import checkpoint

Acting = Literal["sampled", "greedy"]


def _file(folder: Path, acting: Acting) -> Path:
    return folder / f"evaluation_{acting}.json"


def save_evaluation(folder: Path, result: Evaluation) -> Path:
    """Keep the numbers of the newest policy's evaluation; an earlier one is replaced."""
    file = _file(folder, "greedy" if result.deterministic else "sampled")
    checkpoint.write_json(file, {"epoch": checkpoint.epochs(folder)[-1]} | result.summary())
    return file


def read_evaluation(folder: Path, acting: Acting, epoch: int) -> dict[str, Any] | None:
    """What is kept of the policy of that epoch."""
    file = _file(folder, acting)
    found = checkpoint.read_json(file) if file.exists() else None
    return found if found is not None and found.get("epoch") == epoch else None


def read_violations(folder: Path, acting: Acting, epoch: int) -> tuple[float, float, float] | None:
    """(rate, distance, distance when violating) that is kept; of the worst constraint."""
    kept = read_evaluation(folder, acting, epoch)
    if kept is None:
        return None
    try:
        each = list(kept["cost"].values())
        worst = lambda name: max(float(cost[name]) for cost in each)
        rate = float(kept["violation_rate"]["estimate"])
        return rate, worst("distance"), worst("distance_violating")
    except MALFORMED as error:
        raise ValueError(f"'{_file(folder, acting)}' is no evaluation ({reason(error)}).") from None
