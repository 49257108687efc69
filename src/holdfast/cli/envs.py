# SPDX-License-Identifier: Apache-2.0
"""`holdfast envs`: native tasks and probes, and a description of one."""

from __future__ import annotations

import shlex

import tyro
from rich.text import Text

from holdfast.console import plain_console, styled


def command(env: tyro.conf.Positional[str] = "") -> None:
    """List native tasks and probes, or describe one.

    Args:
        env: An id; without it all are listed.
    """
    from holdfast.envs.foreign.source import same_body
    from holdfast.envs.make import describe, known_ids, task_groups

    console = plain_console()
    if not env:
        for title, tasks in task_groups().items():
            console.print(Text(title, "bold"))
            for name, words in tasks.items():
                console.print(styled((f"  {name:<30}", "cyan"), f" {words}"), soft_wrap=True)
        console.print("\n`holdfast envs NAME` describes one. Any Gymnasium id that reports a cost")
        console.print("works too, and so does your own class: `holdfast check ENV`.")
    elif env in known_ids():
        console.print(describe(env))
    else:
        from holdfast.settings import nearest

        check = f"`holdfast check {shlex.quote(env)}`"
        other = f"`holdfast envs` lists ours, and {check} looks at any other."
        close = same_body(env, known_ids())
        hint = f"; did you mean '{close}'?" if close else nearest(env, known_ids(), other)
        raise ValueError(f"'{env}' is not a native task or probe{hint}")
