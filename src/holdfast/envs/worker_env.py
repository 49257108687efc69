# SPDX-License-Identifier: Apache-2.0
"""A batch shared among workers, processes of this machine or actors of a cluster.

Each worker owns consecutive environments. With `collect` they act by themselves for a whole epoch,
without messages at each step; `step` exchanges messages at each step. Results equal those of a
single process bit for bit, for any number and place of workers, and snapshots are interchangeable.
A lost actor is replaced: its successor is restored to the last known state, and the requests since
then are repeated.
"""

import itertools
import logging
import weakref
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.envs.acting import Actor, Float32
from holdfast.envs.base import (
    Floats,
    NotReproducible,
    OnProgress,
    Snapshot,
    Step,
    VecEnv,
    actions_of,
    require_reset,
)
from holdfast.envs.failure import EnvFailure
from holdfast.envs.rollout import Collecting, Playing, Rollout, Round, check_noise
from holdfast.envs.worker import (
    STEP_FIELDS,
    Arrays,
    Disconnected,
    Message,
    Peer,
    Process,
    Start,
    pickled,
    stop,
)

LOSSES = 5
"""How often a worker is replaced before a request fails."""

Request = tuple[dict[str, Any], Arrays]
OpenShare = Callable[[int, int], VecEnv]
"""(first, count) -> a batch in this process of the environments first, ..., first + count - 1."""


def shares(num_envs: int, workers: int) -> list[slice]:
    """Consecutive environments, as evenly as possible."""
    bounds = np.linspace(0, num_envs, workers + 1).round().astype(int)
    return [slice(int(a), int(b)) for a, b in itertools.pairwise(bounds)]


class WorkerEnv(Collecting, Playing):
    """N environments of several workers."""

    can_snapshot = True

    def __init__(
        self,
        label: str,
        model: VecEnv,
        num_envs: int,
        workers: int,
        open_share: OpenShare,
        start: Start | None = None,
    ) -> None:
        """`model` is a batch of the same kind in this process, which defines the spaces.

        `start` makes workers that can be replaced; without it they are processes here.
        """
        self.label, self.cost_names, self.num_envs = label, model.cost_names, num_envs
        self.observation_space, self.action_space = model.observation_space, model.action_space
        self._action_shape = (num_envs, *(self.action_space.shape or ()))
        self._shares = shares(num_envs, min(workers, num_envs))
        self.facts = replace(model.facts, workers=len(self._shares))
        self._replaces = start is not None
        self._start, self._open_share = start or Process, open_share
        self._peers: list[Peer] = []
        # Also runs when the batch is forgotten or the interpreter ends: no worker is left behind.
        self._finalizer = weakref.finalize(self, stop, self._peers)
        self._obs: Floats | None = None
        self._since: list[list[Request]] = []
        """Requests since the last known state, which is the first entry."""
        try:
            for index in range(len(self._shares)):
                self._peers.append(self._begin(index))
            answers = [self._answer(i) or self._replaced(i) for i in range(len(self._shares))]
        except BaseException:
            self.close()
            raise
        self._refuse_failures(answers)

    def reset(self, seed: int) -> Floats:
        """Start all episodes anew, environment i seeded with `seed + i`."""
        if seed < 0:
            raise ValueError(f"seed={seed} must not be negative; choose 0 or above.")
        heads = [{"do": "reset", "seed": seed + share.start} for share in self._shares]
        self._since = []
        self._obs = _joined(self._request(heads), "obs")
        return self._obs.copy()

    def step(self, action: NDArray[Any]) -> Step:
        """Advance all by one step."""
        self._started()
        action = actions_of(self.label, action, self._action_shape)
        given: list[Arrays] = [{"action": action[share]} for share in self._shares]
        answers = self._request([{"do": "step"}] * len(given), given)
        parts = {name: _joined(answers, name) for name in STEP_FIELDS}
        next_obs = parts["obs"]
        if any("next_obs" in answer for answer in answers):
            next_obs = np.concatenate([answer.get("next_obs", answer["obs"]) for answer in answers])
        self._obs = parts["obs"]
        return Step(next_obs=next_obs, **parts)

    def collect(
        self,
        actor: Actor,
        noise: Float32,
        on_progress: OnProgress | None = None,
        memory: Float32 | None = None,
    ) -> Rollout:
        """Let every worker act by itself for noise.shape[0] steps; noise [T, N, A]."""
        self._started()
        check_noise(noise, self.num_envs, actor)
        policy, kept = pickled(actor), actor.blank(self.num_envs) if memory is None else memory
        given: list[Arrays] = [
            {"actor": policy, "noise": noise[:, share], "memory": kept[share]}
            for share in self._shares
        ]
        answers = self._request([{"do": "collect"}] * len(given), given, on_progress)
        self._obs = np.concatenate([answer.pop("last") for answer in answers])
        return Rollout.join(answers)

    def play_round(self, actor: Actor, wanted: Round) -> NDArray[np.float64]:
        """Let every worker run its environments' episodes; the batch needs a reset afterwards."""
        self._obs, self._since = None, []
        parts = [replace(wanted, first=wanted.first + share.start) for share in self._shares]
        heads = [{"do": "play", "round": asdict(part)} for part in parts]
        return _joined(self._request(heads, [{"actor": pickled(actor)}] * len(heads)), "rows")

    @property
    def observation(self) -> Floats:
        """[N, O] current observations."""
        return self._started().copy()

    def snapshot(self) -> Snapshot:
        """The whole state, as named arrays with a row for each environment."""
        self._started()
        answers = self._request([{"do": "snapshot"}] * len(self._shares))
        if self._replaces:
            self._since = [[({"do": "restore"}, answer) for answer in answers]]
        return {name: _joined(answers, name) for name in answers[0]}

    def restore(self, snapshot: Snapshot) -> Floats:
        """Continue from a snapshot of any number of workers, bit for bit."""
        wrong = [name for name, array in snapshot.items() if len(array) != self.num_envs]
        if wrong or not snapshot:
            raise ValueError(
                f"the snapshot is not one of {self.num_envs} environments: make the batch with the "
                "number in the snapshot."
            )
        given = [{name: array[share] for name, array in snapshot.items()} for share in self._shares]
        self._since = []
        self._obs = _joined(self._request([{"do": "restore"}] * len(given), given), "obs")
        return self._obs.copy()

    def close(self) -> None:
        """End the workers."""
        self._finalizer()

    def _started(self) -> Floats:
        return require_reset(self._obs, self.label)

    def _request(
        self,
        heads: list[dict[str, Any]],
        arrays: list[Arrays] | None = None,
        on_progress: OnProgress | None = None,
    ) -> list[Arrays]:
        """Send a request to all workers, then read all answers, in the order of their
        environments.
        """
        if not self._finalizer.alive:
            raise RuntimeError(
                f"{self.label} is closed (by close(), an interrupt or an earlier failure): make a "
                "new batch."
            )
        requests: list[Request] = list(zip(heads, arrays or [{}] * len(heads), strict=True))
        try:
            for peer, request in zip(self._peers, requests, strict=True):
                peer.request(*request)
            answers = [self._answer(i, on_progress) for i in range(len(self._shares))]
            found = [
                message or self._replaced(i, requests[i], on_progress)
                for i, message in enumerate(answers)
            ]
        except BaseException:
            # Unread answers would be taken for those of the next step: nothing can be saved here.
            self.close()
            raise
        self._refuse_failures(found)
        if self._replaces:
            self._since.append(requests)
        return [message.arrays for message in found]

    def _begin(self, index: int) -> Peer:
        share = self._shares[index]
        return self._start(partial(self._open_share, share.start, share.stop - share.start))

    def _answer(self, index: int, on_progress: OnProgress | None = None) -> Message | None:
        """A worker's answer; None if it is lost and can be replaced.

        The progress of the first worker is reported for all.
        """
        scaled: OnProgress | None = None
        if on_progress is not None and index == 0:
            first = self._shares[0].stop
            scaled = lambda steps: on_progress(steps * self.num_envs // first)
        try:
            return self._peers[index].answer(scaled)
        except Disconnected:
            if not self._replaces:
                raise self._loss(index) from None
            return None

    def _replaced(
        self,
        index: int,
        request: Request | None = None,
        on_progress: OnProgress | None = None,
    ) -> Message:
        """Replace a lost worker by another one in the same state; returns its answer."""
        steps = [asked[index] for asked in self._since] + ([request] if request else [])
        for _ in range(LOSSES):
            logging.getLogger("holdfast").warning(
                "the %s was lost (%s); another one takes its place and repeats its part.",
                self._name(index),
                self._peers[index].exit_reason(),
            )
            stop([self._peers[index]])
            self._peers[index] = self._begin(index)
            answer = self._answer(index)
            for step in steps:
                if answer is None or "error" in answer.head:
                    break
                self._peers[index].request(*step)
                answer = self._answer(index, on_progress)
            if answer is not None:
                return answer
        raise self._loss(index)

    def _refuse_failures(self, answers: list[Message]) -> None:
        """Raise a worker's error: bad input unchanged, an environment's error with its place."""
        for index, message in enumerate(answers):
            head = message.head
            if "error" not in head:
                continue
            if head["kind"] == "NotReproducible":
                raise NotReproducible(head["error"])
            if head["kind"] == "ValueError" and not head["inside"]:
                raise ValueError(head["error"])
            self.close()
            if head["kind"] == EnvFailure.__name__:
                error: RuntimeError = EnvFailure(head["error"])
            else:
                error = RuntimeError(f"{head['kind']}: {head['error']} [{self._name(index)}]")
            error.add_note(head["traceback"])
            raise error

    def _loss(self, index: int) -> RuntimeError:
        return RuntimeError(
            f"the {self._name(index)} of {self.label} ended unexpectedly "
            f"{self._peers[index].exit_reason()}; if it ran out of memory use fewer environments "
            "or workers, and workers=1 keeps all in this process."
        )

    def _name(self, index: int) -> str:
        first, last = self._shares[index].start, self._shares[index].stop - 1
        which = f"environment {first}" if first == last else f"environments {first}-{last}"
        return f"worker {'' if self._replaces else 'process '}of {which}"


def _joined(answers: list[Arrays], name: str) -> NDArray[Any]:
    """Rows of all shares; shorter records of actions are padded at the front."""
    parts = [answer[name] for answer in answers]
    kind = next((part.dtype for part in parts if part.size), parts[0].dtype)
    parts = [part if part.size else part.astype(kind) for part in parts]
    if parts[0].ndim > 1 and len({part.shape[1] for part in parts}) > 1:
        most = max(part.shape[1] for part in parts)
        rest = [(0, 0)] * (parts[0].ndim - 2)
        parts = [np.pad(p, [(0, 0), (most - p.shape[1], 0), *rest]) for p in parts]
    return np.concatenate(parts)
