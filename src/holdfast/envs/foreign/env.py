# SPDX-License-Identifier: Apache-2.0
"""Any Gymnasium or Safety-Gymnasium environment as a VecEnv.

Costs come from the environment (see `costs`) or from a user's function. Environments run in a plain
loop (a few microseconds on top of each step) or in worker processes, each with the same loop on its
share. The numbers are the same.

The state of a foreign simulator cannot be read. A snapshot contains the seeds and the actions of
the current episodes, and restoring repeats them (see `tape`).
"""

import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from functools import partial
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from holdfast.envs.base import (
    Bools,
    Facts,
    Floats,
    Snapshot,
    Step,
    VecEnv,
    Vectorise,
    actions_of,
    check_count,
    require_reset,
)
from holdfast.envs.budget import Budgets, with_budgets
from holdfast.envs.failure import named
from holdfast.envs.foreign.costs import CostFunction, read_cost
from holdfast.envs.foreign.source import (
    EnvSource,
    Interface,
    close_all,
    inspect_env,
    is_instance,
    label_of,
    open_single,
    reset_env,
    resolve,
    step_env,
)
from holdfast.envs.foreign.spaces import dtype_of, flat_observation, still_action, to_native
from holdfast.envs.foreign.tape import Tape, refuse_others, shown_in
from holdfast.envs.worker import Start, unsendable
from holdfast.envs.worker_env import WorkerEnv
from holdfast.process import cores, deadline

CHEAP = 1e-4
"""Shortest time of a batch's step, in seconds, for which worker processes are faster.

Measured by benchmarks/foreign_speed.py: at this time two workers are 1.4 times as fast.
"""


def open_foreign(
    source: EnvSource,
    num_envs: int = 1,
    *,
    constraints: Sequence[str] | None = None,
    cost: CostFunction | None = None,
    vectorise: Vectorise = "sync",
    workers: int = 0,
    clip_actions: bool = True,
    timeout: float = 0.0,
    first: Any = None,
    start: Start | None = None,
    budgets: Budgets | None = None,
) -> VecEnv:
    """N environments of one kind.

    Args:
        source: A Gymnasium id, a function that makes one environment, or (for num_envs=1) an
            environment.
        constraints: ("hazards", "vases") makes info["cost_hazards"] and info["cost_vases"] two
            constraints. Without it the single summed cost is the one constraint.
        cost: A function of (obs, action, next_obs) or (obs, action, next_obs, info), all in the
            environment's own form. It returns a number or one for each constraint.
        vectorise: "sync" is a loop in this process, "process" worker processes. "auto" is the
            latter if there are cores for them, a step of the batch takes longer than `CHEAP`
            and the source can be sent to another process.
        workers: Number of worker processes; 0 means one for each core.
        clip_actions: Whether to clip actions to the bounds of the environment's Box.
        timeout: Time limit of a step of the batch in seconds; 0: none.
        first: An open environment of that source.
        start: A function that starts workers on other machines, instead of processes here.
        budgets: Budgets whose remaining shares are appended to the observations.
    """
    _check(source, num_envs, vectorise, workers)
    source = resolve(source)
    opened = [open_single(source) if first is None else first]
    try:
        first_steps = lambda: f"the first steps of Env {label_of(source)}"
        with named(first_steps, noted=False), deadline(timeout):
            interface = inspect_env(opened[0], constraints, cost, clip_actions, timeout)
        share = partial(_open_share, source, interface, budgets)
        wanted = min(workers or cores(), num_envs)
        shared = vectorise == "process" or start is not None
        if not shared and vectorise == "auto" and wanted > 1 and not is_instance(source):
            with named(first_steps, noted=False), deadline(timeout):
                dear = workers or num_envs * _seconds_of_step(opened[0], interface) >= CHEAP
            shared = bool(dear) and unsendable(share) is None
        if shared:
            model = with_budgets(ForeignEnv(opened, interface), budgets)
            batch = WorkerEnv(f"Env {interface.label}", model, num_envs, wanted, share, start)
            model.close()
            return batch
        _open_others(source, opened, num_envs, interface.label)
        return with_budgets(ForeignEnv(opened, interface), budgets)
    except BaseException:
        if not is_instance(source):
            close_all(opened)
        raise


def _seconds_of_step(env: Any, interface: Interface) -> float:
    """Seconds of one environment's step after a reset; the shortest of a few."""
    still = still_action(interface.action_space)[None]
    action = to_native(interface.native_actions, still, interface.clip_actions)[0]
    obs, times = reset_env(env, seed=0), list[float]()
    while len(times) < 10 and sum(times) < 0.1:
        start = time.perf_counter()
        done = step_env(env, obs, action)
        times.append(time.perf_counter() - start)
        if done.terminated or done.truncated:
            break
    return min(times)


class ForeignEnv:
    """Environments number `first`, `first + 1`, ... of a batch, stepped in a plain loop.

    All foreign environments are stepped by this loop, so one process or several give the same
    numbers.
    """

    can_snapshot = True

    def __init__(self, envs: Sequence[Any], interface: Interface, first: int = 0) -> None:
        self._envs, self._interface, self._first = list(envs), interface, first
        self._label = f"Env {interface.label}"
        self.num_envs = len(envs)
        self.observation_space = interface.observation_space
        self.action_space = interface.action_space
        self.cost_names = interface.cost.names
        self.facts = Facts(
            native_observation_space=interface.native_observations,
            native_action_space=interface.native_actions,
            cost_parts=interface.cost.parts,
            free_costs=interface.cost.free,
            time_limit=interface.time_limit,
        )
        self._action_shape = (self.num_envs, *(self.action_space.shape or ()))
        self._current: list[Any] = [None] * len(envs)  # native observations, for cost functions
        self._tape: Tape | None = None
        self._stepped = 0  # the environment that is at work
        self._obs: Floats = self._empty_obs()

    def reset(self, seed: int) -> Floats:
        """Environment i gets `seed + i`."""
        self._tape = Tape(np.arange(seed, seed + self.num_envs))
        self._obs = self._empty_obs()
        for i in range(self.num_envs):
            self._begin(i, self._tape, self._obs)
        return self._obs.copy()

    def step(self, action: NDArray[Any]) -> Step:
        action = actions_of(self._label, action, self._action_shape)
        tape = require_reset(self._tape, self._label)
        interface, count = self._interface, self.num_envs
        next_obs, reward = self._empty_obs(), np.empty(count)
        cost = np.empty((count, len(interface.cost.names)))
        terminated, truncated = np.empty(count, np.bool_), np.empty(count, np.bool_)
        given = to_native(interface.native_actions, action, interface.clip_actions)
        with self._watched(tape):
            for i, env in enumerate(self._envs):
                self._stepped = i
                done = step_env(env, self._current[i], given[i])
                self._write(i, done.next_obs, next_obs)
                reward[i], cost[i] = done.reward, read_cost(interface.cost, done)
                terminated[i], truncated[i] = done.terminated, done.truncated
        ended = terminated | truncated
        tape.record(action, ended)
        self._obs = self._restart(ended, tape, next_obs) if ended.any() else next_obs
        return Step(self._obs, next_obs, reward, cost, terminated, truncated)

    def snapshot(self) -> Snapshot:
        """The seeds and actions that reproduce the current states, and the current observations."""
        tape = require_reset(self._tape, self._label)
        return tape.save(np.empty(self._action_shape)) | {"obs": self._obs.copy()}

    def restore(self, snapshot: Snapshot) -> Floats:
        """Repeat the current episodes, and check that they lead to the same observations."""
        shown = shown_in(snapshot, self._label, self._obs.shape)
        self._tape, self._obs = Tape.load(snapshot), self._empty_obs()
        actions = snapshot["actions"]
        for i, age in enumerate(snapshot["age"].tolist()):
            self._begin(i, self._tape, self._obs)
            for action in actions[i, actions.shape[1] - age :]:
                if self._repeat(i, action):
                    self._obs[i] = np.nan  # it ended where it should have gone on
                    break
        refuse_others(self._label, self._obs, shown, self._first)
        return self._obs.copy()

    def close(self) -> None:
        close_all(self._envs)

    def _restart(self, ended: Bools, tape: Tape, next_obs: Floats) -> Floats:
        obs = next_obs.copy()
        for i in np.flatnonzero(ended).tolist():
            self._begin(i, tape, obs)
        return obs

    def _repeat(self, i: int, action: NDArray[Any]) -> bool:
        """Repeat one step of one environment; returns whether its episode ended."""
        given = to_native(
            self._interface.native_actions, action[None], self._interface.clip_actions
        )
        self._stepped = i
        with self._watched(require_reset(self._tape, self._label)):
            done = step_env(self._envs[i], self._current[i], given[0])
            self._write(i, done.next_obs, self._obs)
        return bool(done.terminated or done.truncated)

    def _begin(self, i: int, tape: Tape, obs: Floats) -> None:
        self._stepped = i
        with self._watched(tape):
            self._write(i, reset_env(self._envs[i], tape.seed_of(i)), obs)

    def _write(self, i: int, native: Any, out: Floats) -> None:
        flat = flat_observation(self._interface.native_observations, native)
        if flat.size != out.shape[1]:
            raise ValueError(
                f"observation has {flat.size} numbers, observation_space has {out.shape[1]}: make "
                "them agree."
            )
        out[i] = flat.reshape(-1)
        if self._interface.cost.kind == "function":
            # Environments may reuse their observation buffer; the cost must see the old values.
            self._current[i] = native.copy() if type(native) is np.ndarray else deepcopy(native)

    def _empty_obs(self) -> Floats:
        space = self._interface.observation_space
        obs: Floats = np.empty((len(self._envs), *space.shape), dtype_of(space))
        return obs

    @contextmanager
    def _watched(self, tape: Tape) -> Generator[None]:
        """Add the environment and its step to an error; a step beyond the time limit becomes an
        error.
        """
        which = lambda: f"environment {self._first + self._stepped} of {self._label}"
        place = lambda: f"{which()}, {tape.describe(self._stepped)}"
        with named(place), deadline(self._interface.timeout):
            yield


def _open_share(
    source: EnvSource, interface: Interface, budgets: Budgets | None, first: int, count: int
) -> VecEnv:
    """Open environments number `first`, ... of a batch in a worker."""
    batch = ForeignEnv([open_single(source) for _ in range(count)], interface, first)
    return with_budgets(batch, budgets)


def _open_others(source: EnvSource, opened: list[Any], num_envs: int, label: str) -> None:
    while len(opened) < num_envs:
        env = open_single(source)
        if any(env is other for other in opened):
            raise ValueError(
                f"the factory of Env {label} returned the same environment twice: "
                "make a new one in each call."
            )
        opened.append(env)


def _check(source: EnvSource, num_envs: int, vectorise: str, workers: int) -> None:
    check_count(num_envs)
    if workers < 0:
        raise ValueError(f"workers={workers} must be at least 0; 0 means one for each core.")
    if vectorise not in get_args(Vectorise):
        raise ValueError(
            f"vectorise={vectorise!r} must be 'sync' (a loop in this process), 'process' or 'auto'."
        )
    if is_instance(source) and (num_envs > 1 or vectorise == "process"):
        raise ValueError(
            f"one instance of Env {label_of(source)} cannot be used for num_envs={num_envs} with "
            f"vectorise={vectorise!r}: pass a function that makes one, such as lambda: MyEnv()."
        )
