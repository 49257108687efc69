# SPDX-License-Identifier: Apache-2.0
"""Facts of an environment: its spaces, costs, limits and episodes."""

from collections.abc import Mapping, Sequence

from holdfast.envs.base import VecEnv, native_spaces
from holdfast.envs.foreign.costs import CostFunction
from holdfast.envs.foreign.source import EnvSource
from holdfast.envs.make import is_given, is_vectorised, make_env, num_envs_of


def describe_env(
    env: EnvSource | VecEnv,
    *,
    env_args: Mapping[str, object] | None = None,
    constraints: Sequence[str] | None = None,
    cost: CostFunction | str | None = None,
) -> str:
    """Four lines of facts; arguments as for `make_env`."""
    count = num_envs_of(env) if is_vectorised(env) else 1
    made = make_env(env, count, env_args=env_args, constraints=constraints, cost=cost)
    try:
        return describe_batch(made)
    finally:
        if not is_given(env):
            made.close()


def describe_batch(env: VecEnv) -> str:
    """The same for an open batch."""
    facts, (seen, acted) = env.facts, native_spaces(env)
    names = facts.cost_parts or env.cost_names
    costs = ", ".join(names)
    if facts.cost_parts:
        own = " ".join(f"--limit {name}=NUMBER" for name in names)
        costs += f" (added up to one; for limits of their own: {own})"
    if facts.free_costs:
        costs += f"; reported, but without a limit: {', '.join(facts.free_costs)}"
    limits = ", ".join(f"{name} {limit:g}" for name, limit in facts.cost_limits.items())
    steps = f"up to {facts.time_limit} steps" if facts.time_limit else "no time limit is declared"
    lines = {
        "observations": str(seen),
        "actions": str(acted),
        "costs": costs,
        "limits": limits or "none declared: give one, the mean cost of an episode that you accept",
        "episodes": steps,
    }
    return "\n".join(f"{name + ':':<14}{' '.join(text.split())}" for name, text in lines.items())
