# SPDX-License-Identifier: Apache-2.0
"""A trained policy in NumPy alone: `Policy("policy.npz")(observation)` is the action.

This file needs only NumPy and the arrays that `holdfast export` wrote beside it; copy both.

    x = (observation − mean) / scale        a = f(x) + std · noise, or the best score + noise
    action = clip(middle + half · a, low, high), in the environment's units

An observation has the environment's form: an array, a number, or dictionaries and tuples of them.
Its parts are concatenated in order, choices one-hot.
"""

import json
import math
from typing import Any
from zipfile import ZipFile

import numpy as np

LARGEST = 1 << 31


def sigmoid(x: Any) -> Any:
    return 0.5 * (1 + np.tanh(0.5 * x))


def gumbel(normal: Any) -> Any:
    """Standard Gumbel numbers from standard normal ones: −log(−log Φ)."""
    share = np.array([0.5 * math.erfc(-x / math.sqrt(2)) for x in normal.ravel().tolist()])
    return -np.log(-np.log(share)).astype(np.float32).reshape(normal.shape)


ACTIVATIONS: dict[str, Any] = {
    "tanh": np.tanh,
    "relu": lambda x: np.maximum(x, 0),
    "elu": lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))),
    "silu": lambda x: x * sigmoid(x),
}


class Policy:
    """Most likely actions; with `noise` sampled ones, as in training.

    noise = policy.noise(rng)                       # once for an episode: it may last
    action = policy(observation, next(noise))
    """

    def __init__(self, file: Any) -> None:
        try:
            with ZipFile(file) as parts:
                if sum(part.file_size for part in parts.infolist()) > LARGEST:
                    raise ValueError(f"it unpacks into more than {LARGEST} bytes")
            with np.load(file, allow_pickle=False) as stored:
                self.arrays: dict[str, Any] = {name: stored[name] for name in stored.files}
            self.about = json.loads(str(self.arrays.pop("about")))
            self.network = json.loads(str(self.arrays.pop("network")))
            self.activation = ACTIVATIONS[self.network["activation"]]
            depth, arrays = sum(n.startswith("weight") for n in self.arrays), self.arrays
            self.layers = [(arrays[f"weight{i}"], arrays[f"bias{i}"]) for i in range(depth)]
            image, self.memory = self.network["image"], int(self.network["memory"])
            width = self.network.get("width", 0)  # of images among other numbers
            self.size = width or (int(np.prod(image)) if image else len(self.layers[0][0]))
            self.parts = json.loads(str(arrays.pop("parts")))
            self.action = json.loads(str(arrays.pop("action")))
            width = sum(sum(p["sizes"]) or int(np.prod(p["shape"])) for p in self.parts)
            keys = [key for p in self.parts for key in p["path"]]
            if max(self.size, self.memory) > LARGEST or width != self.size:
                raise ValueError(f"it reads {width} numbers of {self.size}")
            if np.dtype(self.action["dtype"]).kind not in "fiu" or {*map(type, keys)} - {str, int}:
                raise ValueError("it contains other values than numbers")
            for p in self.parts:  # all that is needed is there, and fits
                first = np.reshape(p["starts"], p["shape"]) if p["sizes"] else np.zeros(p["shape"])
                self.flatten(first, p | {"path": []})
            self.act(np.zeros((1, self.size)))
        except FileNotFoundError:
            raise
        except Exception as error:
            raise ValueError(
                f"'{file}' is not a policy of holdfast export ({error!r:.200}); export it again."
            ) from error

    def __call__(
        self, observation: Any, noise: Any = None, memory: Any = None, budget: Any = None
    ) -> Any:
        """The action for one observation, or those for a batch with a leading axis everywhere.

        A policy with a memory returns (action, memory). Pass that memory with the next observation,
        and None at the start of an episode (in a batch: 0 in the rows of new episodes). `budget` is
        the remaining share, (b - cost so far) / b, of each of `about["budgets"]`.
        """
        given = {"observation": observation, "budget": budget}
        flat = [self.flatten(given[part.get("root", "observation")], part) for part in self.parts]
        action, kept = self.act(np.concatenate([x for x, _ in flat], 1), noise, memory)
        action, kept = (action[0], kept[0]) if flat[0][1] else (action, kept)
        return (action, kept) if self.memory else action

    def flatten(self, value: Any, part: Any) -> tuple[Any, bool]:
        """([n, ...] the numbers of one part of an observation, whether it was a single one)."""
        try:
            for key in part["path"]:
                value = value[key]
        except (KeyError, IndexError, TypeError):
            raise ValueError(f"an observation lacks the part {part['path']}.") from None
        if value is None:
            raise ValueError("this policy needs budget=, the remaining share of each budget.")
        seen, shape = np.asarray(value, np.float64), tuple(part["shape"])
        single = seen.ndim == len(shape)
        if seen.shape[0 if single else 1 :] != shape:
            where = "/".join(map(str, ["an observation", *part["path"]]))
            raise ValueError(f"{where} has shape {seen.shape}; this policy takes {shape}.")
        flat = seen.reshape(1 if single else len(seen), -1)
        if not part["sizes"]:
            return flat, single
        choices = zip(flat.T, part["sizes"], part["starts"], strict=True)
        hot = [x[:, None] == np.arange(start, start + n) for x, n, start in choices]
        if not all(one.any(1).all() for one in hot):
            raise ValueError(f"an observation of {value} is not one of its choices; pass another.")
        return np.concatenate(hot, 1), single

    def act(self, batch: Any, noise: Any = None, memory: Any = None) -> tuple[Any, Any]:
        """(actions, next memory) of flat observations [n, O]."""
        kept = np.zeros((len(batch), self.memory), np.float32)
        if memory is not None:
            kept = np.asarray(memory, np.float32).reshape(kept.shape)
        if not (np.isfinite(batch).all() and np.isfinite(kept).all()):
            raise ValueError("an observation contains NaN or infinity; correct the sensor.")
        if "mean" in self.arrays:
            batch = (batch - self.arrays["mean"]) / self.arrays["scale"]
        out, kept = self.read(batch.astype(np.float32), kept)
        action = self.choose(out, noise).reshape(len(batch), *self.action["shape"])
        return action.astype(self.action["dtype"]), kept

    def read(self, seen: Any, memory: Any) -> tuple[Any, Any]:
        """(the network's outputs for a batch, its memory after it)."""
        layers = self.layers
        x, kept = seen[:, None, :], memory[:, None, :]  # row by row: a batch gives the same bits
        if self.network["channels"]:
            x, layers = self.look(seen)
        elif self.memory:
            (weight, bias), (recurrent, shift), *layers = layers
            given = np.split(x @ weight + bias, 3, axis=-1)
            held = np.split(kept @ recurrent + shift, 3, axis=-1)
            read, keep = sigmoid(given[0] + held[0]), sigmoid(given[1] + held[1])
            kept = keep * kept + (1 - keep) * np.tanh(given[2] + read * held[2])
            x = np.concatenate([x, kept], -1)
        for weight, bias in layers[:-1]:
            x = self.activation(x @ weight + bias)
        weight, bias = layers[-1]
        return (x @ weight)[:, 0] + bias, kept[:, 0]

    def look(self, seen: Any) -> tuple[Any, Any]:
        """(features of the images and the other numbers of a batch, the layers that follow)."""
        layers, count = self.layers, len(self.network["channels"])
        image, first = self.network["image"], self.network["colours_first"]
        if not self.network.get("images"):
            return self.convolve(seen, layers[:count], image, first), layers[count:]
        parts, rest = [], np.ones(self.size, np.bool_)
        for begin, *shape, first in self.network["images"]:
            here = slice(begin, begin + int(np.prod(shape)))
            parts.append(self.convolve(seen[:, here], layers[:count], shape, first))
            rest[here], layers = False, layers[count:]
        return np.concatenate([*parts, seen[:, None, rest]], -1), layers

    def convolve(self, seen: Any, layers: Any, image: Any, first: bool) -> Any:
        """Kernels of 3 x 3 pixels at every second pixel of images, 0 beyond their borders."""
        height, width, colours = image
        x = seen.reshape(-1, height, width, colours)
        if first:
            x = seen.reshape(-1, colours, height, width).transpose(0, 2, 3, 1)
        for weight, bias in layers:
            n, height, width = len(x), (x.shape[1] + 1) // 2, (x.shape[2] + 1) // 2
            x = np.pad(x, ((0, 0), (1, 2), (1, 2), (0, 0)))
            cut = lambda i, j, x=x, h=height, w=width: x[:, i : i + 2 * h : 2, j : j + 2 * w : 2]
            around = np.concatenate([cut(i, j) for i in range(3) for j in range(3)], -1)
            product = around.reshape(n, height * width, -1) @ weight + bias
            x = self.activation(product).reshape(n, height, width, -1)
        return x.reshape(len(x), 1, -1)

    def noise(self, rng: np.random.Generator, count: int = 1) -> Any:
        """The noise [count, k] of each step of `count` parallel episodes."""
        arrays, time = self.arrays, float(self.about.get("noise_time", 0.0))
        size = len(arrays["std"]) if "std" in arrays else int(arrays["sizes"].sum())
        kept = np.float32(np.exp(-1 / time) if time > 0 else 0.0)
        normal = rng.standard_normal((count, size), np.float32)
        while True:
            yield normal if "std" in arrays else gumbel(normal)
            fresh = rng.standard_normal((count, size), np.float32)
            normal = kept * normal + np.sqrt(1 - kept * kept) * fresh

    def choose(self, out: Any, noise: Any) -> Any:
        """Actions for a batch of the network's outputs."""
        arrays = self.arrays
        if "std" in arrays:
            if noise is not None:
                out = out + arrays["std"] * noise
            return np.clip(arrays["middle"] + arrays["half"] * out, arrays["low"], arrays["high"])
        if noise is not None:  # adding Gumbel noise to the scores draws from their softmax
            out = out + noise
        parts = np.split(out, np.cumsum(arrays["sizes"])[:-1], axis=-1)
        return np.stack([part.argmax(-1) for part in parts], -1) + arrays["starts"]
