# SPDX-License-Identifier: Apache-2.0
"""Errors name Python's arguments; here they get the options of the command line.

`epoch_steps=1000` becomes `--epoch-steps 1000`, `limits={'heat': 5}` becomes `--limit heat=5`.
"""

import re
import sys
from typing import NoReturn

from holdfast.console import plain_console, styled

OWN = {
    "trust_env": "--trust-env",
    "env_args": "--env-arg",
    "cost_bound": "--cost-bound",
    "until_decided": "--until-decided",
    "max_episodes": "--max-episodes",
    "deterministic": "--greedy",
    "tensorboard": "--tensorboard",
    "wandb": "--wandb",
    "out": "--out",
    "cost": "--cost",
    "env": "--env",
    "limits": "--limit",
}
"""Arguments of `Agent` that are options of commands."""


def fail(message: str, code: int) -> NoReturn:
    """Exit with an error; a long message is cut, and control characters are replaced."""
    plain = "".join(c if c.isprintable() or c in "\n\t" else "?" for c in message[:4000])
    words = styled(("holdfast:", "bold red"), f" {plain}")
    plain_console(stderr=True).print(words, soft_wrap=True)
    raise SystemExit(code)


def for_shell(message: str) -> str:
    """The message with options in place of Python's arguments."""
    flags = OWN | _settings()
    message = re.sub(r"\blimits=\{([^}]*)\}", lambda m: _limits(m[1]), message)
    message = re.sub(r"\blimits=NUMBER", "--limit NUMBER", message)
    message = re.sub(r"\benv_args=\{?\.\.\.\}?", "--env-arg NAME=VALUE", message)
    value = r"(=(?:'([^']*)'|True\b|[\w.+-]*[\w])?)?"
    return re.sub(  # but "the limit cost=5" is of a cost that is called cost
        r"(?<![\w'\"\[./<-])(?<!the limit )([a-z]+(?:_[a-z]+)*)" + value + r"(?![\w(])",
        lambda m: _flag(m, flags),
        message,
    )


def _flag(found: re.Match[str], flags: dict[str, str]) -> str:
    name, value, quoted = found[1], found[2], found[3]
    # A plain word such as "steps" is a word, unless a value stands behind it.
    if name not in flags or (value is None and "_" not in name):
        return found[0]
    given = quoted if quoted is not None else (value or "=")[1:]
    return flags[name] if given in ("", "True") else f"{flags[name]} {given}"


def _limits(pairs: str) -> str:
    """'heat': 5, 'speed': 2"""
    each = (pair.partition(":") for pair in pairs.split(","))
    return " ".join(
        f"--limit {name.strip(chr(39) + ' ')}={value.strip()}" for name, _, value in each
    )


def _settings() -> dict[str, str]:
    """Names of the settings of all algorithms, if these modules are loaded; else none."""
    if "holdfast.run" not in sys.modules:
        return {}
    from holdfast.algorithms import ALGORITHMS
    from holdfast.run import Run
    from holdfast.settings import leaves

    runs = (Run(algorithm=entry.make(), name=name) for name, entry in ALGORITHMS.items())
    names = {setting.name for run in runs for setting in leaves(run)}
    return {name: "--" + name.replace("_", "-") for name in names}
