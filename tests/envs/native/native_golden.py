# SPDX-License-Identifier: Apache-2.0
"""Access to the recorded transitions of the original package, beside the checkout."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

FOLDER = Path(__file__).resolve().parents[4] / "shared" / "golden"
SEEDS = (11, 23, 47)


def load(task: str, seed: int) -> dict[str, Any]:
    """All arrays of one file, its `meta` decoded."""
    path = FOLDER / f"{task}.seed{seed}.npz"
    if not path.exists():
        pytest.skip(f"recorded transitions not found at {path}")
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    return arrays | {"meta": json.loads(str(arrays["meta"]))}


def statistics(task: str) -> dict[str, Any]:
    """Twenty recorded episodes of random actions."""
    path = FOLDER / "episode_stats.json"
    if not path.exists():
        pytest.skip(f"recorded episodes not found at {path}")
    return json.loads(path.read_text())[task]
