# SPDX-License-Identifier: Apache-2.0
"""Acting for a whole epoch as plain data: a Gaussian MLP policy with frozen statistics.

    x = (obs − mean) / deviation,   a = MLP(x) + std · noise,   env action = middle + half · a
Nothing here depends on how the batch is split among workers, to the last bit. BLAS rounds a row
differently in products of different height, so each row is multiplied by itself: a stack of
[1, O] products of one shape, which NumPy hands to BLAS row after row. Elementwise functions round
each number alone. The noise is given, so who acts does not change what is done.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Float32 = NDArray[np.float32]


@dataclass(frozen=True)
class Pilot:
    """A policy, its view of observations and its way to the actuators."""

    layers: tuple[tuple[Float32, Float32], ...]
    """(weight [in, out], bias [out]) with tanh between; () lets the noise alone act."""
    std: Float32
    """[A]"""
    mean: NDArray[np.float64]
    """[O]"""
    deviation: NDArray[np.float64]
    """[O] what centred observations are divided by; ones to leave them as they are."""
    middle: NDArray[np.floating[Any]]
    """[A] in the dtype of the environment's actions."""
    half: NDArray[np.floating[Any]]
    low: NDArray[np.floating[Any]] | None = None
    """[A] clip the environment's actions to [low, high]; None leaves them."""
    high: NDArray[np.floating[Any]] | None = None

    def view(self, obs: NDArray[np.floating[Any]]) -> Float32:
        """What the policy sees of obs [n, O]."""
        return ((obs - self.mean) / self.deviation).astype(np.float32)

    def act(self, seen: Float32, noise: Float32) -> Float32:
        """The policy's actions [n, A]."""
        shift: Float32 = self.std * noise
        if not self.layers:
            return shift
        x: NDArray[Any] = seen[:, None, :]
        for weight, bias in self.layers[:-1]:
            x = np.tanh(x @ weight + bias)
        weight, bias = self.layers[-1]
        out: NDArray[Any] = (x @ weight)[:, 0] + bias
        return out + shift

    def steer(self, action: Float32) -> NDArray[np.floating[Any]]:
        """The same in the environment's units."""
        scaled = self.middle + self.half * action
        if self.low is None or self.high is None:
            return scaled
        return np.clip(scaled, self.low, self.high)

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Named arrays, for another process."""
        names = ("std", "mean", "deviation", "middle", "half", "low", "high")
        arrays: dict[str, Any] = {name: getattr(self, name) for name in names}
        for i, (weight, bias) in enumerate(self.layers):
            arrays |= {f"weight{i}": weight, f"bias{i}": bias}
        return {name: np.asarray(value) for name, value in arrays.items() if value is not None}

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]]) -> "Pilot":
        """The inverse of `to_arrays`."""
        depth = sum(name.startswith("weight") for name in arrays)
        layers = tuple((arrays[f"weight{i}"], arrays[f"bias{i}"]) for i in range(depth))
        names = ("std", "mean", "deviation", "middle", "half")
        fixed = {name: arrays[name] for name in names}
        return cls(layers, **fixed, low=arrays.get("low"), high=arrays.get("high"))
