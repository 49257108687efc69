# SPDX-License-Identifier: Apache-2.0
"""A batch shared among worker processes.

Each worker owns consecutive environments. `collect` lets them act by themselves for a whole epoch,
without a hand-over per step; `step` keeps all in lockstep, at the price of one. Results equal those
of a single process bit for bit, whatever the number of workers, and snapshots are interchangeable.
"""

import itertools
import os
import subprocess
import sys
import weakref
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.envs.base import Snapshot, Step
from holdfast.envs.native.epoch import Epoch, Watch, check_noise
from holdfast.envs.native.lockstep import LockstepEnv, check_action
from holdfast.envs.native.messages import Arrays, Disconnected, Message, receive, send
from holdfast.envs.native.pilot import Float32, Pilot
from holdfast.envs.native.simulation import Array

Process = subprocess.Popen[bytes]
GRACE = 2.0
"""Seconds an idle worker gets to end by itself."""


def start(env_id: str, num_envs: int, constraints: tuple[str, ...]) -> Process:
    """One worker, which imports the same package and keeps to one thread."""
    source = str(Path(__file__).resolve().parents[3])
    path = os.pathsep.join(part for part in (source, os.environ.get("PYTHONPATH", "")) if part)
    single = {name: "1" for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")}
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "holdfast.envs.native.worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        bufsize=0,
        env=os.environ | single | {"PYTHONPATH": path},
    )
    head = {"env_id": env_id, "num_envs": num_envs, "constraints": constraints}
    send(process.stdin, head)  # type: ignore[arg-type]
    return process


def stop(processes: list[Process]) -> None:
    """Close the pipes, which ends the workers; insist where one does not."""
    for process in processes:
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
    for process in processes:
        try:
            process.wait(GRACE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def shares(num_envs: int, workers: int) -> list[slice]:
    """Consecutive environments, as evenly as possible."""
    bounds = np.linspace(0, num_envs, workers + 1).round().astype(int)
    return [slice(int(a), int(b)) for a, b in itertools.pairwise(bounds)]


class WorkerEnv:
    """N environments of one native task in several processes."""

    can_snapshot = True

    def __init__(self, model: LockstepEnv, num_envs: int, workers: int) -> None:
        """`model` is a batch of the same task with one environment: it knows the spaces."""
        self.env_id, self.cost_names, self.num_envs = model.env_id, model.cost_names, num_envs
        self.observation_space, self.action_space = model.observation_space, model.action_space
        self.cost_bounds, self.time_limit = model.cost_bounds, model.time_limit
        self.cost_keys = model.simulation.cost_keys
        self._shares = shares(num_envs, min(workers, num_envs))
        self._processes: list[Process] = []
        self._finalizer = weakref.finalize(self, stop, self._processes)
        for share in self._shares:
            size = share.stop - share.start
            self._processes.append(start(model.env_id, size, model.cost_names))
        self._actions = len(model.simulation.action_low)
        self._obs: Array | None = None

    def _tell(self, index: int, head: dict[str, Any], arrays: Arrays | None = None) -> None:
        if not self._finalizer.alive:
            raise ValueError(f"{self.env_id} was used after close(); make a new batch.")
        try:
            send(self._processes[index].stdin, head, arrays)  # type: ignore[arg-type]
        except Disconnected:
            raise self._loss(index) from None

    def _hear(self, index: int, watch: Watch | None = None) -> Message:
        """The answer of one worker; its progress goes to `watch`."""
        while True:
            try:
                message = receive(self._processes[index].stdout)  # type: ignore[arg-type]
            except Disconnected:
                raise self._loss(index) from None
            if "progress" not in message.head:
                return message
            if watch is not None:
                watch(message.head["progress"])

    def _loss(self, index: int) -> RuntimeError:
        code = self._processes[index].wait()
        self.close()
        return RuntimeError(
            f"worker {index} of {len(self._shares)} of {self.env_id} ended (exit code {code}); "
            "if it ran out of memory use fewer environments or workers."
        )

    def _ask_all(
        self, heads: list[dict[str, Any]], arrays: list[Arrays], watch: Watch | None = None
    ) -> list[Arrays]:
        """Tell all workers, then hear all answers, in the order of their environments."""
        for index, (head, given) in enumerate(zip(heads, arrays, strict=True)):
            self._tell(index, head, given)
        try:
            answers = [self._hear(0, watch)]
            answers += [self._hear(index) for index in range(1, len(self._shares))]
        except BaseException:  # answers are under way that nobody will read
            self.close()
            raise
        for answer in answers:
            if "error" in answer.head:
                raise ValueError(answer.head["error"])
        return [answer.arrays for answer in answers]

    def reset(self, seed: int) -> Array:
        """Start all episodes anew, environment i seeded with `seed + i`."""
        if seed < 0:
            raise ValueError(f"seed={seed} must not be negative; choose 0 or above.")
        heads = [{"do": "reset", "seed": seed + share.start} for share in self._shares]
        answers = self._ask_all(heads, [{} for _ in heads])
        self._obs = np.concatenate([answer["obs"] for answer in answers])
        return self._obs.copy()

    def step(self, action: NDArray[Any]) -> Step:
        """Advance all by one step."""
        self._check_started()
        action = np.asarray(action)
        check_action(self.env_id, action, (self.num_envs, self._actions))
        given: list[Arrays] = [{"action": action[share]} for share in self._shares]
        answers = self._ask_all([{"do": "step"}] * len(given), given)
        names = ("obs", "reward", "cost", "terminated", "truncated")
        joined = {name: np.concatenate([answer[name] for answer in answers]) for name in names}
        next_obs = joined["obs"]
        if any("next_obs" in answer for answer in answers):
            next_obs = np.concatenate([answer.get("next_obs", answer["obs"]) for answer in answers])
        self._obs = joined["obs"]
        return Step(next_obs=next_obs, **joined)

    def collect(self, pilot: Pilot, noise: Float32, watch: Watch | None = None) -> Epoch:
        """Let every worker act by itself for noise.shape[0] steps; noise [T, N, A]."""
        self._check_started()
        check_noise(self.env_id, noise, self.num_envs, self._actions)
        policy = pilot.to_arrays()
        given: list[Arrays] = [policy | {"noise": noise[:, share]} for share in self._shares]
        answers = self._ask_all([{"do": "collect"}] * len(given), given, watch)
        self._obs = np.concatenate([answer.pop("last") for answer in answers])
        return Epoch.join(answers)

    def snapshot(self) -> Snapshot:
        """Everything the future depends on, as named arrays."""
        self._check_started()
        answers = self._ask_all(
            [{"do": "snapshot"}] * len(self._shares), [{} for _ in self._shares]
        )
        return {name: np.concatenate([a[name] for a in answers]) for name in answers[0]}

    def restore(self, snapshot: Snapshot) -> Array:
        """Continue from a snapshot of any number of workers, bit for bit."""
        if len(snapshot["steps"]) != self.num_envs:
            raise ValueError(
                f"the snapshot holds {len(snapshot['steps'])} environments, this batch "
                f"{self.num_envs}: make the batch with the number that was saved."
            )
        given = [{name: array[share] for name, array in snapshot.items()} for share in self._shares]
        answers = self._ask_all([{"do": "restore"}] * len(given), given)
        self._obs = np.concatenate([answer["obs"] for answer in answers])
        return self._obs.copy()

    @property
    def observation(self) -> Array:
        """[N, O] what to act on next."""
        return self._check_started().copy()

    def _check_started(self) -> Array:
        if self._obs is None:
            raise ValueError(f"{self.env_id} was used before its first reset; call reset(seed).")
        return self._obs

    def close(self) -> None:
        """End the workers."""
        self._finalizer()
