# SPDX-License-Identifier: Apache-2.0
"""A trained policy on NumPy alone: `Policy("policy.npz")(observation)` is the action.

This file stands by itself, next to the arrays that `holdfast export` wrote; copy both.

    x = (observation − mean) / scale        a = MLP(x) + std · noise, or the best score + noise
    action = clip(middle + half · a, low, high), in the environment's units
"""

import json
from typing import Any
from zipfile import ZipFile

import numpy as np

LARGEST = 1 << 31


class Policy:
    """Most likely actions; with `rng` (a `numpy.random.Generator`) sampled ones."""

    def __init__(self, file: Any) -> None:
        try:
            with ZipFile(file) as parts:
                if sum(part.file_size for part in parts.infolist()) > LARGEST:
                    raise ValueError(f"it unpacks into more than {LARGEST} bytes")
            with np.load(file, allow_pickle=False) as stored:
                self.arrays: dict[str, Any] = {name: stored[name] for name in stored.files}
            self.about = json.loads(str(self.arrays.pop("about")))
            depth, arrays = sum(n.startswith("weight") for n in self.arrays), self.arrays
            self.layers = [(arrays[f"weight{i}"], arrays[f"bias{i}"]) for i in range(depth)]
            self(np.zeros(len(self.layers[0][0])))  # all that is needed is there, and fits
        except FileNotFoundError:
            raise
        except Exception as error:
            raise ValueError(
                f"'{file}' is no policy that holdfast exported ({error!r:.200})."
            ) from error

    def __call__(self, observation: Any, rng: np.random.Generator | None = None) -> Any:
        """The action for one observation [O], or those for a batch [n, O]."""
        seen = np.asarray(observation, np.float64)
        batch, size = np.atleast_2d(seen), len(self.layers[0][0])
        if seen.ndim > 2 or batch.shape[1] != size:
            raise ValueError(f"an observation has shape {seen.shape}; this policy takes ({size},).")
        if not np.isfinite(batch).all():
            raise ValueError("an observation is not finite, so no action follows from it.")
        if "mean" in self.arrays:
            batch = (batch - self.arrays["mean"]) / self.arrays["scale"]
        action = self.choose(batch.astype(np.float32), rng)
        return action if seen.ndim == 2 else action[0]

    def choose(self, seen: Any, rng: np.random.Generator | None) -> Any:
        """Actions for a batch as the network sees it."""
        x = seen[:, None, :]  # row by row, so that a batch gives the same bits as one at a time
        for weight, bias in self.layers[:-1]:
            x = np.tanh(x @ weight + bias)
        weight, bias = self.layers[-1]
        out = (x @ weight)[:, 0] + bias
        arrays = self.arrays
        if "std" in arrays:
            if rng is not None:
                out = out + arrays["std"] * rng.standard_normal(out.shape, np.float32)
            return np.clip(arrays["middle"] + arrays["half"] * out, arrays["low"], arrays["high"])
        if rng is not None:  # adding Gumbel noise to the scores draws from their softmax
            out = out - np.log(rng.standard_exponential(out.shape, np.float32) + np.float32(1e-30))
        parts = np.split(out, np.cumsum(arrays["sizes"])[:-1], axis=-1)
        best = np.stack([part.argmax(-1) for part in parts], -1)
        return best[..., 0] + arrays["start"] if "start" in arrays else best
