# SPDX-License-Identifier: Apache-2.0
"""Messages between a batch and its workers: length, kind, bytes, over a pair of pipes.

Arrays travel as raw bytes in an agreed layout. Only the opening message, from parent to worker, is
pickled: it carries the factory. Nothing is ever unpickled from a file or by the parent.
"""

import struct
from dataclasses import fields
from typing import BinaryIO

import numpy as np

from holdfast.envs.base import Step

_HEADER = struct.Struct("<cQ")

OPEN, RESET, STEP, RESTORE, FAILED = b"O", b"R", b"S", b"B", b"F"
STEP_FIELDS = tuple(field.name for field in fields(Step))


def send(pipe: BinaryIO, kind: bytes, body: bytes = b"") -> None:
    pipe.write(_HEADER.pack(kind, len(body)) + body)
    pipe.flush()


def receive(pipe: BinaryIO) -> tuple[bytes, bytes]:
    """The next message; EOFError where the other side is gone."""
    kind, size = _HEADER.unpack(_exactly(pipe, _HEADER.size))
    return kind, _exactly(pipe, size)


def pack_step(step: Step) -> bytes:
    return b"".join(getattr(step, name).tobytes() for name in STEP_FIELDS)


def unpack_step(body: bytes, count: int, obs_size: int, obs_dtype: np.dtype, costs: int) -> Step:
    """The inverse of `pack_step`, for `count` environments; the arrays are views of `body`."""
    shapes = {"obs": (count, obs_size), "next_obs": (count, obs_size), "cost": (count, costs)}
    arrays, offset = {}, 0
    for name in STEP_FIELDS:
        shape = shapes.get(name, (count,))
        flag, observed = name in ("terminated", "truncated"), name in ("obs", "next_obs")
        dtype = np.dtype(np.bool_) if flag else obs_dtype if observed else np.dtype(np.float64)
        size = int(np.prod(shape))
        arrays[name] = np.frombuffer(body, dtype, size, offset).reshape(shape)
        offset += size * dtype.itemsize
    return Step(**arrays)


def _exactly(pipe: BinaryIO, size: int) -> bytes:
    body = pipe.read(size)
    if len(body) < size:
        raise EOFError("the other end of the pipe is closed")
    return body
