# SPDX-License-Identifier: Apache-2.0
"""A run: everything that training is a function of, and the presets.

Each default lives in its field, each help text under it; the command line, the docs and `run.json`
are generated from here.
"""

from __future__ import annotations

import dataclasses
import difflib
import types
import typing
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, cast

from holdfast.algorithms import ALGORITHMS, CTRPO, Algorithm, find
from holdfast.core.episodes import CostEstimate
from holdfast.register import HOLDFAST, REGISTER

PresetName = Literal["published", "corrected", "holdfast"]
PRESETS: tuple[PresetName, ...] = typing.get_args(PresetName)


@dataclass(frozen=True)
class Run:
    """Settings of a training run that every algorithm shares."""

    env: str = ""
    """Environment id: a native task, a probe, or any Gymnasium id."""
    algorithm: Algorithm = CTRPO()
    name: str = "c-trpo"
    """The algorithm's registered name."""
    preset: PresetName | None = None
    """Which side of the deviation register; none: the register's defaults."""
    steps: int = 1_000_000
    """Environment steps in all, rounded up to whole epochs."""
    seed: int = 0
    """Everything random follows from it."""
    cost_limit: float = 25.0
    """b, the largest acceptable mean episode cost (of every constraint without its own limit)."""
    limits: dict[str, float] = field(default_factory=dict[str, float])
    """Limits by constraint name; naming them makes each a constraint of its own."""
    num_envs: int = 10
    """Environments that step together."""
    epoch_steps: int = 20_000
    """Environment steps between two updates, all environments together."""
    hidden: tuple[int, ...] = (64, 64)
    """Widths of the hidden layers of policy and critics."""
    gamma: float = 0.99
    """Discount of the reward."""
    lam: float = 0.95
    """GAE's λ of the reward."""
    cost_gamma: float = 0.99
    """Discount of the costs."""
    cost_lam: float = 0.95
    """GAE's λ of the costs."""
    cost_estimate: CostEstimate = "window"
    """J_c from the last 50 finished episodes (published; lags) or from this epoch's steps (D4)."""
    cost_criterion: Literal["undiscounted", "discounted"] = "undiscounted"
    """Whether the limit is on the plain or on the discounted (cost_gamma) sum of an episode."""
    zero_first_estimate: bool = False
    """The first update believes J_c = 0, as in the published code (D3)."""
    standardise_cost: bool = False
    """Divide cost advantages by their deviation (D5); barrier methods need them in cost units."""
    normalise: Literal["running", "epoch", "none"] = "running"
    """Observation statistics: moving at every step (published), frozen for an epoch, none (D8)."""
    raw_final_obs: bool = False
    """Bootstrap time limits from observations that are not normalised, as published (D2)."""
    clip_actions: Literal["auto", "always", "never"] = "auto"
    """Clip actions to their bounds (D9); auto: for foreign environments, which may insist on it."""
    cost_value_noise: float = 0.0
    """σ of the noise on cost values, for the paper's ablation."""
    epoch_reset: Literal["auto", "always", "never"] = "auto"
    """Reset (seeded) at each epoch's start; auto: only if nothing else makes resuming exact."""
    vectorise: Literal["sync", "process"] = "sync"
    """How foreign environments run: in this process or in worker processes."""
    workers: int = 0
    """Worker processes; 0: in this process for native tasks, one a core for foreign ones."""
    save_every: int = 1
    """Epochs between two checkpoints."""
    keep: int = 2
    """Checkpoints that are kept."""

    def __post_init__(self) -> None:
        self._check_sizes()
        self._check_limits()
        for name in ("gamma", "cost_gamma"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)} must lie in [0, 1); try 0.99.")
        for name in ("lam", "cost_lam"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name}={getattr(self, name)} must lie in [0, 1]; try 0.95.")
        if self.standardise_cost and hasattr(self.algorithm, "cost_scale"):
            raise ValueError(
                f"standardise_cost cannot be used with {type(self.algorithm).__name__}: it "
                "compares predicted with measured cost, and standardised advantages have lost "
                "their units; leave it off."
            )
        scale = getattr(self.algorithm, "cost_scale", "")
        if self.cost_criterion == "discounted" and scale == "episode":
            raise ValueError(
                "cost_scale=episode predicts the plain sum of an episode and cannot be used with "
                "cost_criterion=discounted; use cost_scale=discount, which predicts the discounted "
                "one."
            )
        if self.cost_value_noise < 0:
            raise ValueError(
                f"cost_value_noise={self.cost_value_noise} must not be negative; 0 is off."
            )

    def _check_sizes(self) -> None:
        for name in ("steps", "num_envs", "epoch_steps", "save_every", "keep"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)} must be at least 1.")
        if self.seed < 0 or self.workers < 0:
            raise ValueError(f"seed={self.seed} and workers={self.workers} must not be negative.")
        if self.epoch_steps % self.num_envs:
            fitting = self.epoch_steps // self.num_envs * self.num_envs or self.num_envs
            raise ValueError(
                f"epoch_steps={self.epoch_steps} is not a multiple of num_envs={self.num_envs}; "
                f"use epoch_steps={fitting} so that every environment makes equally many steps."
            )
        if any(width < 1 for width in self.hidden):
            raise ValueError(f"hidden={self.hidden} must hold positive widths, such as 64 64.")

    def _check_limits(self) -> None:
        for name, limit in {"cost_limit": self.cost_limit, **self.limits}.items():
            if not limit >= 0 or limit == float("inf"):
                raise ValueError(
                    f"the limit {name}={limit} must be a finite number that is not negative; "
                    "it bounds the mean cost of an episode."
                )
            if limit == 0 and isinstance(self.algorithm, CTRPO):
                raise ValueError(
                    f"the limit {name}=0 leaves no interior for a barrier; use a small positive "
                    "one, such as 1."
                )

    @property
    def epochs(self) -> int:
        return -(-self.steps // self.epoch_steps)

    @property
    def cost_discount(self) -> float:
        """Of the sum that the limits are on; 1: the plain sum."""
        return self.cost_gamma if self.cost_criterion == "discounted" else 1.0

    @property
    def constraints(self) -> tuple[str, ...] | None:
        """Names that the environment must report one by one; None: its single cost."""
        return tuple(self.limits) or None


def preset_changes(run: Run, preset: PresetName) -> dict[str, object]:
    """setting → value, for the settings that this run's algorithm has."""
    if preset == "holdfast":
        barrier = hasattr(run.algorithm, "barrier")
        wanted = {s: v for s, v in HOLDFAST if barrier or not s.startswith("algorithm.")}
    else:
        wanted = {
            row.setting: row.published if preset == "published" else row.corrected
            for row in REGISTER
            if (not row.only or type(run.algorithm).__name__ in row.only)
            and not (row.unless and hasattr(run.algorithm, row.unless))
        }
        if preset == "published" and "PointPush" in run.env and isinstance(run.algorithm, CTRPO):
            wanted["algorithm.critic.critic_minibatch"] = 256  # D16
    return {setting: value for setting, value in wanted.items() if _has(run, setting)}


def with_preset(run: Run, preset: PresetName | None) -> Run:
    """The run with every setting of the preset that its algorithm knows."""
    if preset is None:
        return replace(run, preset=None)
    if preset not in PRESETS:
        raise ValueError(f"unknown preset '{preset}'; choose one of {', '.join(PRESETS)}.")
    for setting, value in preset_changes(run, preset).items():
        run = _set(run, setting.split("."), value)
    return replace(run, preset=preset)


def make_run(algorithm: str | Algorithm, preset: PresetName | None = None, **settings: Any) -> Run:
    """A run from an algorithm (name or value), a preset, and settings of either.

    Settings given here win over the preset.
    """
    if isinstance(algorithm, str):
        name = find(algorithm)
        entry = ALGORITHMS[name]
        algorithm = entry.make()
        run = Run(algorithm=algorithm, name=name, env=settings.get("env", ""), **entry.settings)  # pyright: ignore[reportArgumentType]
    else:
        name = registered_name(algorithm)
        run = Run(algorithm=algorithm, name=name, env=settings.get("env", ""))
    return configure(with_preset(run, preset), **settings)


def configure(run: Run, **settings: Any) -> Run:
    """The run with settings of its own or of its algorithm replaced."""
    own = {f.name for f in dataclasses.fields(Run)}
    where = {path.split(".")[-1]: path for path in _paths(run.algorithm)}
    algorithm, changes = settings.get("algorithm", run.algorithm), dict[str, Any]()
    for key, value in settings.items():
        if key in where:
            algorithm = _set(algorithm, where[key].split("."), value)
        elif key in own:
            changes[key] = value
        else:
            raise ValueError(f"unknown setting '{key}'{nearest(key, sorted(own | set(where)))}")
    return replace(run, **changes | {"algorithm": algorithm})  # at once: some settings go together


def registered_name(algorithm: Algorithm) -> str:
    """The name of the entry that makes this very value, else of one that makes its type."""
    same_type = [n for n, e in ALGORITHMS.items() if type(e.make()) is type(algorithm)]
    for name in same_type:
        if ALGORITHMS[name].make() == algorithm and not ALGORITHMS[name].settings:
            return name
    return same_type[0] if same_type else type(algorithm).__name__.lower()


def nearest(word: str, known: Iterable[str]) -> str:
    """The end of a sentence about an unknown word: what it may have meant, or all that is known."""
    names = list(known)
    close = difflib.get_close_matches(word, names, n=1)
    return f"; did you mean '{close[0]}'?" if close else f"; known are {', '.join(names)}."


def _paths(value: Any, prefix: str = "") -> list[str]:
    """Dotted names of all leaf fields of nested dataclasses."""
    found: list[str] = []
    for f in dataclasses.fields(value):
        inner = getattr(value, f.name)
        nested = dataclasses.is_dataclass(inner)
        found += _paths(inner, f"{prefix}{f.name}.") if nested else [prefix + f.name]
    return found


def _has(value: Any, setting: str) -> bool:
    for part in setting.split("."):
        if not hasattr(value, part):
            return False
        value = getattr(value, part)
    return True


def _set(value: Any, path: list[str], new: object) -> Any:
    """A copy of nested dataclasses with one leaf replaced."""
    if len(path) > 1:
        new = _set(getattr(value, path[0]), path[1:], new)
    return replace(value, **{path[0]: new})


def to_json(run: Run) -> dict[str, Any]:
    """Plain data for run.json."""
    return dataclasses.asdict(run)


def from_json(data: Mapping[str, Any]) -> Run:
    """The run of a run.json, every key and type checked."""
    name = find(str(data.get("name", "")))
    algorithm = _build(type(ALGORITHMS[name].make()), data.get("algorithm", {}), "algorithm")
    rest = {k: v for k, v in data.items() if k != "algorithm"}
    return cast(Run, _build(Run, rest | {"algorithm": algorithm}, "run"))


def _build(kind: Any, data: Mapping[str, Any], where: str) -> Any:
    hints = typing.get_type_hints(kind)
    known = {f.name for f in dataclasses.fields(kind)}
    for key in data:
        if key not in known:
            raise ValueError(
                f"run.json: unknown key '{key}' in {where}{nearest(key, sorted(known))}"
            )
    return kind(**{k: _convert(v, hints[k], f"{where}.{k}") for k, v in data.items()})


def _convert(value: Any, hint: Any, where: str) -> Any:
    if dataclasses.is_dataclass(hint) and isinstance(value, Mapping):
        return _build(hint, cast(Mapping[str, Any], value), where)
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        for option in args:
            try:
                return _convert(value, option, where)
            except ValueError:
                continue
    elif origin is tuple and isinstance(value, list | tuple):
        return tuple(_convert(v, args[0], where) for v in cast(list[Any], value))
    elif origin is Literal and value in args:
        return value
    elif origin is dict and isinstance(value, dict):
        return {str(k): _convert(v, args[1], where) for k, v in cast(dict[Any, Any], value).items()}
    elif hint is float and isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    elif hint in (int, bool, str) and type(value) is hint:
        return value
    elif hint is type(None) and value is None:
        return None
    elif hint is Algorithm:
        return value
    raise ValueError(f"run.json: {where}={value!r} is not of the expected type {hint}.")
