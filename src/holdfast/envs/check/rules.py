# SPDX-License-Identifier: Apache-2.0
"""Rules of `check_env`: spaces, observations, rewards, costs and the ends of episodes."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import numpy as np
from gymnasium import spaces

from holdfast.envs.base import Bools, Floats
from holdfast.envs.check.evidence import Finding, Recording
from holdfast.envs.foreign.costs import Transition, cost_keys
from holdfast.envs.foreign.spaces import dtype_of


def observation_space_findings(space: Any) -> Iterator[Finding]:
    leaves = list(_leaves(space))
    if sum(int(np.prod(leaf.shape)) for leaf in leaves if leaf.shape is not None) == 0:
        yield Finding(
            "error", "observation space",
            f"observation_space {space} has no numbers.", "observe at least one.",
        )  # fmt: skip
    for leaf in leaves:
        if not isinstance(leaf, spaces.Box):
            continue
        if not (leaf.low <= leaf.high).all():
            yield Finding(
                "error", "observation space",
                "a bound of observation_space is NaN, or low is above high.",
                "give each number a range, (-inf, inf) if unknown.",
            )  # fmt: skip
        if leaf.dtype == np.uint8 and len(leaf.shape) >= 2:
            yield Finding(
                "warning", "image observation",
                f"observations contain an image of shape {leaf.shape}; the default network gets it "
                "flattened.",
                "train with encoder='cnn' (--encoder cnn), whose convolutions read images."
                if space is leaf
                else "observe the image alone to train with encoder='cnn' (--encoder cnn).",
            )  # fmt: skip


def action_space_findings(space: Any) -> Iterator[Finding]:
    match space:
        case spaces.Box():
            if not (np.isfinite(space.low).all() and np.isfinite(space.high).all()):
                yield Finding(
                    "warning", "unbounded actions",
                    "action_space has infinite bounds, so actions stay as the policy gives them.",
                    "give the range that makes sense; actions are then scaled to it.",
                )  # fmt: skip
            if not (space.low < space.high).all():
                yield Finding(
                    "error", "action space",
                    "a bound of action_space is NaN, or low is not below high.",
                    "give each action a range.",
                )  # fmt: skip
        case spaces.Discrete() if space.n == 1:
            yield Finding(
                "warning", "action space",
                "action_space has one action, so there is nothing to learn.", "offer at least two.",
            )  # fmt: skip
        case _:
            pass


def observation_findings(space: Any, seen: Recording) -> Iterator[Finding]:
    """Each kind of fault once, with its first occurrence."""
    found: dict[str, Finding] = {}
    places = [("reset()", obs) for obs in seen.firsts]
    places += [(f"step {i + 1}", step.next_obs) for i, step in enumerate(seen.steps)]
    for where, obs in places:
        fault = _observation_fault(space, obs, where)
        if fault is not None:
            found.setdefault(fault.check, fault)
    yield from found.values()


def _observation_fault(space: Any, obs: Any, where: str) -> Finding | None:
    for leaf, value in _values(space, obs):
        array = np.asarray(value)
        if leaf.shape is not None and array.shape != leaf.shape:
            return Finding(
                "error", "observation shape",
                f"{where} returned an observation of shape {array.shape}, not {leaf.shape}.",
                "make it agree with observation_space.",
            )  # fmt: skip
        if np.issubdtype(array.dtype, np.inexact) and not np.isfinite(array).all():
            return Finding(
                "error", "observation not finite",
                f"{where} returned an observation with NaN or infinity.",
                "find the division or overflow it comes from; training stops at the first one.",
            )  # fmt: skip
    if space.contains(obs):
        return None
    if _with_dtype(space, obs):
        return Finding(
            "note", "observation dtype",
            f"{where} returned an observation of another type than observation_space declares.",
            "convert it, for example with .astype(self.observation_space.dtype).",
        )  # fmt: skip
    return Finding(
        "warning", "observation outside",
        f"{where} returned an observation outside observation_space.",
        "widen the bounds or correct the observation.",
    )  # fmt: skip


def _leaves(space: Any) -> Iterator[Any]:
    if isinstance(space, spaces.Dict | spaces.Tuple):
        inner = space.spaces.values() if isinstance(space, spaces.Dict) else space.spaces
        for part in inner:
            yield from _leaves(part)
    else:
        yield space


def _values(space: Any, obs: Any) -> Iterator[tuple[Any, Any]]:
    """Leaf spaces with their values; `contains` reports missing parts."""
    if isinstance(space, spaces.Dict):
        for key, part in space.spaces.items():
            if isinstance(obs, dict) and key in obs:
                yield from _values(part, obs[key])
    elif isinstance(space, spaces.Tuple):
        for part, value in zip(space.spaces, obs, strict=False):
            yield from _values(part, value)
    else:
        yield space, obs


def _with_dtype(space: Any, obs: Any) -> bool:
    """Whether obs is outside a Box only by its dtype, or as a list instead of an array."""
    if not isinstance(space, spaces.Box):
        return False
    array = np.asarray(obs)
    return array.shape == space.shape and space.contains(array.astype(dtype_of(space)))


def type_findings(seen: Recording) -> Iterator[Finding]:
    """Rewards are single numbers, end flags are booleans, info is a dictionary."""
    found: dict[str, Finding] = {}
    for i, step in enumerate(seen.steps):
        if np.size(step.reward) != 1 or np.asarray(step.reward).dtype.kind not in "fiub":
            found["reward"] = Finding(
                "error", "reward type", f"step {i + 1} returned the reward {step.reward!r}.",
                "return one number.",
            )  # fmt: skip
        if not isinstance(cast("Any", step.info), Mapping):
            found["info"] = Finding(
                "error", "info type", f"step {i + 1} returned the info {step.info!r}.",
                "return a dictionary.",
            )  # fmt: skip
        for name in ("terminated", "truncated"):
            if not isinstance(getattr(step, name), bool | np.bool_):
                found[name] = Finding(
                    "warning", "flag type",
                    f"step {i + 1} returned {name}={getattr(step, name)!r}.",
                    f"return bool({name}).",
                )  # fmt: skip
    yield from found.values()


def number_findings(reward: Floats, cost: Floats, names: Sequence[str]) -> Iterator[Finding]:
    """Rewards [T] and costs [T, K]: finite, of a sensible size, and not constant."""
    if not np.isfinite(reward).all():
        yield Finding(
            "error", "reward not finite",
            f"the reward of step {_first(~np.isfinite(reward))} is NaN or infinite.",
            "find the division or overflow it comes from; training stops at the first one.",
        )  # fmt: skip
    elif reward.size:
        largest = float(np.abs(reward).max())
        if largest == 0:
            yield Finding(
                "warning", "reward scale", f"all {len(reward)} random steps had reward 0.",
                "reward progress too, or make sure that random actions sometimes succeed.",
            )  # fmt: skip
        elif not 1e-3 <= largest <= 1e3:
            yield Finding(
                "warning", "reward scale", f"the largest reward has size {largest:.3g}.",
                "scale rewards to about 1: critics learn slowly otherwise.",
            )  # fmt: skip
    for k, name in enumerate(names):
        yield from _cost_findings(cost[:, k], name)


def _cost_findings(cost: Floats, name: str) -> Iterator[Finding]:
    if not np.isfinite(cost).all():
        yield Finding(
            "error", "cost not finite",
            f"{name!r} of step {_first(~np.isfinite(cost))} is NaN or infinite.",
            "find where it comes from; training stops at the first one.",
        )  # fmt: skip
        return
    if (cost < 0).any():
        yield Finding(
            "warning", "negative cost",
            f"{name!r} of step {_first(cost < 0)} is {cost[cost < 0][0]:.3g}: "
            "good behaviour would pay for bad.",
            "return 0 for safe steps, and put gains into the reward.",
        )  # fmt: skip
    if len(cost) > 1 and (cost == cost[0]).all():
        harmless = cost[0] == 0  # random actions may just not get that far
        yield Finding(
            "note" if harmless else "warning", "constant cost",
            f"{name!r} was {cost[0]:.3g} in all {len(cost)} random steps.",
            "make sure that unsafe behaviour has a cost, else the limit has no effect."
            if harmless
            else "make it depend on the agent's behaviour, 0 for safe steps.",
        )  # fmt: skip


def sum_findings(seen: Recording) -> Iterator[Finding]:
    """Parts and total agree: the total is their sum, or 1 where the sum is positive."""
    for i, step in enumerate(seen.steps):
        parts = [float(step.info[key]) for key in cost_keys(step.info) if _number(step.info[key])]
        total = _total(step)
        if not parts or total is None:
            continue
        if not np.isclose(total, sum(parts)) and not np.isclose(total, float(sum(parts) > 0)):
            yield Finding(
                "warning", "cost parts",
                f"in step {i + 1} the cost is {total:.3g}, but its cost_* parts add up to "
                f"{sum(parts):.3g}.",
                "make the total their sum (or 0/1), so that one limit and many mean the same.",
            )  # fmt: skip
            return


def episode_findings(seen: Recording, limit: int, declared: int | None) -> Iterator[Finding]:
    """Episodes end, and end with the right flag."""
    lengths = [length for length, _ in seen.episodes]
    if not lengths and seen.failure is None and declared is None and seen.total >= limit:
        yield Finding(
            "warning", "no time limit", f"no episode ended in {limit} random steps.",
            "wrap it in gymnasium.wrappers.TimeLimit, or register it with max_episode_steps.",
        )  # fmt: skip
    ends = [step for _, step in seen.episodes]
    if (
        len(lengths) >= 3
        and len(set(lengths)) == 1
        and lengths[0] > 1
        and all(step.terminated and not step.truncated for step in ends)
    ):
        yield Finding(
            "warning", "time limit as terminated",
            f"all {len(lengths)} random episodes terminated after exactly {lengths[0]} steps.",
            "if that is a time limit, return truncated=True: the value after it is not 0.",
        )  # fmt: skip
    after = seen.after_end
    if after is not None and not (after.terminated or after.truncated):
        yield Finding(
            "note", "step after end",
            "step() continues after the end of an episode without an error.",
            "make sure that it does not reset itself: the last observation must be the true one.",
        )  # fmt: skip


def early_end_findings(seen: Recording, cost: Floats, names: Sequence[str]) -> Iterator[Finding]:
    """Costs add up over an episode which the agent can end: ending it early keeps the limit."""
    ends = np.cumsum([length for length, _ in seen.episodes])
    own = [int(end) - 1 for end, (_, last) in zip(ends, seen.episodes, strict=True)
           if last.terminated and not last.truncated and end <= len(cost)]  # fmt: skip
    if not own or not len(cost):
        return
    for k, name in enumerate(names):
        usual, last = cost[:, k].mean(), cost[own, k].mean()
        if usual > 0 and last <= 2 * usual:
            yield Finding(
                "note", "early end",
                f"{len(own)} of {len(ends)} random episodes terminated, at no more than the usual "
                f"cost of a step ({name!r}): a limit on the sum of an episode can also be kept by "
                "ending it early.",
                "reward survival, add a cost for termination, or limit a rate; see docs/limits.md.",
            )  # fmt: skip


def _total(step: Transition) -> float | None:
    candidates = (step.cost, step.info.get("cost"), step.info.get("cost_sum"))
    return next((float(np.asarray(value).item()) for value in candidates if _number(value)), None)


def _number(value: Any) -> bool:
    array = np.asarray(value)
    return array.size == 1 and array.dtype.kind in "fiub" and bool(np.isfinite(array).all())


def _first(mask: Bools) -> int:
    return int(mask.argmax()) + 1
