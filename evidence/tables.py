# SPDX-License-Identifier: Apache-2.0
"""Tables of the pages: rows of texts as Markdown, tasks and numbers as they are written there."""

from __future__ import annotations

Rows = list[list[str]]
"""The head first."""


def markdown(rows: Rows) -> str:
    head, *rest = rows
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rest]) + "\n"


def short(task: str) -> str:
    """A task as tables name it: without prefix and version; of one's own the class."""
    own = task.rpartition(":")[2]
    return own.removeprefix("Safety").rpartition("-")[0] or own


def number(value: float, sign: str = "") -> str:
    """Three digits, all that stand before the point, and zero as such; "+" shows every sign."""
    return f"{value:{sign}.{'0f' if abs(value) >= 100 or value == 0 else '3g'}}"
