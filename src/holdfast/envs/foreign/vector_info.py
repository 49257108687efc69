# SPDX-License-Identifier: Apache-2.0
"""Parsing of a vector environment's results: final observations, rows, costs of its info."""

import sys
from collections.abc import Mapping
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from holdfast.envs.base import Bools, Floats
from holdfast.envs.foreign.costs import CostSource, Transition, read_cost
from holdfast.envs.foreign.spaces import as_array, mapped, row_of


def observed(returned: Any, label: str) -> Any:
    if not (isinstance(returned, tuple) and len(cast("tuple[Any, ...]", returned)) == 2):
        raise ValueError(f"reset() of Env {label} must return (obs, info), as Gymnasium's does.")
    return cast("tuple[Any, ...]", returned)[0]


def like_shown(action: NDArray[Any], shown: Any) -> Any:
    """The action as a tensor on the batch's device, if its observations are tensors."""
    if not hasattr(shown, "new_tensor"):
        return action
    library: Any = sys.modules[type(shown).__module__.partition(".")[0]]
    return library.tensor(action, device=shown.device)


def final_of(seen: Transition, ended: Bools, before: Any) -> Any:
    """The true successors [N, ...] of a batch that resets itself in the ending step.

    If it returns none (Isaac Lab), the episode's last observation before that is used: only
    truncated episodes need its value, which is then one step early.
    """
    kept = seen.info.get("final_obs")
    replaced = lambda whole, last: placed(whole, as_array(last)[ended], ended)
    if not ended.any():
        return seen.next_obs
    if kept is None:
        return mapped(replaced, seen.next_obs, before)
    if isinstance(kept, np.ndarray) and kept.dtype == object:
        result = mapped(lambda x: as_array(x).copy(), seen.next_obs)
        for i in np.flatnonzero(ended).tolist():
            mapped(lambda whole, one, i=i: whole.__setitem__(i, as_array(one)), result, kept[i])
        return result
    return mapped(replaced, seen.next_obs, kept)


def placed(whole: Any, some: Any, rows: Any) -> NDArray[Any]:
    """The whole with some rows replaced."""
    result = as_array(whole).copy()
    result[np.asarray(rows)] = as_array(some)
    return result


def row_at(seen: Transition, i: int) -> Transition:
    """The step of one environment, in its own form."""
    ended = bool(seen.terminated[i] or seen.truncated[i])
    info = dict(seen.info)
    if ended and isinstance(info.get("final_info"), Mapping):
        info |= info["final_info"]
    own = {
        key: row_of(value, i)
        for key, value in info.items()
        if not key.startswith(("_", "final_")) and present(info, key, len(seen.reward))[i]
    }
    cost = None if seen.cost is None else as_array(seen.cost)[i]
    return Transition(
        row_of(seen.obs, i), seen.action[i], row_of(seen.next_obs, i), seen.reward[i], cost,
        seen.terminated[i], seen.truncated[i], own,
    )  # fmt: skip


def present(info: Mapping[str, Any], key: str, n: int) -> Bools:
    """[N] whether the key has a value for each environment."""
    value = info.get(key)
    if value is None or isinstance(value, Mapping) or as_array(value).shape[:1] != (n,):
        return np.zeros(n, np.bool_)
    return np.asarray(info.get(f"_{key}", np.ones(n)), np.bool_)


def read_costs(source: CostSource, seen: Transition, ended: Bools) -> Floats:
    """[N, K]"""
    n = len(ended)
    if source.kind == "function":
        rows = [read_cost(source, row_at(seen, i)) for i in range(n)]
        return np.array(rows, np.float64).reshape(n, -1)
    if source.kind == "returned":
        return as_array(seen.cost).astype(np.float64).reshape(n, -1)
    columns = [key_costs(seen.info, key, ended) for key in source.keys]
    if source.kind == "sum":
        return np.sum(columns, 0)
    return np.concatenate(columns, 1)


def key_costs(info: Mapping[str, Any], key: str, ended: Bools) -> Floats:
    """[N, ...] from info, and at an episode's end from the info of the ending step."""
    n, final = len(ended), info.get("final_info")
    last = cast("Mapping[str, Any]", final) if isinstance(final, Mapping) else {}
    here, there = present(info, key, n), present(last, key, n) & ended
    if not (here | there).all():
        raise ValueError(
            f"info[{key!r}] is missing from this step of environment "
            f"{int((~(here | there)).argmax())}: report the cost in every step, 0 where nothing is "
            "wrong."
        )
    some = as_array(last[key] if there.any() else info[key])
    cost = np.empty((n, *some.shape[1:]))
    if here.any():
        cost[here] = as_array(info[key])[here]
    if there.any():
        cost[there] = as_array(last[key])[there]
    return cost.reshape(n, -1)
