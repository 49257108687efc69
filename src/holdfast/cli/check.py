# SPDX-License-Identifier: Apache-2.0
"""`holdfast check`: faults of an environment, and how to fix them."""

from __future__ import annotations

import tyro

from holdfast.console import plain_console


def command(
    env: tyro.conf.Positional[str],
    env_arg: tyro.conf.UseAppendAction[tuple[str, ...]] = (),
    cost: str | None = None,
    limit: tyro.conf.UseAppendAction[tuple[str, ...]] = (),
    suggest_limit: bool = False,
) -> None:
    """Find faults in an environment and show how to fix them.

    Args:
        env: An id, module:Class or path/to/file.py:Class.
        env_arg: An argument of the environment, NAME=VALUE; repeat it for several.
        cost: The cost function's name, module:function or file.py:function.
        limit: A separate constraint with its limit, NAME=VALUE, as for train.
        suggest_limit: Print the cost of random behaviour, to help choose a limit.
    """
    from holdfast.cli.arguments import parse_args, parse_limits
    from holdfast.envs.check import check_env, print_findings

    constraints = tuple(parse_limits(limit)) or None
    args = parse_args(env_arg)
    findings = check_env(env, env_args=args, constraints=constraints, cost=cost)
    print_findings(findings)
    broken = any(finding.severity == "error" for finding in findings)
    if not broken:
        from holdfast.envs.check.facts import describe_env

        text = describe_env(env, env_args=args, constraints=constraints, cost=cost)
        plain_console().print(text, soft_wrap=True)
    if broken:
        raise SystemExit(1)
    if suggest_limit:
        from holdfast.envs.check.chance import suggest_limit as suggest

        text = str(suggest(env, env_args=args, constraints=constraints, cost=cost))
        plain_console().print(text)
