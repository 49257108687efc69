# SPDX-License-Identifier: Apache-2.0
"""`holdfast list`: list algorithms, or the settings of one."""

from __future__ import annotations

import tyro
from rich.table import Table
from rich.text import Text

from holdfast.console import plain_console

PAPER = (
    "The paper's C-TRPO: --preset published; its runs have 10 million steps (--steps 1e7). As in "
    "its text: --preset text. Without a preset it is Holdfast's default."
)


def command(algorithm: tyro.conf.Positional[str] = "") -> None:
    """List algorithms, or the settings of one and those that each preset changes.

    Args:
        algorithm: Its name; without it all algorithms are listed.
    """
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

    run = make_run(algorithm)
    table = Table("option", "default", "meaning", box=None, title=run.name, title_justify="left")
    defaults: dict[str, object] = {}
    for title, settings in grouped(run).items():
        table.add_row("", "", Text(title, "bold"))
        for setting in settings:
            defaults[setting.path] = setting.value
            table.add_row(Text(flag(setting.name), "cyan"), default_of(setting), setting.help)
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
