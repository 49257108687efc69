# SPDX-License-Identifier: Apache-2.0
"""Workers as actors of a Ray cluster: one run over many machines.

An actor that is lost, with its process or its machine, is replaced on any machine with room.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from holdfast.cluster.ray import connect, first_line, refuse_versions
from holdfast.envs.base import OnProgress, VecEnv
from holdfast.envs.worker import (
    SINGLE,
    Arrays,
    Disconnected,
    Message,
    Peer,
    Worker,
    failure,
    pickled,
)
from holdfast.process import versions

LOOK = 0.5
"""Seconds between two requests for an actor's progress."""
PATIENCE = 30.0
"""Seconds after which a message reports an actor that has not started."""


class Hosted:
    """The object in the actor; `steps` is called during a long request."""

    def __init__(self) -> None:
        self.done = 0
        self.worker = Worker(self._note)

    def _note(self, steps: int) -> None:
        self.done = steps

    def steps(self) -> int:
        return self.done

    def answer(self, head: dict[str, Any], arrays: Arrays) -> tuple[dict[str, Any], Arrays]:
        if "versions" in head:  # of the first message
            try:
                refuse_versions(head["versions"])
            except ValueError as error:
                return failure(error), {}
        self.done = 0
        # What comes through Ray is read-only and shared.
        answer = self.worker.answer(Message(head, {k: np.array(v) for k, v in arrays.items()}))
        return answer.head, answer.arrays


class RayPeer:
    """One worker on the cluster."""

    def __init__(self, ray: Any, open_share: Callable[[], VecEnv]) -> None:
        self.ray = ray
        options: dict[str, Any] = {
            "num_cpus": 1,
            "max_concurrency": 2,
            "scheduling_strategy": "SPREAD",
            "runtime_env": {"env_vars": SINGLE},
        }
        self.actor = ray.remote(**options)(Hosted).remote()
        self.pending: Any = None
        self.reason = "by Ray"
        self.asked = time.monotonic()
        self.request({"versions": versions()}, {"open_share": pickled(open_share)})

    def request(self, head: dict[str, Any], arrays: Arrays) -> None:
        try:
            self.pending = self.actor.answer.remote(head, arrays)
        except self.ray.exceptions.RayError as error:
            self.pending, self.reason = None, first_line(error)

    def answer(self, on_progress: OnProgress | None) -> Message:
        if self.pending is None:
            raise Disconnected
        try:
            while not self.ray.wait([self.pending], timeout=LOOK)[0]:
                self._report_waiting()
                if on_progress is not None:
                    on_progress(self.ray.get(self.actor.steps.remote()))
            self.asked = math.inf
            return Message(*self.ray.get(self.pending))
        except self.ray.exceptions.RayError as error:
            self.reason = first_line(error)
            raise Disconnected from error

    def _report_waiting(self) -> None:
        """Report an actor that has never answered, once."""
        if time.monotonic() - self.asked > PATIENCE:
            self.asked = math.inf
            logging.getLogger("holdfast").warning(
                "a worker has not started after %g s: the cluster may have no free core for it "
                "(see `ray status`); it starts as soon as there is one.",
                PATIENCE,
            )

    def exit_reason(self) -> str:
        return f"on the cluster ({self.reason})"

    def request_stop(self) -> None:
        if self.ray.is_initialized():
            self.ray.kill(self.actor)

    def join(self) -> None:
        """Nothing to do: Ray ends the actor."""


def on_cluster(address: str, workers: int) -> Callable[[Callable[[], VecEnv]], Peer]:
    """Starts workers on the cluster at an address, if it has room for so many."""
    ray = connect(address)
    cores = int(ray.cluster_resources().get("CPU", 0))
    if workers > cores:
        raise ValueError(
            f"the cluster at '{address}' has {cores} cores, and {workers} workers need one each: "
            f"give --workers {max(cores, 1)}, or let more machines join."
        )
    return lambda open_share: RayPeer(ray, open_share)
