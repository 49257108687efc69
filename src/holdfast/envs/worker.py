# SPDX-License-Identifier: Apache-2.0
"""The program of one worker process: open a share of environments, then answer until the pipe ends.

It is started as a fresh interpreter, so that it inherits neither threads nor accelerator state (a
fork would), and without running the user's main script again (multiprocessing's spawn would).
"""

import json
import os
import signal
import sys
import traceback
from typing import Any, BinaryIO, cast

import cloudpickle
import numpy as np
from safetensors.numpy import load as load_arrays

from holdfast.envs.opening import Layout, open_env
from holdfast.envs.share import Share
from holdfast.envs.wire import FAILED, OPEN, RESET, RESTORE, STEP, pack_step, receive, send


def main() -> None:
    """Serve the parent over what were stdin and stdout."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    requests = cast("BinaryIO", sys.stdin.buffer)
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what environments print must not get between the messages
    share = None
    try:
        while True:
            kind, body = receive(requests)
            try:
                if kind == OPEN:
                    share = _open(body)
                    reply = b""
                else:
                    assert share is not None
                    reply = _answer(share, kind, body)
            except Exception as error:
                send(replies, FAILED, _failure(error))
            else:
                send(replies, kind, reply)
    except (EOFError, BrokenPipeError):
        pass  # the parent closed the pipe or is gone
    finally:
        if share is not None:
            share.close()


def _open(body: bytes) -> Share:
    source, layout, first, count = cast("tuple[Any, Layout, int, int]", cloudpickle.loads(body))
    share = Share([open_env(source) for _ in range(count)], layout, first)
    return share


def _answer(share: Share, kind: bytes, body: bytes) -> bytes:
    if kind == RESET:
        return share.reset(int(body)).tobytes()
    if kind == RESTORE:
        return share.restore(load_arrays(body)).tobytes()
    assert kind == STEP
    header, _, raw = body.partition(b"\n")
    described = json.loads(header)
    action = np.frombuffer(raw, described["dtype"]).reshape(described["shape"])
    return pack_step(share.step(action))


def _failure(error: Exception) -> bytes:
    notes = " ".join(getattr(error, "__notes__", ()))
    summary = f"{type(error).__name__}: {error} {notes}".rstrip()
    text = "".join(traceback.format_exception(error))
    return json.dumps({"summary": summary, "traceback": text}).encode()
