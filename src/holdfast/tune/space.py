# SPDX-License-Identifier: Apache-2.0
"""The search space of a study: settings of a run, each with its range.

    radius               the setting's own range, from its default and what the setting accepts
    radius=0.001..0.1    from .. to; by factors where the second is at least ten times the first
    barrier=log,entropy  one of these

The own range of a number is from a tenth of its default to ten times it (a quarter to four times
for whole numbers). If the setting does not accept these, as with γ = 0.99, the range of 1 − γ is
from a tenth to ten times. A switch and a named choice have all their values.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.run import Run, configure
from holdfast.settings import Setting, choices, converted, leaves, nearest, shown, spelt, suggested

Param = float | int | str | bool
USUAL = ("radius", "beta", "cost_lam", "learning_rate", "penalty")
"""Settings that are searched by default, if the algorithm has them."""
FIXED = ("env", "seed", "steps", "name", "preset", "origin", "cost", "cost_limit", "env_args")
"""Settings that cannot be searched: they define the task, or the computation of its results."""
WIDE = 10.0
"""A range of at least this factor is searched by factors."""


@dataclass(frozen=True)
class Dimension:
    """One setting and its range."""

    name: str
    low: float = 0.0
    high: float = 0.0
    whole: bool = False
    log: bool = False
    complement: bool = False
    """Searched as 1 − value."""
    options: tuple[Param, ...] = ()
    """The values to choose from; none: a range."""

    def __str__(self) -> str:
        if self.options:
            return f"{self.name} in {', '.join(map(str, self.options))}"
        ends = (1 - self.high, 1 - self.low) if self.complement else (self.low, self.high)
        return f"{self.name} in {ends[0]:g} .. {ends[1]:g}{', by factors' if self.log else ''}"

    def setting(self, param: Param) -> Param:
        """The setting's value for a sampled parameter."""
        return 1 - float(param) if self.complement else param

    def distribution(self, optuna: Any) -> Any:
        """Optuna's distribution."""
        kinds = optuna.distributions
        if self.options:
            return kinds.CategoricalDistribution(self.options)
        if self.whole:
            return kinds.IntDistribution(int(self.low), int(self.high), log=self.log)
        return kinds.FloatDistribution(self.low, self.high, log=self.log)


def parse_space(run: Run, words: Sequence[str]) -> tuple[Dimension, ...]:
    """The search space of a command line; all ends of ranges are checked on the run."""
    known = {setting.name: setting for setting in leaves(run)}
    chosen = list(words) or [name for name in USUAL if name in known]
    if not chosen:
        raise ValueError(f"{run.name} has none of {', '.join(USUAL)}: name settings by --search.")
    found: dict[str, Dimension] = {}
    for word in chosen:
        name, equals, given = word.partition("=")
        name = name.lstrip("-").replace("-", "_")
        if name not in known or name in FIXED:
            free = sorted(set(known) - set(FIXED))
            raise ValueError(f"--search {word}: no setting to search{nearest(name, free)}")
        if name in found:
            raise ValueError(f"--search names '{name}' twice: give it one range.")
        setting = known[name]
        found[name] = _given(setting, given, word) if equals else own_range(run, setting)
        for param in _ends(found[name]):
            if not _accepts(run, found[name], param):
                raise ValueError(
                    f"--search {word}: {name}={found[name].setting(param)} is not accepted: "
                    f"{_complaint(run, found[name], param)}"
                )
    return tuple(found.values())


def own_range(run: Run, setting: Setting) -> Dimension:
    """From the setting's type, its default and what it accepts."""
    name, value, options = setting.name, setting.value, choices(setting.kind)
    if usual := suggested(setting.kind):
        options = tuple(usual.table)
    if isinstance(value, bool):
        return Dimension(name, options=(False, True))
    if options is not None:
        return Dimension(name, options=tuple(str(option) for option in options))
    if isinstance(value, int) and value > 0:
        return Dimension(name, max(1, value // 4), 4 * value, whole=True, log=True)
    if isinstance(value, float) and value > 0:
        plain = Dimension(name, value / WIDE, value * WIDE, log=True)
        if all(_accepts(run, plain, end) for end in _ends(plain)):
            return plain
        if 0 < value < 1:
            far = min((1 - value) * WIDE, 1 - 1e-3)
            return Dimension(name, (1 - value) / WIDE, far, log=True, complement=True)
    raise ValueError(
        f"--search {name}: its default is {shown(value)}, which implies no range; give one, "
        f"such as {name}=LOW..HIGH or {name}=ONE,OTHER."
    )


def _given(setting: Setting, text: str, word: str) -> Dimension:
    name = setting.name
    low, dots, high = text.partition("..")
    if not dots:
        values = [_value(setting, part, word) for part in text.split(",")]
        if len(values) < 2 or len(set(values)) < len(values):
            raise ValueError(f"--search {word}: name at least two values, all distinct.")
        return Dimension(name, options=tuple(values))
    ends = [_value(setting, part, word) for part in (low, high)]
    numbers = [e for e in ends if isinstance(e, int | float) and not isinstance(e, bool)]
    if len(numbers) < 2 or not numbers[0] < numbers[1]:
        raise ValueError(f"--search {word}: a range is LOW..HIGH, two numbers that grow.")
    first, last = numbers
    log = first > 0 and last >= WIDE * first
    return Dimension(name, first, last, all(isinstance(e, int) for e in numbers), log)


def _value(setting: Setting, text: str, word: str) -> Param:
    """A value in the notation of the command line."""
    try:
        plain = json.loads(text)
    except ValueError:
        plain = text
    try:
        found = converted(plain, setting.kind, setting.name)
    except ValueError:
        raise ValueError(
            f"--search {word}: {setting.name}={text} must be {spelt(setting.kind)}."
        ) from None
    if not isinstance(found, bool | int | float | str):
        raise ValueError(f"--search {word}: only numbers, switches and names can be searched.")
    return found


def _ends(dimension: Dimension) -> tuple[Param, ...]:
    if dimension.options:
        return dimension.options
    if dimension.whole:
        return int(dimension.low), int(dimension.high)
    return dimension.low, dimension.high


def _accepts(run: Run, dimension: Dimension, param: Param) -> bool:
    return not _complaint(run, dimension, param)


def _complaint(run: Run, dimension: Dimension, param: Param) -> str:
    try:
        configure(run, **{dimension.name: dimension.setting(param)})
    except ValueError as error:
        return str(error)
    return ""


def tuned(run: Run, space: Iterable[Dimension], params: Mapping[str, Param]) -> Run:
    """The run of a trial."""
    return configure(run, **{d.name: d.setting(params[d.name]) for d in space})
