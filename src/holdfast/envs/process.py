# SPDX-License-Identifier: Apache-2.0
"""Environments in worker processes: each owns a contiguous share, all step at the same time."""

import json
import subprocess
import sys
import weakref
from dataclasses import dataclass
from typing import Any, BinaryIO, cast

import cloudpickle
import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save as save_arrays

from holdfast.envs.base import Floats, Snapshot, Step
from holdfast.envs.opening import EnvSource, Layout
from holdfast.envs.spaces import dtype_of
from holdfast.envs.wire import (
    FAILED,
    OPEN,
    RESET,
    RESTORE,
    STEP,
    STEP_FIELDS,
    receive,
    send,
    unpack_step,
)

_BOOT = (
    "import sys, json; sys.path[:] = json.loads(sys.argv.pop()); "
    "from holdfast.envs.worker import main; main()"
)


@dataclass(frozen=True)
class _Worker:
    process: subprocess.Popen[bytes]
    requests: BinaryIO
    replies: BinaryIO
    first: int
    count: int

    @property
    def name(self) -> str:
        last = self.first + self.count - 1
        which = f"environment {last}" if self.count == 1 else f"environments {self.first}-{last}"
        return f"worker process of {which}"


class Workers:
    """The same interface as `Share`, over several processes."""

    def __init__(self, source: EnvSource, layout: Layout, num_envs: int, workers: int) -> None:
        self._layout = layout
        shares = [len(part) for part in np.array_split(np.arange(num_envs), workers)]
        starts = np.concatenate([[0], np.cumsum(shares)[:-1]])
        self._workers: list[_Worker] = []
        # Also runs when the batch is forgotten or the interpreter ends: no process is left behind.
        self._close = weakref.finalize(self, _shut_down, self._workers)
        try:
            for first, count in zip(starts.tolist(), shares, strict=True):
                self._workers.append(_start(first, count))
            openings = [
                cloudpickle.dumps((source, layout, w.first, w.count)) for w in self._workers
            ]
            self._exchange(OPEN, openings)
        except BaseException:
            self._close()
            raise

    def reset(self, seed: int) -> Floats:
        return self._observations(RESET, [str(seed).encode()] * len(self._workers))

    def restore(self, saved: Snapshot) -> Floats:
        """Each worker plays the episodes of its share again."""
        parts = [slice(w.first, w.first + w.count) for w in self._workers]
        cut = lambda part: {k: np.ascontiguousarray(v[part]) for k, v in saved.items()}
        return self._observations(RESTORE, [save_arrays(cut(part)) for part in parts])

    def _observations(self, kind: bytes, requests: list[bytes]) -> Floats:
        space, bodies = self._layout.observation_space, self._exchange(kind, requests)
        flat: Floats = np.frombuffer(bytearray().join(bodies), dtype_of(space))
        return flat.reshape(-1, *space.shape)

    def step(self, action: NDArray[Any]) -> Step:
        requests: list[bytes] = []
        for worker in self._workers:
            part = np.ascontiguousarray(action[worker.first : worker.first + worker.count])
            header = json.dumps({"dtype": part.dtype.str, "shape": part.shape}).encode()
            requests.append(header + b"\n" + part.tobytes())
        space, costs = self._layout.observation_space, len(self._layout.cost.names)
        parts = [
            unpack_step(body, worker.count, space.shape[0], np.dtype(dtype_of(space)), costs)
            for worker, body in zip(self._workers, self._exchange(STEP, requests), strict=True)
        ]
        return Step(*(np.concatenate([getattr(p, name) for p in parts]) for name in STEP_FIELDS))

    def close(self) -> None:
        self._close()

    def _exchange(self, kind: bytes, requests: list[bytes]) -> list[bytes]:
        """Ask all workers, then collect all answers, so that they work at the same time."""
        if not self._close.alive:
            raise RuntimeError(
                f"Env {self._layout.label} is closed (by close(), an interrupt or an earlier "
                "failure): make a new one."
            )
        try:
            for worker, request in zip(self._workers, requests, strict=True):
                _ask(worker, kind, request)
            return [self._collect(worker) for worker in self._workers]
        except BaseException:
            # Unread answers would be taken for those of the next step: nothing can be saved here.
            self._close()
            raise

    def _collect(self, worker: _Worker) -> bytes:
        try:
            kind, body = receive(worker.replies)
        except EOFError:
            raise _died(worker) from None
        if kind == FAILED:
            failure = json.loads(body)
            error = RuntimeError(f"{failure['summary']} [{worker.name}]")
            error.add_note(failure["traceback"])
            raise error
        return body


def _start(first: int, count: int) -> _Worker:
    process = subprocess.Popen(
        [sys.executable, "-c", _BOOT, json.dumps([str(path) for path in sys.path])],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,  # a terminal's Ctrl-C reaches the parent only
    )
    requests, replies = cast("BinaryIO", process.stdin), cast("BinaryIO", process.stdout)
    return _Worker(process, requests, replies, first, count)


def _ask(worker: _Worker, kind: bytes, request: bytes) -> None:
    try:
        send(worker.requests, kind, request)
    except BrokenPipeError:
        raise _died(worker) from None


def _died(worker: _Worker) -> RuntimeError:
    code = worker.process.wait(timeout=10)
    return RuntimeError(
        f"the {worker.name} ended unexpectedly with exit code {code}: "
        "what it wrote to stderr says more; vectorise='sync' runs the environments in this process."
    )


def _shut_down(workers: list[_Worker]) -> None:
    """End of input tells a worker to close its environments and leave; it gets five seconds."""
    for worker in workers:
        try:
            worker.requests.close()
        except BrokenPipeError:
            pass  # it is gone already
    for worker in workers:
        worker.replies.close()
        try:
            worker.process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            worker.process.kill()
            worker.process.wait()
    workers.clear()
