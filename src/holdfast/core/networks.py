# SPDX-License-Identifier: Apache-2.0
"""Networks by kind of observation, one definition for JAX (learning) and NumPy (acting).

    dense         x → layers
    convolutions  image → 3 x 3 kernels at every second pixel, a few times → layers
    joined        (images, x) → convolutions of each image, x as it is, side by side → layers
    memory        (x, m) → m' = GRU(x, m), layers of (x, m'); m is 0 where an episode begins

All parameters are (weight [in, out], bias [out]) pairs: those of the encoder, then the dense
layers. A function takes the array module as `xp`; nothing here imports JAX, so that acting
processes do not need it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

BLOCK = 200
"""Rows in one summand of a weight's gradient."""
KERNEL, STRIDE = 3, 2
GATES = 3
"""Gates of a GRU: reset, update, candidate."""


def affine(rows: Any, weight: Any, bias: Any, xp: Any) -> Any:
    """rows [..., in] @ weight [in, out] + bias, with the same gradient on any number of cores.

    The gradients of weight and bias are sums over all rows. A library splits a long sum by the
    number of cores, so its rounding depends on them. Here every block of rows has its own copy of
    weight and bias. A gradient is a short product for each block, and the sum of these.
    """
    size, wide, out = math.prod(rows.shape[:-1]), *weight.shape
    if xp is np or size <= BLOCK:
        return rows @ weight + bias
    blocks = -(-size // BLOCK)
    flat = rows.reshape(size, wide)
    if blocks * BLOCK > size:
        flat = xp.pad(flat, ((0, blocks * BLOCK - size), (0, 0)))
    each = lambda x: xp.broadcast_to(x, (blocks, *x.shape))
    made = flat.reshape(blocks, BLOCK, wide) @ each(weight)
    made = made + xp.ones((blocks, BLOCK, 1), bias.dtype) @ each(bias[None])
    return made.reshape(blocks * BLOCK, out)[:size].reshape(*rows.shape[:-1], out)


def sigmoid(x: Any, xp: Any) -> Any:
    """1 / (1 + e⁻ˣ) in a form that cannot overflow."""
    return 0.5 * (1 + xp.tanh(0.5 * x))


ACTIVATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "tanh": lambda x, xp: xp.tanh(x),
    "relu": lambda x, xp: xp.maximum(x, 0),
    "elu": lambda x, xp: xp.where(x > 0, x, xp.expm1(xp.minimum(x, 0))),
    "silu": lambda x, xp: x * sigmoid(x, xp),
}


@dataclass(frozen=True)
class Network:
    """The architecture of a network, without its parameters."""

    activation: str = "tanh"
    """Function between layers, one of `ACTIVATIONS`; a GRU's gates have their own."""
    image: tuple[int, ...] = ()
    """(height, width, colours) of an image observation."""
    colours_first: bool = False
    """Whether the colour is the first axis of the image, instead of the last."""
    channels: tuple[int, ...] = ()
    """Number of features of each convolution."""
    images: tuple[tuple[int, int, int, int, bool], ...] = ()
    """Images among other numbers: (first number, height, width, colours, colours first) of each."""
    width: int = 0
    """Size of an observation with `images`."""
    memory: int = 0
    """Size of the memory."""

    @property
    def readers(self) -> int:
        """Number of pairs of parameters before the dense layers."""
        return len(self.channels) * max(1, len(self.images)) or (2 if self.memory else 0)

    @property
    def seen(self) -> tuple[tuple[int, int, int, int, bool], ...]:
        """All images of an observation, each with the index of its first number."""
        height, width, colours = self.image or (0, 0, 0)
        return self.images or ((0, height, width, colours, self.colours_first),)

    @property
    def others(self) -> list[int]:
        """Indices of an observation with `images` that belong to no image."""
        taken = {n for first, h, w, c, _ in self.images for n in range(first, first + h * w * c)}
        return [n for n in range(self.width) if n not in taken]

    def shapes(self, size: int, hidden: Sequence[int], out: int) -> list[tuple[int, int]]:
        """(in, out) of every weight, for observations of `size` numbers."""
        read: list[tuple[int, int]] = []
        if self.channels:
            size = len(self.others)
            for _, height, width, before, _ in self.seen:
                for channels in self.channels:
                    read.append((KERNEL * KERNEL * before, channels))
                    height, width, before = -(-height // STRIDE), -(-width // STRIDE), channels
                size += height * width * before
        elif self.memory:
            read = [(size, GATES * self.memory), (self.memory, GATES * self.memory)]
            size += self.memory
        return [*read, *itertools.pairwise((size, *hidden, out))]

    def __call__(self, layers: Any, rows: Any, xp: Any) -> tuple[Any, Any]:
        """(outputs [..., out], memory after it [..., memory]) of rows [..., O].

        With a memory a row is the observation followed by the memory before it.
        """
        memory = rows[..., rows.shape[-1] - self.memory :]
        if self.images:
            rows = self.joined(layers, rows, xp)
        elif self.channels:
            rows = self.convolved(layers, rows, self.seen[0], xp)
        elif self.memory:
            seen = rows[..., : -self.memory]
            (weight, bias), (recurrent, shift) = layers[:2]
            given = affine(seen, weight, bias, xp)
            kept = affine(memory, recurrent, shift, xp)
            memory = remembered(given, kept, memory, xp)
            rows = xp.concatenate([seen, memory], -1)
        return self.dense(layers, rows, xp), memory

    def joined(self, layers: Any, rows: Any, xp: Any) -> Any:
        """[..., F] features of each image, and the other numbers, of rows [..., O]."""
        each, parts = len(self.channels), list[Any]()
        for i, image in enumerate(self.images):
            first, height, width, colours, _ = image
            pixels = rows[..., first : first + height * width * colours]
            parts.append(self.convolved(layers[i * each :], pixels, image, xp))
        if self.others:
            parts.append(rows[..., xp.asarray(self.others)])
        return xp.concatenate(parts, -1)

    def convolved(
        self, layers: Any, rows: Any, image: tuple[int, int, int, int, bool], xp: Any
    ) -> Any:
        """[..., H·W·C] features of images [..., O]."""
        _, height, width, colours, colours_first = image
        if colours_first:
            x = rows.reshape(-1, colours, height, width).transpose(0, 2, 3, 1)
        else:
            x = rows.reshape(-1, height, width, colours)
        for weight, bias in layers[: len(self.channels)]:
            around = neighbourhoods(x, xp)
            count, height, width, size = around.shape
            made = affine(around.reshape(count, height * width, size), weight, bias, xp)
            x = ACTIVATIONS[self.activation](made, xp).reshape(count, height, width, -1)
        return x.reshape(*rows.shape[:-1], -1)

    def dense(self, layers: Any, x: Any, xp: Any) -> Any:
        """The dense layers; the last is linear."""
        *between, (last, shift) = layers[self.readers :]
        for weight, bias in between:
            x = ACTIVATIONS[self.activation](affine(x, weight, bias, xp), xp)
        return affine(x, last, shift, xp)


DENSE = Network()


def neighbourhoods(x: Any, xp: Any) -> Any:
    """[n, H/2, W/2, 9 C] the 3 x 3 pixels around every second one of x [n, H, W, C], 0 beyond."""
    height, width = (-(-size // STRIDE) for size in x.shape[1:3])
    x = xp.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    shifts = itertools.product(range(KERNEL), repeat=2)
    cut = lambda first, count: slice(first, first + STRIDE * (count - 1) + 1, STRIDE)
    return xp.concatenate([x[:, cut(i, height), cut(j, width)] for i, j in shifts], -1)


def remembered(given: Any, kept: Any, memory: Any, xp: Any) -> Any:
    """m' = z m + (1 − z) tanh(x W + r · (m U)) with gates r, z = σ(x W + m U), biases included."""
    size = memory.shape[-1]
    part = lambda x, i: x[..., i * size : (i + 1) * size]
    read, keep = (sigmoid(part(given, i) + part(kept, i), xp) for i in (0, 1))
    fresh = xp.tanh(part(given, 2) + read * part(kept, 2))
    return keep * memory + (1 - keep) * fresh
