# SPDX-License-Identifier: Apache-2.0
"""Arguments of the commands on finite CMDPs: a CMDP by name, and a barrier."""

from dataclasses import replace

from holdfast.paper.geometry_claims import Choice
from holdfast.tabular.cmdp import FiniteCMDP, implicit_bias, toy
from holdfast.tabular.cmdp_files import read_cmdp
from holdfast.tabular.instances import MAPS, gridworld
from holdfast.tabular.potentials import POTENTIALS
from holdfast.tabular.toy_text import from_gymnasium


def load(source: str, gamma: float | None = None) -> FiniteCMDP:
    """A CMDP by name: a JSON file, `toy`, `implicit-bias`, `grid:NAME`, or a toy-text id.

    The first three have their own discount, which `gamma` replaces.
    """
    if source.endswith(".json") or source in ("toy", "implicit-bias"):
        named = {"toy": toy, "implicit-bias": implicit_bias}
        cmdp = named[source]() if source in named else read_cmdp(source)
        return cmdp if gamma is None else replace(cmdp, gamma=gamma)
    gamma = 0.95 if gamma is None else gamma
    if source.startswith("grid:"):
        name = source.removeprefix("grid:")
        if name not in MAPS:
            raise ValueError(f"unknown gridworld {name!r}; use one of {', '.join(MAPS)}.")
        return gridworld(MAPS[name], gamma=gamma)
    import gymnasium as gym

    try:
        return from_gymnasium(source, gamma=gamma)
    except gym.error.Error as error:
        raise ValueError(
            f"'{source}' is neither a .json file, toy, implicit-bias, grid:NAME nor a Gymnasium "
            f"id ({error})."
        ) from error


def choice(beta: float | None, barrier: str | None, radius: float | None) -> Choice:
    """The chosen geometry, checked; a user's barrier is imported."""
    for name, value, usual in (("beta", beta, "1"), ("radius", radius, "0.01")):
        if value is not None and not 0.0 < value < float("inf"):
            raise ValueError(f"--{name} {value} must be positive and finite; {usual} is usual.")
    if barrier is not None and barrier not in POTENTIALS:
        from holdfast.own_barrier import use_barrier

        if ":" not in barrier:
            raise ValueError(
                f"--barrier {barrier} must be one of {', '.join(POTENTIALS)}, or one of your own, "
                "file.py:name."
            )
        barrier = use_barrier(barrier)
    return Choice(beta, barrier, radius)
