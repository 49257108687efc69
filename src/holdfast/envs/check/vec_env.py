# SPDX-License-Identifier: Apache-2.0
"""Check of the VecEnv interface by running a user-defined batch."""

from collections.abc import Iterator
from typing import Any, cast

import gymnasium as gym
import numpy as np

from holdfast.envs.base import Floats, Step, VecEnv
from holdfast.envs.check.evidence import Finding
from holdfast.envs.check.rules import number_findings
from holdfast.envs.foreign.spaces import sample_actions

STEPS = 200


def check_vec_env(env: VecEnv, seed: int = 0) -> Iterator[Finding]:
    """Check shapes, dtypes, flags, seeding and snapshots; the environment is reset afterwards."""
    observed = cast("Any", env.observation_space)  # a protocol promises, but does not enforce
    if not isinstance(observed, gym.spaces.Box) or len(observed.shape) != 1:
        yield _error("observation space", "observation_space is not a flat Box.", "flatten it.")
        return
    if not env.cost_names:
        yield _error("cost", "cost_names is empty.", "name at least one constraint.")
        return
    first = env.reset(seed)
    taken = _play(env, STEPS, seed)
    wrong = list(_shapes(env, first, taken[0]))
    yield from wrong
    if wrong:
        return
    if not all(np.isfinite(s.obs).all() and np.isfinite(s.next_obs).all() for s in taken):
        yield _error(
            "observation not finite", "an observation is NaN or infinite.",
            "find the division or overflow it comes from; training stops at the first one.",
        )  # fmt: skip
        return
    yield from _flags(taken)
    reward, cost = np.stack([s.reward for s in taken]), np.stack([s.cost for s in taken])
    flat = cost.reshape(-1, cost.shape[-1])
    yield from number_findings(reward.reshape(-1), flat, env.cost_names)
    again = env.reset(seed)
    if not np.array_equal(first, again) or not _same(taken, _play(env, STEPS, seed)):
        yield _error(
            "seed", "the same seed and actions led to different results.",
            "let reset(seed) set all state, environment i from seed + i.",
        )  # fmt: skip
    elif env.can_snapshot:
        yield from _snapshots(env, seed)
    env.reset(seed)


def _shapes(env: VecEnv, first: Floats, step: Step) -> Iterator[Finding]:
    n, k = env.num_envs, len(env.cost_names)
    wide = (n, *env.observation_space.shape)
    expected = {"obs": wide, "next_obs": wide, "cost": (n, k)}
    arrays = {"reset()": (first, wide, "f")}
    for name in Step.__dataclass_fields__:
        kind = "b" if name in ("terminated", "truncated") else "f"
        arrays[name] = (getattr(step, name), expected.get(name, (n,)), kind)
    for name, (array, shape, kind) in arrays.items():
        if np.shape(array) != shape:
            yield _error("shape", f"{name} has shape {np.shape(array)}.", f"return {shape}.")
        elif np.asarray(array).dtype.kind != kind:
            word = "booleans" if kind == "b" else "floating-point numbers"
            yield _error("dtype", f"{name} has dtype {np.asarray(array).dtype}.", f"return {word}.")


def _flags(taken: list[Step]) -> Iterator[Finding]:
    ended = np.stack([s.terminated | s.truncated for s in taken])
    differs = np.stack([(s.obs != s.next_obs).any(axis=1) for s in taken])
    if (differs & ~ended).any():
        yield _error(
            "auto-reset", "obs and next_obs differ in a step that ended no episode.",
            "they may differ only where terminated or truncated is set.",
        )  # fmt: skip
    if ended.any() and not differs[ended].any():
        yield Finding(
            "warning", "auto-reset", "obs equals next_obs in every step that ended an episode.",
            "return the new episode's first observation in obs, the true successor in next_obs.",
        )  # fmt: skip


def _snapshots(env: VecEnv, seed: int) -> Iterator[Finding]:
    _play(env, 7, seed)  # into the middle of an episode
    kept = env.snapshot()
    current = env.restore(kept)
    before = _play(env, STEPS, seed + 1)
    back = env.restore(kept)
    if not np.array_equal(current, back) or not _same(before, _play(env, STEPS, seed + 1)):
        yield _error(
            "snapshot", "steps after restore differ from those after the snapshot.",
            "keep copies of all state, random generators included, or set can_snapshot = False.",
        )  # fmt: skip


def _play(env: VecEnv, steps: int, seed: int) -> list[Step]:
    rng = np.random.default_rng(seed)
    return [env.step(sample_actions(env.action_space, env.num_envs, rng)) for _ in range(steps)]


def _same(a: list[Step], b: list[Step]) -> bool:
    return all(
        np.array_equal(getattr(x, name), getattr(y, name), equal_nan=True)
        for x, y in zip(a, b, strict=True)
        for name in Step.__dataclass_fields__
    )


def _error(check: str, problem: str, remedy: str) -> Finding:
    return Finding("error", check, problem, remedy)
