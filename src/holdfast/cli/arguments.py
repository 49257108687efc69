# SPDX-License-Identifier: Apache-2.0
"""Arguments of several commands: run folders, NAME=VALUE pairs, environments, evaluation."""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, TypeVar

from tyro.conf import UseAppendAction, arg
from tyro.constructors import PrimitiveConstructorSpec

from holdfast.cluster.storage import local_copy
from holdfast.core.limits import Limit, parse_limit
from holdfast.runs.checkpoint import Which

Value = TypeVar("Value")


def one_word(
    metavar: str,
    kind: type[object] | UnionType,
    read: Callable[[str], Value],
    spell: Callable[[Value], str] = str,
) -> PrimitiveConstructorSpec[Value]:
    """An argument of one word, with its own parser and spelling."""
    return PrimitiveConstructorSpec(
        nargs=1,
        metavar=metavar,
        instance_from_str=lambda words: read(words[0]),
        is_instance=lambda value: isinstance(value, kind),
        str_from_instance=lambda value: [spell(value)],
    )


def whole(text: str) -> int:
    """An integer, also written as 1e6 or 20_000."""
    number = float(text.replace("_", ""))
    if not number.is_integer():
        raise ValueError(f"{text} is not a whole number")
    return int(number)


def which_policy(text: str) -> Which:
    if text == "newest" or text == "best":
        return text
    try:
        return whole(text)
    except ValueError:
        raise ValueError(
            f"--which {text} must be newest, best, or the epoch of a checkpoint that is kept."
        ) from None


Whole = Annotated[int, one_word("INT", int, whole)]
WholeOrNone = Annotated[int | None, one_word("INT", int | None, whole)]
Out = Annotated[Path, arg(aliases=["-o"])]
OutOrNone = Annotated[Path | None, arg(aliases=["-o"])]


def folder_of(text: str) -> Path:
    """A run by its path, URI or name in the zoo; an error is one sentence."""
    try:
        return local_copy(text)
    except ValueError as error:  # the parser would put its own words around it
        raise RuntimeError(str(error)) from error


RunFolder = Annotated[Path, one_word("PATH|URI|zoo/TASK", Path, folder_of)]
"""One run, with its newest checkpoint."""
WHICH = (
    "The newest policy, the best safe one by its fresh episodes (train with --evaluate-every), "
    "or that of an epoch with a kept checkpoint."
)
WhichPolicy = Annotated[
    Which, one_word("newest|best|EPOCH", int | str, which_policy), arg(help=WHICH)
]
"""Which policy of a run, as for `Agent.load`."""
Records = Annotated[Path, one_word("PATH|URI", Path, partial(local_copy, small=True))]
"""A run or the parent of many, without checkpoints."""


@dataclass(frozen=True)
class EnvironmentOptions:
    """Another environment than that of the run, and consent to import the run's."""

    env: str | None = None
    """Use this environment instead: an id, module:Class or path/to/file.py:Class."""
    env_arg: UseAppendAction[tuple[str, ...]] = ()
    """An argument of the environment, NAME=VALUE; repeat it for several."""
    cost: str | None = None
    """A cost function's name, module:function or file.py:function."""
    trust_env: bool = False
    """Import the environment that the run folder names, if it is not built in."""

    def given(self) -> dict[str, Any]:
        """Keyword arguments for `Agent`."""
        args = parse_args(self.env_arg)
        if args and self.env is None:
            raise ValueError("--env-arg belongs to --env: name the environment too.")
        named = {"env": self.env, "env_args": None if self.env is None else args}
        return named | {"cost": self.cost, "trust_env": self.trust_env}


@dataclass(frozen=True)
class Judging:
    """Number and kind of the evaluation episodes."""

    episodes: Whole = 100
    """Number of fresh episodes."""
    until_decided: bool = False
    """Run more episodes until the policy is proved safe or unsafe."""
    max_episodes: Whole = 10_000
    """Largest number of episodes, even if nothing is proved."""
    cost_bound: float | None = None
    """Largest possible cost of one episode; native tasks and probes declare it."""
    seed: int = 1_000_000
    """Seed of the episodes; it differs from the training seeds."""
    greedy: bool = False
    """Take the most likely action instead of sampling."""

    def given(self) -> dict[str, Any]:
        """Keyword arguments for `Agent.evaluate`."""
        names = ("episodes", "until_decided", "max_episodes", "cost_bound", "seed")
        own = {name: getattr(self, name) for name in names}
        return own | {"deterministic": self.greedy}


def parse_args(pairs: Iterable[str]) -> dict[str, object]:
    """--env-arg size=5 --env-arg name=north: values are JSON if they parse, else texts."""
    args: dict[str, object] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not name.isidentifier() or not equals:
            raise ValueError(f"--env-arg {pair} is not NAME=VALUE; write --env-arg size=5.")
        try:
            args[name] = json.loads(value)
        except ValueError:
            args[name] = value
    return args


def parse_limits(pairs: Iterable[str]) -> dict[str, float | str]:
    """--limit hazards=25 --limit 'vases=10 worst 5%'"""
    limits: dict[str, float | str] = {}
    for pair in pairs:
        name, equals, words = pair.partition("=")
        if name in limits:
            raise ValueError(
                f"--limit {pair} follows --limit {name}={parse_limit(limits[name])}: give "
                f"'{name}' one limit."
            )
        if not name or not equals or not words.strip():
            raise ValueError(
                f"--limit {pair} is not NAME=NUMBER; write --limit hazards=25, or --cost-limit 25 "
                "for all costs."
            )
        try:
            limits[name] = float(words)
        except ValueError:
            limits[name] = parse_limit(words, name).plain
    return limits


def judging_limits(words: tuple[str, ...]) -> Limit | dict[str, float | str] | None:
    """10 or '10 worst 5%', or spill=10 for each of several; none: the run's."""
    if len(words) == 1 and "=" not in words[0] and words[0][:1].isdigit():
        return parse_limit(words[0])
    return parse_limits(words) or None
