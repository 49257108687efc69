# SPDX-License-Identifier: Apache-2.0
"""`holdfast zoo`: list trained policies of the library."""

from __future__ import annotations

from pathlib import Path

import tyro
from rich.table import Table

from holdfast.cli.arguments import Whole
from holdfast.console import plain_console


def command(
    name: tyro.conf.Positional[str] = "",
    make: tuple[Path, ...] = (),
    to: Path | None = None,
    episodes: Whole = 200,
) -> None:
    """List the trained policies of the library, or make new ones from run folders.

    Args:
        name: Show this policy only.
        make: Run folders or their parents; the policy of each task's lowest seed is added.
        to: The folder of the zoo; by default the library's own.
        episodes: Fresh episodes for the evaluation of each.
    """
    from holdfast.records.zoo import entries, entry_of, zoo_folder

    console = plain_console()
    if make:
        from holdfast.ship.certify.make_zoo import make_zoo

        report = lambda text: console.print(text, soft_wrap=True)
        make_zoo(make, to or zoo_folder(), episodes, report)
        return
    found = entries(to)
    if name:
        found = dict([entry_of(name, found)])
    if not found:
        console.print(
            "No policies come with this installation; `holdfast zoo --make RUNS` adds those of "
            "run folders.",
        )
        return
    table = Table("name", "return", "cost", "limit", "proved safe", box=None)
    for task, entry in found.items():
        costs = [f"{float(mean):.1f}" for mean in entry["cost"].values()]
        limits = [f"{float(limit):g}" for limit in entry["limits"].values()]
        row = (f"zoo/{task}", f"{float(entry['return']):.1f}", ", ".join(costs), ", ".join(limits))
        table.add_row(*row, str(entry["safe_at_95"]))
    console.print(table)
    task = next(iter(found))
    console.print()
    for what, how in (
        ("Film", f"holdfast watch zoo/{task} -o film.gif"),
        ("Verdict", f"holdfast evaluate zoo/{task}"),
        ("Deploy", f"holdfast export zoo/{task} -o policy.onnx"),
    ):
        console.print(f"{what + ':':<12}{how}", soft_wrap=True)
