# SPDX-License-Identifier: Apache-2.0
"""A user's batch (a Gymnasium `VectorEnv`, or a similar object) as a VecEnv.

Its autoreset mode determines the start of new episodes:

    SAME_STEP   it resets in the step that ends an episode, and keeps the true successor in
                info["final_obs"]; its seeds are its own, so a resumed run starts new episodes
    NEXT_STEP, DISABLED
                it is reset by us, in the ending step, by reset(options={"reset_mask": ...}), with
                the seed of each episode, so that a tape brings it back

In NEXT_STEP the step after an end would ignore its action and belong to no episode; the masked
reset avoids it. EnvPool has reset(env_id) instead, and its own seeds. A batch with neither must be
made with SAME_STEP.
"""

import inspect
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any, cast

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from holdfast.envs.base import Bools, Facts, Floats, Snapshot, Step, actions_of, require_reset
from holdfast.envs.failure import named
from holdfast.envs.foreign.costs import CostFunction, CostSource, Transition, find_cost
from holdfast.envs.foreign.spaces import (
    as_array,
    dtype_of,
    flat_observation_space,
    flatten_batch,
    mapped,
    plain_action_space,
    still_action,
    to_native,
)
from holdfast.envs.foreign.tape import Tape, refuse_others, shown_in
from holdfast.envs.foreign.vector_info import (
    final_of,
    like_shown,
    observed,
    placed,
    read_costs,
    row_at,
)
from holdfast.process import deadline


def is_vector_env(env: object) -> bool:
    """Whether it is Gymnasium's VectorEnv, or has its attributes, as Isaac Lab's."""
    names = ("num_envs", "single_observation_space", "single_action_space", "step")
    return not isinstance(env, type) and all(hasattr(bare(env), name) for name in names)


def bare(env: Any) -> Any:
    """The object with these attributes: gym.make wraps Isaac Lab's batches like single
    environments.
    """
    return cast("Any", env).unwrapped if isinstance(env, gym.Wrapper) else env


def mode_of(env: Any) -> AutoresetMode:
    """The mode in its metadata; else Gymnasium's default, and SAME_STEP for other kinds."""
    mode = (getattr(bare(env), "metadata", None) or {}).get("autoreset_mode")
    if mode is None:
        own = isinstance(env, gym.vector.VectorEnv)
        return AutoresetMode.NEXT_STEP if own else AutoresetMode.SAME_STEP
    return AutoresetMode(mode)


class ForeignVectorEnv:
    """The user's batch; `close` closes it only if `owned`."""

    def __init__(
        self,
        env: Any,
        constraints: Sequence[str] | None = None,
        cost: CostFunction | None = None,
        clip_actions: bool = True,
        owned: bool = False,
        timeout: float = 0.0,
    ) -> None:
        self._env, self._clip, self._owned, self._timeout = env, clip_actions, owned, timeout
        self._steps, own = 0, bare(env)
        self.num_envs = int(own.num_envs)
        self.label = type(getattr(env, "unwrapped", env)).__name__
        self._called = f"Env {self.label}"
        self._native_observations = own.single_observation_space
        self._native_actions = own.single_action_space
        self.observation_space = flat_observation_space(own.single_observation_space, self.label)
        self.action_space = plain_action_space(own.single_action_space, self.label)
        self._action_shape = (self.num_envs, *(self.action_space.shape or ()))
        spec = getattr(env, "spec", None)
        known = spec if hasattr(spec, "max_episode_steps") else getattr(spec, "config", None)
        self._by_id = "env_id" in inspect.signature(env.reset).parameters  # EnvPool's way
        self._by_itself = mode_of(env) is AutoresetMode.SAME_STEP
        self.can_snapshot = not (self._by_itself or self._by_id)
        self._tape: Tape | None = None
        self._costs = self._inspect(constraints, cost)
        self.cost_names = self._costs.names
        self.facts = Facts(
            native_observation_space=self._native_observations,
            native_action_space=self._native_actions,
            cost_parts=self._costs.parts,
            free_costs=self._costs.free,
            time_limit=getattr(known, "max_episode_steps", None),
        )

    def reset(self, seed: int) -> Floats:
        """Environment i gets `seed + i`."""
        self._tape = Tape(np.arange(seed, seed + self.num_envs))
        return self._take(self._start(seed))

    def step(self, action: NDArray[Any]) -> Step:
        action = actions_of(self._called, action, self._action_shape)
        tape, before = require_reset(self._tape, self._called), self._native
        given = to_native(self._native_actions, action, self._clip)
        seen = self._move(given)
        ended = np.asarray(seen.terminated | seen.truncated, np.bool_)
        if self._by_itself:
            true_next = final_of(seen, ended, before)
            next_obs = self._flat(true_next) if ended.any() else self._flat(seen.next_obs)
            obs = self._take(seen.next_obs)
            seen = seen._replace(next_obs=true_next)
        else:
            obs = next_obs = self._take(seen.next_obs)
            tape.record(action, ended)
            if ended.any():
                obs = self._take(self._begin(tape, ended))
        cost = read_costs(self._costs, seen._replace(obs=before, action=given), ended)
        return Step(obs, next_obs, seen.reward, cost, seen.terminated, seen.truncated)

    def snapshot(self) -> Snapshot:
        """Seeds and actions of the current episodes, and the current observations."""
        tape = require_reset(self._tape, self._called)
        return tape.save(np.empty(self._action_shape)) | {"obs": self._obs.copy()}

    def restore(self, snapshot: Snapshot) -> Floats:
        """Repeat the current episodes, each started late enough that all end at the present
        step.
        """
        shown = shown_in(snapshot, self._called, self._obs.shape)
        tape, age, actions = Tape.load(snapshot), snapshot["age"], snapshot["actions"]
        self._tape, span = tape, int(age.max(initial=0))
        self._take(self._start(0))
        ended = np.zeros(self.num_envs, np.bool_)
        for left in range(span, -1, -1):
            begins = (age == left) | (ended & (age < left))
            if begins.any():
                self._take(self._begin(tape, begins))
            if left:
                given = to_native(
                    self._native_actions, actions[:, actions.shape[1] - left], self._clip
                )
                seen = self._move(given)
                ended = np.asarray(seen.terminated | seen.truncated, np.bool_)
                self._take(seen.next_obs)
        refuse_others(self._called, self._obs, shown)
        return self._obs.copy()

    def close(self) -> None:
        if self._owned:
            self._env.close()

    @contextmanager
    def _watched(self) -> Generator[None]:
        """Add the step of the batch to an error; a step beyond the time limit becomes an error."""
        place = lambda: f"step {self._steps} of the batch {self._called}"
        with named(place), deadline(self._timeout):
            yield

    def _take(self, native: Any) -> Floats:
        """Store the current observations."""
        self._native, self._obs = native, self._flat(native)
        return self._obs

    def _flat(self, native: Any) -> Floats:
        dtype = dtype_of(self.observation_space)
        return flatten_batch(self._native_observations, native, self.num_envs).astype(dtype)

    def _begin(self, tape: Tape, which: Bools) -> Any:
        """Reset some environments, each with the seed of its episode; returns all observations."""
        if self._by_id:
            obs, info = self._env.reset(np.flatnonzero(which).astype(np.int32))
            return mapped(
                lambda whole, some: placed(whole, some, info["env_id"]), self._native, obs
            )
        seeds = [tape.seed_of(i) for i in range(self.num_envs)]
        returned = self._env.reset(seed=seeds, options={"reset_mask": which.copy()})
        return observed(returned, self.label)

    def _start(self, seed: int) -> Any:
        """Reset all environments."""
        with self._watched():
            returned = self._env.reset() if self._by_id else self._env.reset(seed=seed)
        return observed(returned, self.label)

    def _move(self, given: NDArray[Any]) -> Transition:
        shown: list[Any] = []
        mapped(shown.append, self._native)
        action = like_shown(given, shown[0])
        self._steps += 1
        with self._watched():
            returned = self._env.step(action)
        if not isinstance(returned, tuple) or len(returned) not in (5, 6):
            raise ValueError(
                f"step() of {self._called} must return (obs, reward, terminated, truncated, "
                "info), or six values with the cost after the reward."
            )
        obs, reward, *cost, terminated, truncated, info = cast("tuple[Any, ...]", returned)
        number = lambda x, kind: as_array(x).astype(kind).reshape(self.num_envs)
        return Transition(
            None, given, obs, number(reward, np.float64), cost[0] if cost else None,
            number(terminated, np.bool_), number(truncated, np.bool_), info,
        )  # fmt: skip

    def _inspect(self, constraints: Sequence[str] | None, cost: CostFunction | None) -> CostSource:
        """The source of the costs, from one step; and whether single environments can be reset."""
        first = self._take(self._start(0))
        before = self._native
        still = np.broadcast_to(still_action(self.action_space), self._action_shape)
        seen = self._move(to_native(self._native_actions, still, self._clip))
        row = row_at(seen._replace(obs=before), 0)
        second = self._take(seen.next_obs)
        if self.can_snapshot and not self._resets_alone(first, second):
            raise ValueError(
                f"{self._called} resets in the step after an episode's end (autoreset mode "
                f"{mode_of(self._env).value}), a step that belongs to no episode, and its reset() "
                "does not take options={'reset_mask': ...}: make it with AutoresetMode.SAME_STEP."
            )
        return find_cost(self.label, row, constraints, cost)

    def _resets_alone(self, first: Floats, second: Floats) -> bool:
        """Whether a masked reset restarts the first environment only."""
        which = np.arange(self.num_envs) == 0
        try:
            shown = self._flat(self._begin(Tape(np.arange(self.num_envs)), which))
        except Exception:
            return False
        expected = np.where(which[:, None], first, second)
        return bool(np.array_equal(shown, expected, equal_nan=True))
