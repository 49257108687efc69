# SPDX-License-Identifier: Apache-2.0
"""Commands that look: list, plot, envs, check. Each is parsed by its signature."""

from __future__ import annotations

import tyro
from rich.table import Table
from rich.text import Text

from holdfast.cli.arguments import OutOrNone, RunFolder
from holdfast.console import plain_console, styled

PAPER = (
    "The paper's C-TRPO: --preset published; its runs are 10 million steps (--steps 1e7). What its "
    "text writes: --preset text. Without a preset it is Holdfast's default."
)


def list_command(algorithm: tyro.conf.Positional[str] = "") -> None:
    """Algorithms, or the settings of one and what each preset changes."""
    from holdfast.algorithms import ALGORITHMS

    console = plain_console()
    if not algorithm:
        table = Table("name", "what it does", box=None, title="Algorithms", title_justify="left")
        for name, entry in ALGORITHMS.items():
            table.add_row(Text(name, "cyan"), entry.summary)
        console.print(table)
        console.print("\n`holdfast list NAME` shows its settings; `holdfast envs` the tasks.")
        return
    from holdfast.algorithms import CTRPO
    from holdfast.cli.options import default_of, flag, grouped
    from holdfast.register import PRESETS
    from holdfast.run import make_run, preset_changes
    from holdfast.settings import without_codes

    run = make_run(algorithm)
    table = Table("option", "default", "meaning", box=None, title=run.name, title_justify="left")
    defaults: dict[str, object] = {}
    for title, settings in grouped(run).items():
        table.add_row("", "", Text(title, "bold"))
        for setting in settings:
            defaults[setting.path] = setting.value
            words = without_codes(setting.help)
            table.add_row(Text(flag(setting.name), "cyan"), default_of(setting), words)
    console.print(table)
    if isinstance(run.algorithm, CTRPO):
        console.print(f"\n{PAPER}", markup=False)
    for preset in PRESETS:
        changes = {k: v for k, v in preset_changes(run, preset).items() if defaults.get(k) != v}
        console.print(Text(f"\n--preset {preset}", "bold"), "changes")
        for setting, value in changes.items():
            console.print(f"  {setting.split('.')[-1]} = {value}")
        if not changes:
            console.print("  nothing")


def plot_command(run: tyro.conf.Positional[RunFolder], out: OutOrNone = None) -> None:
    """Draw return, cost against limit and regret of a run.

    Args:
        run: The run folder.
        out: The picture's file; the suffix chooses PNG, SVG or PDF. Default: RUN/progress.png.
    """
    from holdfast.runs.folder import open_folder
    from holdfast.runs.plot import plot_run
    from holdfast.runs.storage import sync_back

    print(plot_run(open_folder(run), out or run / "progress.png"))
    sync_back(run)


def envs_command(env: tyro.conf.Positional[str] = "") -> None:
    """Native tasks and probes, or a description of one.

    Args:
        env: An id; none lists all.
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
        console.print("works too, and so does a class of your own: `holdfast check ENV`.")
    elif env in known_ids():
        console.print(describe(env))
    else:
        from holdfast.settings import nearest

        other = f"`holdfast envs` lists ours, and `holdfast check {env}` looks at any other."
        close = same_body(env, known_ids())
        hint = f"; did you mean '{close}'?" if close else nearest(env, known_ids(), other)
        raise ValueError(f"'{env}' is none of ours{hint}")


def check_command(
    env: tyro.conf.Positional[str],
    env_arg: tyro.conf.UseAppendAction[tuple[str, ...]] = (),
    cost: str | None = None,
    limit: tyro.conf.UseAppendAction[tuple[str, ...]] = (),
    suggest_limit: bool = False,
) -> None:
    """Look for faults in an environment and say how to mend them.

    Args:
        env: An id, module:Class or path/to/file.py:Class.
        env_arg: An argument to make it with, NAME=VALUE; repeat it for several.
        cost: The cost function's name, module:function or file.py:function.
        limit: A constraint of its own with its limit, NAME=VALUE, as for train.
        suggest_limit: Say what random behaviour costs, to choose a limit by.
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

        said = describe_env(env, env_args=args, constraints=constraints, cost=cost)
        plain_console().print(said, soft_wrap=True)
    if broken:
        raise SystemExit(1)
    if suggest_limit:
        from holdfast.envs.check.chance import suggest_limit as suggest

        said = str(suggest(env, env_args=args, constraints=constraints, cost=cost))
        plain_console().print(said)
