# SPDX-License-Identifier: Apache-2.0
"""Sources of the costs of a foreign environment.

Gymnasium defines no costs, so projects use `info["cost"]` (a number, or one for each constraint),
named `info["cost_*"]` keys, or a sixth return value. `find_cost` determines the source from one
real step; `read_cost` then reads K numbers from every step.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np

from holdfast.envs.base import Floats
from holdfast.settings import near_miss

CostFunction = Callable[..., Any]
"""(obs, action, next_obs) or (obs, action, next_obs, info) -> a number, or one per constraint."""


class Transition(NamedTuple):  # made in every step: a frozen dataclass takes six times as long
    """One step in the environment's own form."""

    obs: Any
    action: Any
    next_obs: Any
    reward: Any
    cost: Any
    """The cost among six return values; None if there are five."""
    terminated: Any
    truncated: Any
    info: Mapping[str, Any]


@dataclass(frozen=True)
class CostSource:
    """The source of an environment's K costs."""

    kind: Literal["function", "returned", "info", "sum"]
    names: tuple[str, ...]
    keys: tuple[str, ...] = ()
    """The info keys to read (`info`: one for each constraint; `sum`: added up)."""
    function: CostFunction | None = None
    wants_info: bool = False
    free: tuple[str, ...] = ()
    """Names of the costs in `info` that are part of no constraint."""

    @property
    def parts(self) -> tuple[str, ...]:
        """The constraints whose sum is the single cost; each could have its own limit."""
        added = self.keys if self.kind == "sum" and len(self.keys) > 1 else ()
        return tuple(key.removeprefix("cost_") for key in added)

    def called(self, step: Transition) -> Any:
        """The cost of a step by the user's function."""
        assert self.function is not None
        more = (step.info,) if self.wants_info else ()
        return self.function(step.obs, step.action, step.next_obs, *more)


def find_cost(
    label: str,
    seen: Transition,
    constraints: Sequence[str] | None = None,
    function: CostFunction | None = None,
) -> CostSource:
    """Find the source of the costs from one observed step; ValueError if there is none."""
    if constraints is not None:
        constraints = _checked_names(constraints)
    if function is not None:
        source = CostSource("function", (), (), function, _wants_info(function))
        return _named(label, source, seen, constraints)
    if constraints is not None:
        keys = _named_keys(seen.info, constraints)
        if keys is not None:
            return CostSource("info", constraints, keys, free=_free(seen.info, keys))
    source = _total(seen)
    if source is None:
        raise ValueError(
            f"Env {label} reports no cost: return it in info['cost'], "
            "or pass cost= a function of (obs, action, next_obs)."
        )
    return _named(label, source, seen, constraints)


def read_cost(source: CostSource, step: Transition) -> Floats | float:
    """The costs of one step, [K] (or a number); NaN and infinity are passed on unchanged."""
    missing = next((key for key in source.keys if key not in step.info), None)
    if missing is not None:
        raise ValueError(
            f"info[{missing!r}] is missing from this step: report the cost in every step, 0 for "
            "safe ones."
        )
    value = _raw(source, step)
    if isinstance(value, float | int) and len(source.names) == 1:
        return value
    try:
        cost = np.asarray(value, np.float64).reshape(-1)
    except (TypeError, ValueError):
        raise ValueError(
            "the cost of this step is not a number: return one, or one for each constraint, "
            f"instead of {repr(value)[:80]}."
        ) from None
    if len(cost) != len(source.names):
        raise ValueError(
            f"this step has {len(cost)} costs, and the first one had {len(source.names)}: return "
            "equally many in every step."
        )
    return cost


def cost_keys(info: Mapping[str, Any]) -> tuple[str, ...]:
    """The named single costs in `info`; `cost_sum` is a total, not a constraint."""
    return tuple(key for key in info if key.startswith("cost_") and key != "cost_sum")


def _raw(source: CostSource, step: Transition) -> Any:
    match source.kind:
        case "function":
            return source.called(step)
        case "returned":
            return step.cost
        case "info":
            values = [step.info[key] for key in source.keys]
            return values[0] if len(values) == 1 else values
        case "sum":
            return sum(float(step.info[key]) for key in source.keys)


def _total(seen: Transition) -> CostSource | None:
    """The environment's own single cost (or cost vector), the most explicit source first."""
    if seen.cost is not None:
        return CostSource("returned", ())
    for key in ("cost", "cost_sum"):
        if key in seen.info:
            return CostSource("info", (), (key,))
    keys = cost_keys(seen.info)
    return CostSource("sum", (), keys) if keys else None


def _named(
    label: str, source: CostSource, seen: Transition, constraints: tuple[str, ...] | None
) -> CostSource:
    """Count the costs of the observed step and name them."""
    count = np.size(_raw(source, seen))
    if constraints is None:
        names = ("cost",) if count == 1 else tuple(f"cost_{i}" for i in range(count))
    elif len(constraints) == count and (count > 1 or source.kind == "function"):
        names = constraints  # an unnamed vector, or the user's own function: the user names it
    elif constraints == ("cost",) and count == 1:
        names = constraints
    else:
        raise ValueError(_mismatch(label, seen, count, constraints))
    return replace(source, names=names)


def _named_keys(info: Mapping[str, Any], constraints: tuple[str, ...]) -> tuple[str, ...] | None:
    """`hazards` or `cost_hazards` select info['cost_hazards']; None unless all are there."""
    keys = [
        next((key for key in (f"cost_{name}", name) if key in info), None) for name in constraints
    ]
    if any(key is None or not key.startswith("cost") for key in keys):
        return None
    return tuple(key for key in keys if key is not None)


def _free(info: Mapping[str, Any], keys: tuple[str, ...]) -> tuple[str, ...]:
    """The costs that no constraint reads; a total is taken to contain all of them."""
    if {"cost", "cost_sum"} & set(keys):
        return ()
    return tuple(key.removeprefix("cost_") for key in cost_keys(info) if key not in keys)


def _mismatch(label: str, seen: Transition, count: int, constraints: tuple[str, ...]) -> str:
    available = [key.removeprefix("cost_") for key in cost_keys(seen.info)]
    asked = ", ".join(repr(name) for name in constraints)
    if not available:
        have = "one cost" if count == 1 else f"{count} unnamed costs"
        remedy = f"name all {count}"
        if count == 1:
            keys = ", ".join(f"info['cost_{name.removeprefix('cost_')}']" for name in constraints)
            remedy = f"call it 'cost', or report {keys} too"
        return f"Env {label} reports {have}, but constraints are {asked}: {remedy}."
    unknown = next((n for n in constraints if n.removeprefix("cost_") not in available), asked)
    close = near_miss(unknown, available)
    hint = f"; did you mean {close!r}?" if close else "."
    return f"Env {label} has no constraint {unknown!r}; it reports {', '.join(available)}{hint}"


def _checked_names(constraints: Sequence[str]) -> tuple[str, ...]:
    if isinstance(constraints, str) or not constraints or len(set(constraints)) < len(constraints):
        raise ValueError(
            f"constraints={constraints!r} must be different names in a tuple, "
            "for example ('hazards', 'vases')."
        )
    return tuple(constraints)


def _wants_info(function: CostFunction) -> bool:
    """Whether the function takes info, too; a fourth parameter with a default does not count."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:  # some compiled functions have no signature
        return False
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    required = [p for p in positional if p.default is p.empty]
    variadic = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    if len(required) > 4 or (len(positional) < 3 and not variadic):
        raise ValueError(
            f"cost={getattr(function, '__name__', function)!r} takes {len(positional)} arguments: "
            "it must take (obs, action, next_obs) or (obs, action, next_obs, info)."
        )
    return len(positional) > 3 and (len(required) == 4 or positional[3].name == "info")
