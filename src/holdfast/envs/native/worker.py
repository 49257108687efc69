# SPDX-License-Identifier: Apache-2.0
"""A worker process: it owns a share of a batch and does what its parent asks.

Run as `python -m holdfast.envs.native.worker`. It ends when its parent closes the pipe or dies,
however it dies: idle it sees the end of the pipe, at work it looks for its parent now and then.
"""

import io
import os
import signal
import sys
from typing import Any, BinaryIO, cast

import numpy as np

from holdfast.envs.native.catalogue import lockstep
from holdfast.envs.native.lockstep import LockstepEnv
from holdfast.envs.native.messages import Arrays, Disconnected, Message, receive, send
from holdfast.envs.native.pilot import Pilot


def answer(env: LockstepEnv, message: Message, pipe: BinaryIO) -> tuple[dict[str, Any], Arrays]:
    """Do one thing."""
    head, arrays = message.head, message.arrays
    match head["do"]:
        case "reset":
            return {}, {"obs": env.reset(head["seed"])}
        case "step":
            step = env.step(arrays["action"])
            result = {name: getattr(step, name) for name in ("obs", "reward", "cost")}
            flags = {"terminated": step.terminated, "truncated": step.truncated}
            final = {} if step.obs is step.next_obs else {"next_obs": step.next_obs}
            return {}, result | flags | final | {"costs": env.costs}
        case "collect":
            parent = os.getppid()

            def watch(steps: int) -> None:
                if os.getppid() != parent:
                    raise Disconnected
                send(pipe, {"progress": steps})

            noise = arrays.pop("noise")
            flight = env.collect(Pilot.from_arrays(arrays), noise, watch)
            return {}, flight.to_arrays() | {"last": env.observation}
        case "snapshot":
            return {}, env.snapshot()
        case _:
            return {}, {"obs": env.restore(arrays)}


def serve(source: BinaryIO, sink: BinaryIO) -> None:
    """Make the batch that the first message describes, then answer until the pipe ends."""
    first = receive(source).head
    env = lockstep(first["env_id"], first["num_envs"], tuple(first["constraints"]))
    while True:
        message = receive(source)
        try:
            reply, arrays = answer(env, message, sink)
        except (ValueError, RuntimeError, KeyError) as error:
            reply, arrays = {"error": str(error), "type": type(error).__name__}, {}
        send(sink, reply, arrays)


def main() -> None:
    """Speak over stdin and stdout; anything printed goes to stderr instead."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what Ctrl-C means
    sink = cast(BinaryIO, io.FileIO(os.dup(sys.stdout.fileno()), "w"))
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    source = cast(BinaryIO, io.FileIO(sys.stdin.fileno(), "r", closefd=False))
    np.seterr(all="ignore")
    try:
        serve(source, sink)
    except Disconnected:
        return


if __name__ == "__main__":
    main()
