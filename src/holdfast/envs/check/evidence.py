# SPDX-License-Identifier: Apache-2.0
"""Recorded steps of an environment under fixed random actions, and the faults found."""

from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from gymnasium import spaces
from rich.console import Console
from rich.table import Table
from rich.text import Text

from holdfast.console import plain_console
from holdfast.envs.base import ActionSpace
from holdfast.envs.foreign.costs import Transition
from holdfast.envs.foreign.source import reset_env, step_env
from holdfast.envs.foreign.spaces import dtype_of, sample_actions, to_native


@dataclass
class Recording:
    """A recording that grows while the environment runs, so that it is complete up to a failure."""

    firsts: list[Any] = field(default_factory=list[Any])
    """The first observation of each episode."""
    steps: list[Transition] = field(default_factory=list[Transition])
    """The first `detail` steps."""
    episodes: list[tuple[int, Transition]] = field(default_factory=list[tuple[int, Transition]])
    """Length and last step of each completed episode."""
    total: int = 0
    after_end: Transition | None = None
    """The result of a step without reset after the first end; None if it raised or no episode
    ended.
    """
    changed_action: bool = False
    failure: Exception | None = None
    failed_in: str = ""


EPISODES = 5
"""Whether it contains enough ends of episodes."""


def record(env: Any, actions: ActionSpace, seed: int, detail: int, limit: int) -> Recording:
    """Run a few episodes or `limit` steps, but no further than `detail` once one has ended."""
    seen = Recording()
    try:
        _run(env, _actions(env.action_space, actions, seed), seed, detail, limit, seen)
    except Exception as error:
        seen.failure = error
    return seen


def same(a: Recording, b: Recording) -> bool:
    """Whether two recordings are equal."""
    return (
        len(a.steps) == len(b.steps)
        and all(_equal(x, y) for x, y in zip(a.firsts, b.firsts, strict=False))
        and all(_equal(_judged(x), _judged(y)) for x, y in zip(a.steps, b.steps, strict=True))
    )


def _run(
    env: Any, actions: Iterator[Any], seed: int, detail: int, limit: int, out: Recording
) -> None:
    out.failed_in = "reset"
    obs = deepcopy(reset_env(env, seed))  # environments may reuse their observation buffer
    out.firsts.append(obs)
    length = 0
    while out.total < (detail if out.episodes else limit) and len(out.episodes) < EPISODES:
        out.failed_in = "step"
        action = next(actions)
        given = np.array(action, copy=True)
        step = step_env(env, obs, action)
        out.changed_action |= not np.array_equal(given, action)
        out.total, length, obs = out.total + 1, length + 1, deepcopy(step.next_obs)
        if out.total <= detail:
            out.steps.append(step._replace(next_obs=obs))
        if step.terminated or step.truncated:
            out.episodes.append((length, step))
            if len(out.episodes) == 1:
                out.after_end = _step_after_end(env, obs, next(actions))
            out.failed_in = "reset"
            obs, length = deepcopy(reset_env(env)), 0
            out.firsts.append(obs)


def _step_after_end(env: Any, obs: Any, action: Any) -> Transition | None:
    """Step after the end of an episode; environments may refuse."""
    try:
        return step_env(env, obs, action)
    except Exception:
        return None


def _actions(native: Any, plain: ActionSpace, seed: int) -> Iterator[Any]:
    """Actions in the native space: first corners, where faults are likely, then random ones."""
    for action in _corners(plain):
        yield to_native(native, np.asarray(action)[None], clip=True)[0]
    rng = np.random.default_rng(seed)
    while True:
        yield from to_native(native, sample_actions(plain, 64, rng), clip=True)


def _corners(space: ActionSpace) -> list[Any]:
    match space:
        case spaces.Discrete():
            return list(range(min(int(space.n), 50)))
        case spaces.MultiDiscrete():
            return [np.zeros_like(space.nvec), space.nvec - 1]
        case spaces.Box():
            bounds = (space.low, space.high)
            kind = dtype_of(space)
            return [np.where(np.isfinite(bound), bound, 0.0).astype(kind) for bound in bounds]


def _judged(step: Transition) -> Transition:
    """The step with only the costs of its info."""
    return step._replace(info={k: v for k, v in step.info.items() if str(k).startswith("cost")})


def _equal(a: Any, b: Any) -> bool:
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(_equal(a[k], b[k]) for k in a)
    if isinstance(a, tuple | list):
        return len(a) == len(b) and all(_equal(x, y) for x, y in zip(a, b, strict=True))
    left, right = np.asarray(a), np.asarray(b)
    numeric = np.issubdtype(left.dtype, np.inexact) and np.issubdtype(right.dtype, np.inexact)
    return np.array_equal(left, right, equal_nan=numeric)


Severity = Literal["error", "warning", "note"]


@dataclass(frozen=True)
class Finding:
    """One fault: an error stops training, a warning harms learning, a note is for information."""

    severity: Severity
    check: str
    """A short name of the rule."""
    problem: str
    remedy: str


def print_findings(findings: Sequence[Finding], console: Console | None = None) -> None:
    """The faults as a table."""
    console = console or plain_console()
    if not findings:
        console.print(Text("nothing found: ready to train", "green"))
        return
    table = Table()
    for title in ("severity", "check", "problem", "remedy"):
        table.add_column(title, overflow="fold")  # never cut
    colour = {"error": "red", "warning": "yellow", "note": "cyan"}
    for f in findings:
        plain = map(Text, (f.check, f.problem, f.remedy))
        table.add_row(Text(f.severity, colour[f.severity]), *plain)
    console.print(table)
