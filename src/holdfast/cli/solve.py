# SPDX-License-Identifier: Apache-2.0
"""`holdfast solve`: solve a finite CMDP exactly."""

import json as json_format
from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np
import tyro
from rich.table import Table

from holdfast.cli.cmdp import load
from holdfast.console import plain_console, styled
from holdfast.core.limits import Limit, parse_limit
from holdfast.tabular.cmdp import FiniteCMDP
from holdfast.tabular.lp import InfeasibleLimits, Optimum, active, optimum

SHOWN_STATES = 20
"""States whose policy the table shows; the JSON output holds all of them."""

SOURCE = (
    "A .json file, toy, implicit-bias, grid:lava, or a Gymnasium id: FrozenLake-v1, "
    "CliffWalking-v1, Taxi-v3."
)
LIMITS = (
    "Cost limits that replace those of the source, one for each constraint; `inf` switches one "
    "off. 'c=2 worst 10%' and 'c=2 in 95%' are limits on single episodes, which end after each "
    "step with probability 1 - gamma. Several constraints are c0, c1, ..."
)


def command(
    source: tyro.conf.Positional[Annotated[str, tyro.conf.arg(help=SOURCE)]],
    limit: Annotated[tuple[str | float, ...], tyro.conf.arg(help=LIMITS)] = (),
    gamma: float | None = None,
    json: bool = False,
) -> None:
    """Solve a finite CMDP exactly: optimum, policy, active constraints, shadow prices.

    Exits with 1 if no policy meets the limits.

    Args:
        gamma: Discount; by default that of the file or example, 0.95 for gridworlds and Gymnasium.
        json: Print JSON instead of a table.
    """
    cmdp = load(source, gamma)
    beyond: dict[int, Limit] = {}
    if limit:
        given, beyond = _given(limit, cmdp.num_constraints)
        if len(limit) != cmdp.num_constraints:
            raise ValueError(
                f"limit={limit} names {len(limit)} limits, but {source} has "
                f"{cmdp.num_constraints} constraint(s): give one for each."
            )
        cmdp = cmdp.with_limit(*given)
    if len(beyond) > 1:
        raise ValueError(
            "only one constraint can have a limit on single episodes: each would be a part of the "
            "state; give the others a number."
        )
    report = episode_solution(cmdp, *next(iter(beyond.items()))) if beyond else solution(cmdp)
    if json:
        print(json_format.dumps(report, indent=2))
    else:
        show_solution(source, report)
    if report["status"] != "optimal":
        raise SystemExit(1)


def solution(cmdp: FiniteCMDP) -> dict[str, Any]:
    """The constrained optimum as plain data; `status` is `optimal` or `infeasible`."""
    limits = [None if np.isinf(b) else float(b) for b in cmdp.cost_limit]
    try:
        best = optimum(cmdp)
    except InfeasibleLimits as error:
        return {
            "status": "infeasible",
            "message": str(error),
            "cost_limit": limits,
            "excess": error.excess.tolist(),
        }
    return {
        "status": "optimal",
        "reward_return": best.reward_return,
        "dual_bound": best.bound,
        "constraints": _constraints(cmdp, best, limits),
        "policy": np.round(best.policy, 12).tolist(),
        "occupancy": np.round(best.occupancy, 15).tolist(),
    }


def _given(words: Sequence[str | float], count: int) -> tuple[list[float], dict[int, Limit]]:
    """Numbers for the constraints in their order, and limits on single episodes by their place."""
    numbers = [np.inf] * len(words)
    beyond: dict[int, Limit] = {}
    names = ["c"] if count == 1 else [f"c{i}" for i in range(count)]
    for i, word in enumerate(words):
        name, equals, text = str(word).rpartition("=")
        if equals and name not in names:
            raise ValueError(f"no constraint is called '{name}'; known are {', '.join(names)}.")
        place = names.index(name) if equals else i
        try:
            numbers[min(place, len(words) - 1)] = float(text)
        except ValueError:
            beyond[place] = parse_limit(text, name)
    return numbers, beyond


def episode_solution(cmdp: FiniteCMDP, constraint: int, limit: Limit) -> dict[str, Any]:
    """The optimum over policies of (state, spent) as plain data; as `solution`."""
    from holdfast.tabular.budget_cmdp import best_within

    try:
        found = best_within(cmdp, constraint, limit)
    except InfeasibleLimits as error:
        return {
            "status": "infeasible",
            "message": f"no policy keeps '{limit}'",
            "cost_limit": [str(limit)],
            "excess": error.excess.tolist(),
        }
    best = found.best
    limits = [None if np.isinf(b) else float(b) for b in found.cmdp.cost_limit]
    rows = _constraints(found.cmdp, best, limits)
    rows[constraint] |= {
        "kind": str(limit),
        "quantity": limit.quantity,
        "limited": found.value,
        "shadow_price": found.price,
        "level": found.level if limit.kind == "tail" else None,
    }
    return {
        "status": "optimal",
        "reward_return": best.reward_return,
        "dual_bound": best.bound,
        "constraints": rows,
        "spent_unit": found.unit,
        "amounts": found.amounts,
        "policy": np.round(best.policy, 12).tolist(),
        "occupancy": np.round(best.occupancy, 15).tolist(),
    }


def _constraints(
    cmdp: FiniteCMDP, best: Optimum, limits: list[float | None]
) -> list[dict[str, Any]]:
    binds = active(cmdp, best.cost_return)
    return [
        {
            "cost_limit": limits[i],
            "cost_return": float(best.cost_return[i]),
            "state": "off" if limits[i] is None else "active" if binds[i] else "slack",
            "shadow_price": float(best.multiplier[i]),
        }
        for i in range(cmdp.num_constraints)
    ]


def show_solution(source: str, report: dict[str, Any]) -> None:
    """Print a solution as tables."""
    console = plain_console()
    if report["status"] == "infeasible":
        console.print(styled(("infeasible", "bold red"), f": {report['message']}"))
        return
    best = f"{report['reward_return']:.8g}"
    console.print(styled((source, "bold"), ": optimum V_r = ", (best, "cyan")))
    gap = report["dual_bound"] - report["reward_return"]
    console.print(f"dual bound minus optimum {gap:.1e}")
    table = Table("constraint", "V_c", "limit", "state", "shadow price", box=None)
    for i, row in enumerate(report["constraints"]):
        limit = "inf" if row["cost_limit"] is None else f"{row['cost_limit']:.6g}"
        price = f"{row['shadow_price']:.6g}"
        value = f"{row['cost_return']:.6g}"
        if "kind" in row:
            console.print(f"{row['quantity']}: {row['limited']:.6g}, limit {row['kind']}")
            value, limit = f"{row['limited']:.6g}", row["kind"]
        table.add_row(str(i), value, limit, row["state"], price)
    console.print(table)
    policy, amounts = report["policy"], report.get("amounts", 0)
    first = ("state", "spent") if amounts else ("state",)
    table = Table(*first, *(f"a{a}" for a in range(len(policy[0]))), box=None)
    for s, row in enumerate(policy[:SHOWN_STATES]):
        spent = f"{s % amounts * report['spent_unit']:g}" if amounts else ""
        place = (str(s // amounts), spent) if amounts else (str(s),)
        table.add_row(*place, *(f"{p:.4f}" if p > 5e-5 else "·" for p in row))
    console.print(table)
    if len(policy) > SHOWN_STATES:
        console.print(f"... and {len(policy) - SHOWN_STATES} more states; --json shows all")
