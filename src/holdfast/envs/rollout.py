# SPDX-License-Identifier: Apache-2.0
"""The loops that act: one collects an epoch, one runs whole episodes.

Random numbers are arguments or functions of a seed, so results do not depend on the number of
processes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.core.episodes import Summary, summarise
from holdfast.envs.acting import Actor, Arrays, Float32, action_map, moments
from holdfast.envs.base import Bools, Floats, OnProgress, Step, VecEnv

PATIENCE = 64
"""Vector steps between two calls of `on_progress`; noise is drawn for as many steps at once."""


class NotFinite(ValueError):
    """An environment produced NaN or infinity."""


@dataclass(frozen=True)
class Rollout:
    """T steps of N environments; observations are the policy's inputs, followed by its memory."""

    seen: Float32
    """[T + 1, N, O] the input of each action, and of the next one."""
    final: Float32
    """[M, O] true successors at the ends of episodes, by environment, then time."""
    action: NDArray[Any]
    """[T, N, A] or [T, N, D], in the policy's units."""
    reward: NDArray[np.float64]
    """[T, N]"""
    cost: NDArray[np.float64]
    """[T, N, K]"""
    terminated: NDArray[np.bool_]
    """[T, N]"""
    truncated: NDArray[np.bool_]
    """[T, N]"""
    mean: NDArray[np.float64]
    """[N, O] mean of each environment's observations before normalising, or [1, O] of all."""
    var: NDArray[np.float64]
    """Their variances."""

    @property
    def obs(self) -> Float32:
        """[T, N, O]"""
        return self.seen[:-1]

    @property
    def next_obs(self) -> Float32:
        """[T, N, O] true successors."""
        out = self.seen[1:].copy()
        out.swapaxes(0, 1)[self.done.T] = self.final
        return out

    @property
    def done(self) -> NDArray[np.bool_]:
        return self.terminated | self.truncated

    def summary(self, running: NDArray[np.float64], gamma: float) -> Summary:
        """The sums of its episodes, of which `running` [N, 2 + 2K] had begun before."""
        return summarise(running, self.reward, self.cost, self.done, gamma)

    def to_arrays(self) -> Arrays:
        """Field -> array, for another process."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @classmethod
    def join(cls, parts: list[Arrays]) -> Rollout:
        """Join the rollouts of a batch's shares, in the order of their environments."""
        axis = {"final": 0, "mean": 0, "var": 0}
        whole = lambda name: np.concatenate([part[name] for part in parts], axis.get(name, 1))
        return cls(**{field.name: whole(field.name) for field in fields(cls)})


class Collecting(ABC):
    """A batch that can act by itself for a whole epoch, without a call at every step."""

    @property
    @abstractmethod
    def observation(self) -> Floats:
        """[N, O] what to act on next."""

    @abstractmethod
    def collect(
        self,
        actor: Actor,
        noise: Float32,
        on_progress: OnProgress | None = None,
        memory: Float32 | None = None,
    ) -> Rollout:
        """Act for noise.shape[0] steps with frozen statistics; noise [T, N, noise_size].

        `memory` [N, memory] is the policy's current memory; None: episodes begin.
        """


class OnDevice(Collecting):
    """A batch that draws its noise, and whose epochs are arrays on the device."""

    @abstractmethod
    def draw(self, actor: Actor, key: Any, steps: int) -> Any:
        """Noise [steps, N, noise_size] for `collect`, from a JAX random key."""

    @abstractmethod
    def place(self, tree: Any) -> Any:
        """The arrays of a tree on the device of the update.

        JAX compiles a function again for arrays that have been placed, as the results of the first
        update have; so the first parameters are, too.
        """


class Playing(ABC):
    """A batch that can run whole episodes by itself."""

    @abstractmethod
    def play_round(self, actor: Actor, wanted: Round) -> NDArray[np.float64]:
        """The result of `play_round`."""


def collect(
    env: VecEnv,
    obs: Floats,
    actor: Actor,
    noise: Float32,
    *,
    memory: Float32 | None = None,
    moving: bool = False,
    raw_final_obs: bool = False,
    on_progress: OnProgress | None = None,
) -> tuple[Rollout, Floats, Actor]:
    """Act for noise.shape[0] vector steps from `obs`; returns also the last obs and the actor.

    `moving` statistics change with every step, as in the published runs (D8), and the returned
    actor has the new ones. Otherwise they are constant, and `Rollout.mean` and `var` are for
    merging afterwards (not with images, whose pixels are scaled by their bounds). `memory` is the
    memory before `obs`, None at the start of episodes; the next one is the end of `Rollout.seen`.
    """
    check_noise(noise, len(obs), actor)
    shape, size = noise.shape[:2], obs.shape[1]
    remembers, still = actor.network.memory, moving or bool(actor.network.channels)
    choices = actor.std is None
    width, kind = (len(actor.sizes), np.int32) if choices else (actor.noise_size, np.float32)
    seen = np.empty((shape[0] + 1, shape[1], size + remembers), np.float32)
    action = np.empty((*shape, width), kind)
    raw = np.empty((0 if still else shape[0], shape[1], size))
    reward, cost = np.empty(shape), np.empty((*shape, len(env.cost_names)))
    terminated, truncated = np.empty(shape, np.bool_), np.empty(shape, np.bool_)
    finals: list[list[NDArray[Any]]] = [[] for _ in range(shape[1])]
    to_env = action_map(env.action_space, actor.clip)
    seen[0] = actor.view(obs, memory)
    for t in range(shape[0]):
        action[t], memory = actor.act(seen[t], noise[t])
        step = env.step(to_env(action[t]))
        reward[t], cost[t] = step.reward, step.cost
        terminated[t], truncated[t] = step.terminated, step.truncated
        if moving:
            _reject_broken_obs(step, t)
            assert actor.normaliser is not None
            actor = replace(actor, normaliser=actor.normaliser.merge(step.obs))
        elif not still:
            raw[t] = step.obs
        if step.obs is not step.next_obs:
            for i in np.flatnonzero(step.terminated | step.truncated):
                last, kept = step.next_obs[i : i + 1], memory[i : i + 1]
                final = actor.joined(last, kept) if raw_final_obs else actor.view(last, kept)
                finals[i].append(final)
            memory = reset_memory(memory, step)
        seen[t + 1] = actor.view(step.obs, memory)
        obs = step.obs
        if on_progress is not None and (t + 1) % PATIENCE == 0:
            on_progress((t + 1) * shape[1])
    final = np.array([row for rows in finals for row in rows], np.float32)
    final = final.reshape(-1, seen.shape[-1])
    parts = moments(raw) if len(raw) else (np.zeros((shape[1], 0)),) * 2
    rollout = Rollout(seen, final, action, reward, cost, terminated, truncated, *parts)
    return rollout, obs, actor


def reset_memory(memory: Float32, step: Step) -> Float32:
    """The memory after a step: empty if the episode has ended."""
    return np.where((step.terminated | step.truncated)[:, None], np.float32(0), memory)


@dataclass(frozen=True)
class Round:
    """One fresh episode for each environment of a batch, numbered first, first + 1, ...

    Episode i is a function of (policy, seed, i): its environment is reset with seed + i, and its
    actions have their own generator. So it does not depend on the batch.
    """

    seed: int
    first: int = 0
    deterministic: bool = False
    """Take the most likely action instead of sampling."""
    discount: float = 1.0
    """Discount of the costs."""


@dataclass(frozen=True)
class Played:
    """One step of a round."""

    time: int
    """The number of the step, from 0."""
    action: NDArray[Any]
    """[N, ...] in the environments' form."""
    step: Step
    running: Bools
    """[N] whether the step belongs to the round's episode, not to a later one."""


def play(env: VecEnv, actor: Actor, wanted: Round) -> Iterator[Played]:
    """The steps of a round, until all its episodes have ended."""
    n, to_env = env.num_envs, action_map(env.action_space, actor.clip)
    obs, running = env.reset(wanted.seed + wanted.first), np.ones(n, np.bool_)
    blocks = noise_of(actor, wanted, n)
    time, noise, memory = 0, None, actor.blank(n)
    while running.any():
        if time % PATIENCE == 0:
            noise = next(blocks)
        drawn = None if noise is None else noise[time % PATIENCE]
        chosen, memory = actor.act(actor.view(obs, memory), drawn)
        action = to_env(chosen)
        step = env.step(action)
        yield Played(time, action, step, running.copy())
        running &= ~(step.terminated | step.truncated)
        obs, memory, time = step.obs, reset_memory(memory, step), time + 1


def noise_of(actor: Actor, wanted: Round, n: int) -> Iterator[Float32 | None]:
    """The noise [PATIENCE, N, noise_size] of each PATIENCE steps of a round, if actions are
    sampled.
    """
    numbers = range(wanted.first, wanted.first + n)
    generators = [np.random.default_rng([wanted.seed, number]) for number in numbers]
    before: list[Float32 | None] = [None] * n
    while True:
        if wanted.deterministic:
            yield None
            continue
        drawn = [actor.draw_on(g, (PATIENCE,), b) for g, b in zip(generators, before, strict=True)]
        before = [last for _, last in drawn]
        yield np.stack([noise for noise, _ in drawn], 1)


def play_round(
    env: VecEnv, actor: Actor, wanted: Round, on_progress: OnProgress | None = None
) -> NDArray[np.float64]:
    """Rows [N, 2 + K] of return, length and costs of each episode of a round."""
    steps = (played.step for played in play(env, actor, wanted))
    return add_up(env, steps, wanted.discount, on_progress)


def add_up(
    env: VecEnv, steps: Iterator[Step], discount: float = 1.0, on_progress: OnProgress | None = None
) -> NDArray[np.float64]:
    """Rows [N, 2 + K] of return, length and costs of the first episode of each environment.

    All of them count. Taking the first that finish would favour short ones, which are often the
    unsafe or the failed ones.
    """
    n, time = env.num_envs, 0
    rows, running = np.zeros((n, 2 + len(env.cost_names))), np.ones(n, np.bool_)
    while running.any():
        step = next(steps)
        cost = np.float64(discount) ** time * step.cost
        rows += running[:, None] * np.column_stack([step.reward, np.ones(n), cost])
        running, time = running & ~(step.terminated | step.truncated), time + 1
        if on_progress is not None and time % PATIENCE == 0:
            on_progress(time * n)
    return rows


def check_noise(noise: NDArray[Any], num_envs: int, actor: Actor) -> None:
    """Refuse noise that does not fit the batch."""
    if noise.ndim != 3 or noise.shape[1:] != (num_envs, actor.noise_size):
        raise ValueError(
            f"noise of shape {noise.shape} does not fit: expected (steps, {num_envs}, "
            f"{actor.noise_size}), one row for each environment and step."
        )


def _reject_broken_obs(step: Step, t: int) -> None:
    """Check observations before they enter the moving statistics of all environments."""
    ended = step.obs is not step.next_obs
    if isfinite(step.obs.sum()) and (not ended or isfinite(step.next_obs.sum())):
        return
    for obs in (step.next_obs, step.obs):
        bad = ~np.isfinite(obs).all(1)
        if bad.any():
            raise _not_finite(int(bad.argmax()), "an observation", t)


def reject_not_finite(rollout: Rollout) -> None:
    """Stop at the first NaN or infinity, naming what, where and when."""
    for name in ("next_obs", "reward", "cost"):
        value = getattr(rollout, name)
        with np.errstate(all="ignore"):
            if isfinite(value.sum()):  # one number to look at, wherever the array lies
                continue
        bad = ~np.isfinite(value)
        if bad.any():
            t, env = (int(i) for i in np.argwhere(bad)[0][:2])
            raise _not_finite(env, "an observation" if name == "next_obs" else f"a {name}", t)


def _not_finite(env: int, what: str, t: int) -> NotFinite:
    return NotFinite(
        f"environment {env} returned {what} that is not finite at step {t} of this epoch"
    )
