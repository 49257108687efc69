# SPDX-License-Identifier: Apache-2.0
"""The one kind of console that Holdfast prints to.

Text is printed as it is: rich would turn `car.py:Car` into a picture of a car and drop `[wandb]`
from a sentence. Colours are given as `rich.text.Text`, never as codes inside a text.
"""

from rich.console import Console
from rich.text import Text


def plain_console(stderr: bool = False, quiet: bool = False) -> Console:
    """A console without markup, emoji codes or highlighting; a quiet one prints nothing."""
    return Console(stderr=stderr, quiet=quiet, markup=False, emoji=False, highlight=False)


def styled(*parts: str | Text | tuple[str, str]) -> Text:
    """Parts of a text, some as (text, style)."""
    return Text.assemble(*parts)


def counted(number: int, noun: str) -> str:
    """1 episode, 2 episodes, 20,000 episodes."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
