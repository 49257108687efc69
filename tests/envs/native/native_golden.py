# SPDX-License-Identifier: Apache-2.0
"""Access to the recorded transitions of the original package; see golden/README.md."""

import io
import json
import lzma
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(__file__).parent / "golden"
SEEDS = (11, 23, 47)


def load(task: str, seed: int) -> dict[str, Any]:
    """All arrays of one file, its `meta` decoded."""
    content = lzma.decompress((FOLDER / f"{task}.seed{seed}.npz.xz").read_bytes())
    with np.load(io.BytesIO(content)) as file:
        arrays = {name: file[name] for name in file.files}
    return arrays | {"meta": json.loads(str(arrays["meta"]))}


def statistics(task: str) -> dict[str, Any]:
    """Twenty recorded episodes of random actions."""
    return json.loads((FOLDER / "episode_stats.json").read_text())[task]


def random_actions(space: Any, seeds: np.ndarray, count: int) -> np.ndarray:
    """[count, N, A] the actions of those episodes, drawn for each seed."""
    shape = (count, len(space.low))
    each = [np.random.RandomState(seed).uniform(space.low, space.high, shape) for seed in seeds]
    return np.stack(each, 1).astype(np.float32)
