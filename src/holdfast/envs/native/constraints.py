# SPDX-License-Identifier: Apache-2.0
"""Costs by name: which of the original's cost entries make up each constraint.

A constraint is 1 when any of its entries is; `cost`, the default, is the original's sum turned
into 0 or 1. Short names stand for one or more entries of the original's `info`.
"""

import difflib

import numpy as np
from numpy.typing import NDArray

from holdfast.envs.native.simulation import Array

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
what costs is being beyond them."""


def available(cost_keys: tuple[str, ...]) -> tuple[str, ...]:
    """The constraint names that a task with these cost entries offers."""
    return tuple(name for name, keys in ENTRIES.items() if set(keys) <= set(cost_keys))


def resolve(
    env_id: str, names: tuple[str, ...], cost_keys: tuple[str, ...]
) -> tuple[tuple[int, ...], ...]:
    """The columns of the cost matrix behind each constraint."""
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
            close = difflib.get_close_matches(name, offered, 1)
            hint = f"did you mean {close[0]!r}? " if close else ""
            raise ValueError(
                f"{env_id} has no constraint {name!r}; {hint}it offers {', '.join(offered)}."
            )
    return tuple(tuple(cost_keys.index(key) for key in ENTRIES[name]) for name in names)


def select(costs: Array, columns: tuple[tuple[int, ...], ...]) -> NDArray[np.float64]:
    """[N, K] from [N, C]: 1 where any entry of a constraint is above 0; absent ones are NaN."""
    violated = costs > 0
    if all(len(group) == 1 for group in columns):
        return violated[:, [group[0] for group in columns]].astype(np.float64)
    return np.stack([violated[:, list(group)].any(1) for group in columns], 1).astype(np.float64)
