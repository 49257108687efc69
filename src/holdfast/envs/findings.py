# SPDX-License-Identifier: Apache-2.0
"""A finding of `check_env`: what is wrong with an environment, and how to mend it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from rich.console import Console
from rich.table import Table

Severity = Literal["error", "warning", "note"]


@dataclass(frozen=True)
class Finding:
    """One fault: an error stops training, a warning spoils it, a note is worth knowing."""

    severity: Severity
    check: str
    """A short name of the rule."""
    problem: str
    remedy: str


def print_findings(findings: Sequence[Finding], console: Console | None = None) -> None:
    """A table for people."""
    console = console or Console()
    if not findings:
        console.print("[green]nothing found: ready to train[/green]")
        return
    table = Table("severity", "check", "problem", "how to mend it")
    colour = {"error": "red", "warning": "yellow", "note": "cyan"}
    for f in findings:
        shade = colour[f.severity]
        table.add_row(
            f"[{shade}]{f.severity}[/{shade}]", f.check, _plain(f.problem), _plain(f.remedy)
        )
    console.print(table)


def _plain(text: str) -> str:
    return text.replace("[", r"\[")
