# SPDX-License-Identifier: Apache-2.0
"""A worker: it owns a share of a batch and answers requests, in a process or a Ray actor.

`Worker` runs there, `Peer` is its interface for the batch, `Process` is a peer on this machine.

As a process it ends when its parent closes the pipe or dies in any way. An idle worker detects the
end of the pipe; a busy one checks for its parent from time to time. A message is a JSON header and
arrays. There is no shared memory and no name in the file system, so nothing remains when a process
is killed, and the other side detects the end of the pipe. Pickles, sent as arrays, go only towards
the worker: the function that opens its share, and the policy.
"""

import io
import json
import os
import signal
import struct
import subprocess
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, BinaryIO, Protocol, cast

import cloudpickle
import numpy as np
from numpy.typing import NDArray

from holdfast.envs.acting import Arrays
from holdfast.envs.base import Floats, OnProgress, VecEnv
from holdfast.envs.rollout import Round, collect, play_round
from holdfast.process import THREADS

STEP_FIELDS = ("obs", "reward", "cost", "terminated", "truncated")
"""Step fields sent over the pipe; `next_obs` is sent only for rows in which it differs."""


class Disconnected(Exception):
    """The other side has closed the pipe."""


@dataclass(frozen=True)
class Message:
    """A message: its header and its arrays."""

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


def pickled(thing: object) -> NDArray[np.uint8]:
    """An object as bytes for a worker."""
    return np.frombuffer(cloudpickle.dumps(thing), np.uint8)


def unsendable(thing: object) -> Exception | None:
    """The reason why it cannot be sent to another process (files, locks, simulators), if any."""
    try:
        pickled(thing)
    except Exception as error:
        return error
    return None


def unpickled(array: NDArray[np.uint8]) -> Any:
    """The inverse of `pickled`."""
    return cloudpickle.loads(array.tobytes())


class Worker:
    """Opens its share of a batch with the function in the first message, then answers requests."""

    def __init__(self, on_progress: OnProgress) -> None:
        self.on_progress = on_progress
        self.env: VecEnv | None = None
        self.obs: Floats = np.zeros((0, 0))

    def answer(self, message: Message) -> Message:
        """The answer to a request; an error is an answer, too."""
        try:
            return Message({}, self._done(message))
        except Disconnected:
            raise
        except Exception as error:
            return Message(failure(error), {})

    def _done(self, message: Message) -> Arrays:
        env, arrays = self.env, message.arrays
        if env is None:
            self.env = unpickled(arrays["open_share"])()
            return {}
        match message.head["do"]:
            case "reset":
                self.obs = env.reset(message.head["seed"])
                return {"obs": self.obs}
            case "step":
                step = env.step(arrays["action"])
                self.obs = step.obs
                final = {} if step.obs is step.next_obs else {"next_obs": step.next_obs}
                return {name: getattr(step, name) for name in STEP_FIELDS} | final
            case "collect":
                actor, noise = unpickled(arrays["actor"]), arrays["noise"]
                rollout, self.obs, _ = collect(
                    env, self.obs, actor, noise,
                    memory=arrays["memory"], on_progress=self.on_progress,
                )  # fmt: skip
                return rollout.to_arrays() | {"last": self.obs}
            case "play":
                actor, wanted = unpickled(arrays["actor"]), Round(**message.head["round"])
                return {"rows": play_round(env, actor, wanted, self.on_progress)}
            case "snapshot":
                return env.snapshot()
            case "restore":
                self.obs = env.restore(arrays)
                return {"obs": self.obs}
            case unknown:
                raise ValueError(
                    f"a worker received the unknown request '{unknown}'; run the same "
                    "version of Holdfast in all processes."
                )

    def close(self) -> None:
        if self.env is not None:
            self.env.close()


def serve(source: BinaryIO, sink: BinaryIO) -> None:
    """Answer requests until the pipe ends."""
    parent = os.getppid()

    def on_progress(steps: int) -> None:
        if os.getppid() != parent:
            raise Disconnected
        send(sink, {"progress": steps})

    worker = Worker(on_progress)
    try:
        while True:
            answer = worker.answer(receive(source))
            send(sink, answer.head, answer.arrays)
    except Disconnected:
        return
    finally:
        worker.close()


def failure(error: Exception) -> dict[str, Any]:
    """An error as an answer."""
    notes = " ".join(getattr(error, "__notes__", ()))
    return {
        "error": f"{error} {notes}".rstrip(),
        "inside": bool(notes),  # a note contains the environment
        "kind": type(error).__name__,
        "traceback": "".join(traceback.format_exception(error)),
    }


def main() -> None:
    """Exchange messages over stdin and stdout; prints of environments go to stderr."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what Ctrl-C means
    sink = cast(BinaryIO, io.FileIO(os.dup(sys.stdout.fileno()), "w"))
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    source = cast(BinaryIO, io.FileIO(sys.stdin.fileno(), "r", closefd=False))
    serve(source, sink)


GRACE = 5.0
"""Seconds for a worker to close its environments and exit."""
SINGLE = dict.fromkeys(THREADS, "1")
# A fresh interpreter inherits neither threads nor accelerator state (a fork would) and does not run
# the user's main script again (multiprocessing's spawn would).
BOOT = (
    "import sys, json; sys.path[:] = json.loads(sys.argv.pop()); "
    "from holdfast.envs.worker import main; main()"
)


class Peer(Protocol):
    """The interface of a worker for its batch."""

    def request(self, head: dict[str, Any], arrays: Arrays) -> None:
        """Send a request; a lost worker is noticed when its answer is read."""
        ...

    def answer(self, on_progress: OnProgress | None) -> Message:
        """Its answer; raises `Disconnected` if the worker is lost."""
        ...

    def exit_reason(self) -> str:
        """Its exit reason, for the end of a sentence."""
        ...

    def request_stop(self) -> None:
        """Request it to stop."""
        ...

    def join(self) -> None:
        """Wait until it has ended."""
        ...


Start = Callable[[Callable[[], VecEnv]], Peer]
"""Starts a worker for the share that the function opens; it answers once the share is open."""


class Process:
    """A worker process on one thread."""

    def __init__(self, open_share: Callable[[], VecEnv]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", BOOT, json.dumps([str(path) for path in sys.path])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            env=os.environ | SINGLE,
            start_new_session=True,  # a terminal's Ctrl-C reaches the parent only
        )
        self.request({}, {"open_share": pickled(open_share)})

    def request(self, head: dict[str, Any], arrays: Arrays) -> None:
        with suppress(Disconnected):
            send(cast(BinaryIO, self.process.stdin), head, arrays)

    def answer(self, on_progress: OnProgress | None) -> Message:
        while True:
            message = receive(cast(BinaryIO, self.process.stdout))
            if "progress" not in message.head:
                return message
            if on_progress is not None:
                on_progress(message.head["progress"])

    def exit_reason(self) -> str:
        return f"with exit code {self.process.wait(timeout=10)}: see its output on stderr"

    def request_stop(self) -> None:
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()

    def join(self) -> None:
        try:
            self.process.wait(GRACE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def stop(peers: list[Peer]) -> None:
    """End all workers; kill those that do not stop."""
    for peer in peers:
        peer.request_stop()
    for peer in peers:
        peer.join()
    peers.clear()
