# SPDX-License-Identifier: Apache-2.0
"""Messages between a batch and its workers: a JSON header and raw arrays over a pipe.

No pickle, no shared memory, no names in the file system: nothing is left behind when a process is
killed, and the end of the pipe tells the other side.
"""

import json
import struct
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

Arrays = dict[str, NDArray[Any]]


class Disconnected(Exception):
    """The other side is gone."""


@dataclass(frozen=True)
class Message:
    """What is said, and the arrays that go with it."""

    head: dict[str, Any]
    arrays: Arrays


def send(pipe: BinaryIO, head: dict[str, Any], arrays: Arrays | None = None) -> None:
    """Write one message; `pipe` is unbuffered."""
    solid: dict[str, Any] = {
        name: np.ascontiguousarray(array) for name, array in (arrays or {}).items()
    }
    layout = [(name, array.dtype.str, array.shape) for name, array in solid.items()]
    text = json.dumps({"head": head, "arrays": layout}).encode()
    try:
        _write(pipe, struct.pack("<Q", len(text)) + text)
        for array in solid.values():
            if array.size:
                _write(pipe, memoryview(array.reshape(-1)).cast("B"))
    except (BrokenPipeError, ValueError) as error:
        raise Disconnected from error


def receive(pipe: BinaryIO) -> Message:
    """Read one message."""
    (length,) = struct.unpack("<Q", _read(pipe, 8))
    decoded = json.loads(bytes(_read(pipe, length)))
    arrays: Arrays = {}
    for name, dtype, shape in decoded["arrays"]:
        count = int(np.prod(shape))
        raw = _read(pipe, count * np.dtype(dtype).itemsize)
        arrays[name] = np.frombuffer(raw, dtype).reshape(shape)
    return Message(decoded["head"], arrays)


def _write(pipe: BinaryIO, data: bytes | memoryview) -> None:
    view = memoryview(data)
    while len(view):
        view = view[pipe.write(view) :]


def _read(pipe: BinaryIO, length: int) -> bytearray:
    """Exactly `length` bytes, in writable memory."""
    data = bytearray(length)
    view, done = memoryview(data), 0
    while done < length:
        count = pipe.readinto(view[done:])  # type: ignore[attr-defined]
        if not count:
            raise Disconnected
        done += count
    return data
