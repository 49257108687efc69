# SPDX-License-Identifier: Apache-2.0
"""Writes src/holdfast/keywords.py: every setting as a typed keyword, so that editors complete it.

python .ci/keywords.py
"""

import textwrap
import types
import typing
from pathlib import Path

from holdfast.algorithms import ALGORITHMS
from holdfast.run import make_run
from holdfast.settings import Setting, choices, leaves, suggested

TARGET = Path(__file__).parents[1] / "src" / "holdfast" / "keywords.py"
PASSED = ("env", "cost", "name", "origin", "preset", "steps", "limits")
"""Settings that are separate arguments of `Agent` or `learn`, or that they do not take."""
HEAD = '''# SPDX-License-Identifier: Apache-2.0
"""The settings of a run and of all algorithms as typed keywords of `Agent` and `learn`.

Written by .ci/keywords.py from the settings themselves; a test compares.
"""

from collections.abc import Mapping
from typing import Literal, TypedDict


class SettingArguments(TypedDict, total=False):
    """`holdfast list ALGORITHM` explains each; an algorithm refuses settings it does not have."""

    limits: float | Mapping[str, float]
    """Limits by constraint name; one number: the limit of the one cost (or of each)."""
'''


def spelt(kind: object) -> str:
    """A type as source."""
    options, args = choices(kind), typing.get_args(kind)
    if suggested(kind):
        return spelt(args[0])
    if options is not None:
        return f"Literal[{', '.join(map(repr, options)).replace(chr(39), chr(34))}]"
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        return " | ".join(map(spelt, args))
    if isinstance(kind, type) and not args:
        return "None" if kind is type(None) else kind.__name__
    return str(kind)


def text() -> str:
    """The whole file."""
    found: dict[str, Setting] = {}
    for algorithm in ALGORITHMS:
        for setting in leaves(make_run(algorithm)):
            found.setdefault(setting.name, setting)
    lines = [HEAD.rstrip("\n")]
    for name, setting in found.items():
        if name in PASSED:
            continue
        lines.append(f"    {name}: {spelt(setting.kind)}")
        words = textwrap.wrap(setting.help or "See its page.", 90)
        lines.append('    """' + "\n    ".join(words) + '"""')
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    TARGET.write_text(text(), encoding="utf-8")
