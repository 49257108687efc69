# SPDX-License-Identifier: Apache-2.0
"""A worker as its batch sees it, and the one that is a process of this machine."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any, BinaryIO, Protocol, cast

import cloudpickle
import numpy as np

from holdfast.envs.base import OnProgress, VecEnv
from holdfast.envs.worker import Arrays, Disconnected, Message, receive, send

GRACE = 5.0
"""Seconds a worker gets to close its environments and leave."""
SINGLE = {name: "1" for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")}
# A fresh interpreter inherits neither threads nor accelerator state (a fork would) and does not run
# the user's main script again (multiprocessing's spawn would).
BOOT = (
    "import sys, json; sys.path[:] = json.loads(sys.argv.pop()); "
    "from holdfast.envs.worker import main; main()"
)


class Peer(Protocol):
    """A worker as its batch sees it; `Disconnected` is raised when it is gone."""

    def tell(self, head: dict[str, Any], arrays: Arrays) -> None: ...

    def hear(self, on_progress: OnProgress | None) -> Message: ...

    def fate(self) -> str:
        """How it ended, for the end of a sentence."""
        ...

    def leave(self) -> None:
        """Ask it to end."""
        ...

    def end(self) -> None:
        """See that it has ended."""
        ...


Start = Callable[[Callable[[], VecEnv]], Peer]
"""Starts a worker of the share that the function opens; it answers when it is open."""


class Process:
    """A worker process on one thread. Only the function is pickled, and only towards it."""

    def __init__(self, open_share: Callable[[], VecEnv]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", BOOT, json.dumps([str(path) for path in sys.path])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            env=os.environ | SINGLE,
            start_new_session=True,  # a terminal's Ctrl-C reaches the parent only
        )
        try:
            self.tell({}, {"open_share": np.frombuffer(cloudpickle.dumps(open_share), np.uint8)})
        except Disconnected:
            pass  # it died at once; asking for its answer tells

    def tell(self, head: dict[str, Any], arrays: Arrays) -> None:
        send(cast(BinaryIO, self.process.stdin), head, arrays)

    def hear(self, on_progress: OnProgress | None) -> Message:
        while True:
            message = receive(cast(BinaryIO, self.process.stdout))
            if "progress" not in message.head:
                return message
            if on_progress is not None:
                on_progress(message.head["progress"])

    def fate(self) -> str:
        return f"with exit code {self.process.wait(timeout=10)}: what it wrote to stderr says more"

    def leave(self) -> None:
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()

    def end(self) -> None:
        try:
            self.process.wait(GRACE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def stop(peers: list[Peer]) -> None:
    """End all workers; insist where one does not."""
    for peer in peers:
        peer.leave()
    for peer in peers:
        peer.end()
    peers.clear()
