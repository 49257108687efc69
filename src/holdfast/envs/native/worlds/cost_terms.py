# SPDX-License-Identifier: Apache-2.0
"""Costs: a function for each entry of the original's `info`, and the constraints.

A constraint is 1 when any of its entries is; `cost`, the default, is the original's sum turned into
0 or 1. Short names stand for one or more entries of the original's `info`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from holdfast.envs.native.engine import Data
from holdfast.envs.native.simulation import Array, Indices
from holdfast.envs.native.worlds.rewards import norm
from holdfast.settings import near_miss

ROBOT, NOTHING = -2, -1
SLOW = 1e-4
"""Speed below which a vase counts as resting."""


@dataclass(frozen=True)
class Situation:
    """The inputs of costs after a step, for n environments."""

    robot: Array
    """[n, 2]"""
    limits: tuple[float, float]
    hazards: Array
    """[n, H, 2]"""
    hazard_radius: float
    vase_velocity: Array
    """[n, V, 3]"""
    touched: dict[str, NDArray[np.bool_]]
    """Kind -> [n, number] which of its objects touch the robot."""
    goal_button: Indices
    """[n]"""
    timer: NDArray[np.int64]
    """[n] steps for which wrong buttons still cost nothing."""


def touching(datas: Sequence[Data], entry: NDArray[np.int64], entries: int) -> NDArray[np.bool_]:
    """[n, K] which layout entries touch the robot; `entry` [geoms] names each geom's owner."""
    touched = np.zeros((len(datas), entries), np.bool_)
    owner = np.repeat(np.arange(len(datas)), [data.ncon for data in datas])
    owners = entry[np.concatenate([data.contact.geom for data in datas])]
    for one, other in ((owners[:, 0], owners[:, 1]), (owners[:, 1], owners[:, 0])):
        hit = (one == ROBOT) & (other >= 0)
        touched[owner[hit], other[hit]] = True
    return touched


def some(flags: NDArray[np.bool_]) -> Array:
    """1 in each row with at least one flag."""
    return np.asarray(flags.any(1), np.float64)


def hazards(now: Situation) -> Array:
    """Inside a hazard; its rim costs nothing."""
    distance = norm(now.hazards - now.robot[:, None])
    return some(distance < now.hazard_radius)


def vases_velocity(now: Situation) -> Array:
    """Any moving vase, whatever the cause of its motion."""
    return some(norm(now.vase_velocity) >= SLOW)


def contact(kind: str) -> Callable[[Situation], Array]:
    """Touching one of a kind."""
    return lambda now: some(now.touched[kind])


def buttons(now: Situation) -> Array:
    """Touching a wrong button; NaN, no entry at all, for a while after each press."""
    wrong = now.touched["buttons"].copy()
    wrong[np.arange(len(wrong)), now.goal_button] = False
    return np.where(now.timer == 0, some(wrong), np.nan)


def out_of_boundary(now: Situation) -> Array:
    """The root is beyond the walls, which are not solid."""
    return some(np.abs(now.robot) > now.limits)


COSTS: dict[str, Callable[[Situation], Array]] = {
    "cost_hazards": hazards,
    "cost_vases_contact": contact("vases"),
    "cost_vases_velocity": vases_velocity,
    "cost_pillars": contact("pillars"),
    "cost_gremlins": contact("gremlins"),
    "cost_buttons": buttons,
    "cost_out_of_boundary": out_of_boundary,
}
BY_CONTACT = {"cost_vases_contact", "cost_pillars", "cost_gremlins", "cost_buttons"}


def evaluate(keys: tuple[str, ...], now: Situation) -> Array:
    """[n, 1 + len(keys)]: the sum, turned into 0 or 1, then each entry."""
    out = np.zeros((len(now.robot), 1 + len(keys)))
    for column, key in enumerate(keys, 1):
        out[:, column] = COSTS[key](now)
    out[:, 0] = (out[:, 1:] > 0).any(1)
    return out


ENTRIES: dict[str, tuple[str, ...]] = {
    "cost": ("cost_sum",),
    "hazards": ("cost_hazards",),
    "vases": ("cost_vases_contact", "cost_vases_velocity"),
    "vases_contact": ("cost_vases_contact",),
    "vases_velocity": ("cost_vases_velocity",),
    "pillars": ("cost_pillars",),
    "buttons": ("cost_buttons",),
    "gremlins": ("cost_gremlins",),
    "boundary": ("cost_out_of_boundary",),
    "sigwalls": ("cost_out_of_boundary",),
    "velocity": ("cost_velocity",),
}
"""Short name -> keys of `info`. `sigwalls` is another name of `boundary`: the walls are not solid,
and positions beyond them have a cost.
"""


def available(cost_keys: tuple[str, ...]) -> tuple[str, ...]:
    """The constraint names that a task with these cost entries offers."""
    return tuple(name for name, keys in ENTRIES.items() if set(keys) <= set(cost_keys))


def free(names: tuple[str, ...], cost_keys: tuple[str, ...]) -> tuple[str, ...]:
    """The costs of a task that are part of none of these constraints."""
    left = {key for key in cost_keys if key != "cost_sum"}
    left -= {key for name in names for key in ENTRIES[name]}
    found: list[str] = []
    for name in available(cost_keys) if "cost" not in names else ():
        if set(ENTRIES[name]) <= left:
            found.append(name)
            left -= set(ENTRIES[name])
    return tuple(found)


def resolve(env_id: str, names: tuple[str, ...], cost_keys: tuple[str, ...]) -> NDArray[np.bool_]:
    """[C, K] which entries of the cost matrix are behind each constraint."""
    offered = available(cost_keys)
    if not names:
        raise ValueError(
            f"constraints=() leaves {env_id} without a constraint; "
            "name at least one or omit the argument for 'cost'."
        )
    if len(set(names)) < len(names):
        raise ValueError(f"constraints={names} names a constraint twice; name each one once.")
    for name in names:
        if name not in offered:
            close = near_miss(name, offered)
            hint = f"did you mean {close!r}? " if close else ""
            raise ValueError(
                f"{env_id} has no constraint {name!r}; {hint}it offers {', '.join(offered)}."
            )
    return np.array([[key in ENTRIES[name] for name in names] for key in cost_keys])


def select(costs: Array, behind: NDArray[np.bool_]) -> NDArray[np.float64]:
    """[N, K] from [N, C]: 1 where any entry of a constraint is above 0; absent ones are NaN."""
    return ((costs > 0) @ behind).astype(np.float64)
