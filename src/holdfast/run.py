# SPDX-License-Identifier: Apache-2.0
"""A run: all settings that determine a training run, and the presets.

Each default is in its field, each help text under it; the command line, the docs and `run.json`
are generated from here. Fields, their checks and the functions that make a run change together, so
they are one file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Annotated, Literal, cast

from holdfast.algorithms import (
    ALGORITHMS,
    CTRPO,
    Algorithm,
    ChecksLimits,
    ComparesCosts,
    InMinibatches,
    RewardOnly,
    find,
)
from holdfast.core.episodes import CostEstimate
from holdfast.core.limits import Limit, parse_limit
from holdfast.core.networks import ACTIVATIONS
from holdfast.core.noise_time import NoiseSetting
from holdfast.core.types import check_range
from holdfast.envs.base import Vectorise
from holdfast.judge.verdict import FEWEST
from holdfast.register import PRESETS, PresetName, preset_values
from holdfast.settings import Settings, built, changed, converted, leaves, nearest, shown

Statistics = Literal["running", "epoch", "none"]
MOST = {"seed": 2**32 - 1, "num_envs": 10**6, "workers": 10**4, "epoch_steps": 10**10}
"""Largest values: beyond them random keys would repeat, or a run would not fit in memory."""


@dataclass(frozen=True)
class Run:
    """Settings of a training run that every algorithm shares."""

    env: str = ""
    """The environment's name: a built-in task, a Gymnasium id, module:Class or file.py:Class."""
    env_args: dict[str, object] = field(default_factory=dict[str, object])
    """Arguments of the environment's constructor."""
    cost: str = ""
    """A cost function by name, module:function or file.py:function; none: the environment's own."""
    algorithm: Algorithm = CTRPO()
    name: str = "c-trpo"
    """The algorithm's registered name."""
    origin: str = ""
    """RUN@EPOCH that supplied the first policy, critics and statistics; none: new ones."""
    preset: PresetName | None = None
    """Settings as in the published code, as the mathematics requires, or as in the paper's text;
    none: Holdfast's defaults."""
    steps: int = 1_000_000
    """Environment steps in all, rounded up to whole epochs."""
    schedule_steps: int = 0
    """Steps over which learning rates decay and penalties grow, and at whose end C-TRPO has its
    final cost-repair phase; 0: the steps of the run.

    A run with a tenth of these steps equals the first tenth of the long run."""
    seed: int = 0
    """Seed of all random numbers."""
    cost_limit: float | None = None
    """b, the largest acceptable mean episode cost, for every constraint without its own limit;
    none: the limit that the task declares (25 for native tasks). Other environments need a
    limit."""
    limits: dict[str, float | str] = field(default_factory=dict[str, float | str])
    """Limits by constraint name, each a number or a text such as "25 worst 5%" (see
    docs/limits.md). Each named cost becomes a separate constraint."""
    num_envs: int = 10
    """Environments that step together."""
    epoch_steps: int = 20_000
    """Environment steps between two updates, all environments together. Without it, epochs of your
    own environment have at least 20 episodes and are at most a tenth of the run."""
    encoder: Literal["mlp", "cnn", "gru"] = "mlp"
    """Network before the dense layers: none (mlp), convolutions for images (cnn), a memory
    (gru)."""
    hidden: tuple[int, ...] = (64, 64)
    """Widths of the hidden layers of policy and critics."""
    activation: Annotated[str, ACTIVATIONS] = "tanh"
    """Function between the layers of policy and critics."""
    channels: tuple[int, ...] = (16, 32)
    """With encoder cnn: features of each convolution of 3 x 3 pixels; each halves the image."""
    memory: int = 64
    """With encoder gru: size of the memory."""
    gamma: float = 0.99
    """Discount of the reward."""
    lam: float = 0.95
    """GAE's λ of the reward."""
    cost_gamma: float = 0.99
    """Discount of the costs."""
    cost_lam: float = 0.95
    """GAE's λ of the costs."""
    cost_estimate: CostEstimate = "epoch"
    """Estimate of J_c: from this epoch's steps (epoch), or from the last 50 finished episodes
    (window, as in the published code; it lags behind the policy)."""
    cost_criterion: Literal["undiscounted", "discounted"] = "undiscounted"
    """Whether the limit bounds the plain or the discounted (cost_gamma) sum of an episode's
    costs."""
    zero_first_estimate: bool = False
    """Use J_c = 0 in the first update, as in the published code."""
    standardise_cost: bool = False
    """Divide cost advantages by their standard deviation. Methods that compare predicted with
    measured cost, such as c-trpo, refuse it: they need advantages in units of the cost."""
    normalise: Statistics = "epoch"
    """Statistics that normalise observations: updated at every step (running, as in the published
    code), constant during an epoch (epoch), or none."""
    raw_final_obs: bool = False
    """At time limits, bootstrap from the raw last observation, as in the published code."""
    clip_actions: Literal["auto", "always", "never"] = "auto"
    """Clip actions to the bounds of the action space; auto: only for foreign environments, which
    may refuse other actions. The published code never clips."""
    noise_time: NoiseSetting = "auto"
    """How many steps the noise of actions lasts; 0: independent noise in every step; auto: up to 10
    steps while the cost estimate is uncertain.

    Slow noise makes the effect of actions on an uncertain cost measurable."""
    cost_value_noise: float = 0.0
    """σ of the noise on cost values, for the paper's ablation."""
    cost_estimate_noise: float = 0.0
    """σ of the noise on the J_c that updates use, in units of the limit; logs are without noise."""
    worst_case: bool = False
    """Log an upper bound on the cost change of each update (`epsilon_c`, `worst_case`)."""
    signal_share: bool = False
    """Log the signal share of an epoch's gradients (`share_reward`, `share_cost`)."""
    epoch_reset: Literal["auto", "always", "never"] = "auto"
    """Reset with a seed at the start of each epoch; auto: only if exact resuming needs it."""
    vectorise: Vectorise = "auto"
    """Where foreign environments run: in this process (sync) or in workers (process); auto: the
    faster of the two."""
    workers: int = 0
    """Worker processes that step environments; auto (0): one for each core if that is faster; 1:
    this process only. Results do not depend on it."""
    step_timeout: float = 600.0
    """Seconds until a foreign environment that does not respond is an error; 0: no limit."""
    save_every: int = 1
    """Epochs between two checkpoints."""
    keep: int = 2
    """How many of the newest checkpoints to keep; `--which EPOCH` loads any of them."""
    evaluate_every: int = 0
    """Epochs between two evaluations with fresh episodes, which keep the best safe policy; 0: no
    evaluations."""
    evaluate_episodes: int = 20
    """Fresh episodes of each evaluation while training."""

    def __post_init__(self) -> None:
        self._check_sizes()
        self._check_networks()
        object.__setattr__(self, "limits", plain_limits(self.limits))
        self._check_limits()
        self._check_kinds()
        self._check_args()
        check_range(self, "[0, 1)", "try 0.99", "gamma", "cost_gamma")
        check_range(self, "[0, 1]", "try 0.95", "lam", "cost_lam")
        check_range(self, "[0, inf)", "0 waits for ever", "step_timeout")
        check_range(self, "[0, inf)", "0 is off", "cost_value_noise", "cost_estimate_noise")
        if self.noise_time != "auto":
            check_range(self, "[0, inf)", "0 is white noise, auto finds a time", "noise_time")

    def _check_sizes(self) -> None:
        sizes = ("steps", "num_envs", "epoch_steps", "save_every", "keep")
        check_range(self, "[1, inf)", "the defaults are usual", *sizes)
        check_range(self, "[0, inf)", "0 is usual", "seed", "workers", "schedule_steps")
        check_range(self, "[0, inf)", "0 is off", "evaluate_every")
        if not FEWEST <= self.evaluate_episodes <= 10**6:
            raise ValueError(
                f"evaluate_episodes={self.evaluate_episodes} must be at least {FEWEST} and at most "
                "a million: fewer do not show how far costs spread; 20 is usual."
            )
        if 0 < self.schedule_steps < self.steps:
            raise ValueError(
                f"schedule_steps={self.schedule_steps} must be 0 or at least steps={self.steps}: a "
                "schedule does not define the steps after its end."
            )
        for name, most in MOST.items():
            if getattr(self, name) > most:
                raise ValueError(f"{name}={getattr(self, name)} must be at most {most}.")
        if self.epoch_steps % self.num_envs:
            fitting = self.epoch_steps // self.num_envs * self.num_envs or self.num_envs
            raise ValueError(
                f"epoch_steps={self.epoch_steps} is not a multiple of num_envs={self.num_envs}; "
                f"use epoch_steps={fitting} so that every environment makes equally many steps."
            )

    def _check_networks(self) -> None:
        for name in ("hidden", "channels"):
            widths: tuple[int, ...] = getattr(self, name)
            if len(widths) > 100 or any(not 0 < width <= 10**6 for width in widths):
                raise ValueError(
                    f"{name}={shown(widths)} must hold positive widths, such as 64 64."
                )
        if not 0 < self.memory <= 10**6 or not self.channels:
            raise ValueError(
                f"memory={self.memory} and channels={shown(self.channels)} must not be empty; use "
                "encoder=mlp for a network without either."
            )
        if self.encoder == "gru" and isinstance(self.algorithm, InMinibatches):
            raise ValueError(
                f"encoder=gru cannot be used with {self.name}: it learns from shuffled steps, and "
                "a memory is learned from steps in their order; use a trust-region method, such "
                "as c-trpo, or encoder=mlp."
            )

    def _check_args(self) -> None:
        for name, value in self.env_args.items():
            try:
                plain = json.loads(json.dumps(value)) == value
            except (TypeError, ValueError, RecursionError):
                plain = False
            if not plain:
                raise ValueError(
                    f"env_args has {name}={shown(value)}, which run.json cannot keep: use numbers, "
                    "texts, lists and dictionaries, or pass a function that makes the environment."
                )

    def _check_limits(self) -> None:
        given = {} if self.cost_limit is None else {"cost_limit": self.cost_limit}
        for name, limit in given.items():
            refuse_number(name, limit)
        self.check_costs({name: limit.bound for name, limit in self.kinds.items()} | given)

    def _check_kinds(self) -> None:
        """Limits beyond the mean need an algorithm and settings that support them."""
        for name, limit in self.kinds.items():
            if limit.kind == "mean":
                continue
            called = f"the limit {name}={limit}"
            reward_only = isinstance(self.algorithm, RewardOnly)
            if limit.is_constraint and reward_only:
                raise ValueError(
                    f"{called} is a constraint, and {self.name} keeps none: use a method that "
                    f"does, such as c-trpo, or '{limit.amount:g} budget', a penalty."
                )
            if not limit.is_constraint and not reward_only:
                raise ValueError(
                    f"{called} changes the reward in place of a constraint, and {self.name} keeps "
                    "constraints: use a method for reward alone, such as trpo or ppo, or 'worst "
                    "5%' or 'in 95%' after the number."
                )
            if self.cost_criterion == "discounted":
                raise ValueError(
                    f"{called} is on the plain sum of an episode and cannot be used with "
                    "cost_criterion=discounted; leave that out."
                )
            if self.cost_estimate == "window":
                raise ValueError(
                    f"{called} has an estimate of its own, pooled over epochs, and cannot be used "
                    "with cost_estimate=window; use cost_estimate=epoch."
                )
            if self.encoder == "cnn":
                raise ValueError(
                    f"{called} appends the remaining budget to the observation, which an "
                    "image has no place for; use encoder=mlp."
                )

    def check_costs(self, limits: Mapping[str, float]) -> None:
        """Whether the algorithm can work on these costs, under these limits."""
        if isinstance(self.algorithm, ComparesCosts):
            self._check_units(self.algorithm)
        if isinstance(self.algorithm, ChecksLimits):
            self.algorithm.check_limits(limits)

    def _check_units(self, algorithm: ComparesCosts) -> None:
        """Predicted and measured cost can be compared only in the same units."""
        if self.standardise_cost:
            raise ValueError(
                f"standardise_cost cannot be used with {type(algorithm).__name__}: it compares "
                "predicted with measured cost, and standardised advantages have lost their units; "
                "leave it off."
            )
        if self.cost_criterion == "discounted" and algorithm.cost_scale == "episode":
            raise ValueError(
                "cost_scale=episode predicts the plain sum of an episode and cannot be used with "
                "cost_criterion=discounted; use cost_scale=discount, which predicts the discounted "
                "one."
            )

    @property
    def epochs(self) -> int:
        return -(-self.steps // self.epoch_steps)

    @property
    def schedule_epochs(self) -> int:
        return -(-(self.schedule_steps or self.steps) // self.epoch_steps)

    @property
    def statistics(self) -> Statistics:
        """`normalise`, or none if observations are images: pixels are scaled by their bounds."""
        return "none" if self.encoder == "cnn" else self.normalise

    @property
    def cost_discount(self) -> float:
        """Discount of the sum that the limits bound; 1: the plain sum."""
        return self.cost_gamma if self.cost_criterion == "discounted" else 1.0

    @property
    def kinds(self) -> dict[str, Limit]:
        """The limits by constraint name, parsed."""
        return {name: parse_limit(limit, name) for name, limit in self.limits.items()}

    @property
    def constraints(self) -> tuple[str, ...] | None:
        """Names of the costs that the environment must report separately; None: its single cost."""
        return tuple(self.limits) or None


def refuse_number(name: str, limit: float) -> None:
    """A limit on a mean must be a number that a mean can keep."""
    if not limit >= 0 or limit == float("inf"):
        raise ValueError(
            f"the limit {name}={limit} must be a finite number that is not negative; "
            "it bounds the mean cost of an episode."
        )


def plain_limits(limits: Mapping[str, object]) -> dict[str, float | str]:
    """Limits as run.json keeps them; they may be given as numbers, texts or `Limit`s."""
    for name, limit in limits.items():
        if isinstance(limit, int | float):
            refuse_number(name, limit)
    return {name: parse_limit(limit, name).plain for name, limit in limits.items()}


def divisible(epoch_steps: int, num_envs: int) -> int:
    """The next multiple that gives each environment equally many steps, for epochs nobody chose."""
    return -(-epoch_steps // num_envs) * num_envs if num_envs > 0 else epoch_steps


def preset_changes(run: Run, preset: PresetName) -> dict[str, object]:
    """setting → value, for the settings that this run's algorithm has."""
    known = {setting.path for setting in leaves(run)}
    values = preset_values(preset, run.algorithm, run.env)
    return {path: value for path, value in values.items() if path in known}


def with_preset(run: Run, preset: PresetName | None) -> Run:
    """The run with every setting of the preset that its algorithm has."""
    if preset is None:
        return replace(run, preset=None)
    if preset not in PRESETS:
        raise ValueError(f"unknown preset '{preset}'; choose one of {', '.join(PRESETS)}.")
    return changed(run, preset_changes(run, preset) | {"preset": preset})


def make_run(
    algorithm: str | Algorithm, preset: PresetName | None = None, **settings: object
) -> Run:
    """A run from an algorithm (name or value), a preset, and settings of either.

    Settings given here win over the preset.
    """
    if isinstance(algorithm, str):
        name = find(algorithm)
        made, own = ALGORITHMS[name].make(), ALGORITHMS[name].settings
    else:
        name, made, own = registered_name(algorithm), algorithm, {}
    task = {"env": settings["env"]} if "env" in settings else {}
    run = configure(Run(algorithm=made, name=name), **own, **task)
    return configure(with_preset(run, preset), **settings)


def configure(run: Run, **settings: object) -> Run:
    """The run with settings of its own or of its algorithm replaced, their types checked."""
    changes: dict[str, object] = {}
    if "algorithm" in settings:
        changes["algorithm"] = settings.pop("algorithm")
    known = {setting.name: setting for setting in leaves(run)}
    for name, value in settings.items():
        if name not in known:
            raise ValueError(f"unknown setting '{name}'{_right_name(name, known, run.name)}")
        if name == "limits" and isinstance(value, Mapping):
            value = plain_limits(cast(Mapping[str, object], value))
        changes[known[name].path] = converted(value, known[name].kind, name)
    return changed(run, changes)


ELSEWHERE: dict[str, tuple[str, ...]] = {
    "total_timesteps": ("total_steps",),
    "timesteps": ("total_steps",),
    "learning_rate": ("actor_lr", "critic_lr"),
    "lr": ("actor_lr", "critic_lr"),
    "policy": ("encoder",),
    "policy_kwargs": ("hidden",),
    "net_arch": ("hidden",),
    "hidden_sizes": ("hidden",),
    "n_steps": ("epoch_steps",),
    "steps_per_epoch": ("epoch_steps",),
    "n_envs": ("num_envs",),
    "vector_env_nums": ("num_envs",),
    "n_epochs": ("passes", "critic_passes"),
    "batch_size": ("minibatch", "critic_minibatch"),
    "gae_lambda": ("lam",),
    "clip_range": ("clip",),
    "target_kl": ("radius", "kl_stop"),
    "max_grad_norm": ("max_norm", "critic_max_norm"),
    "lagrangian_multiplier_init": ("multiplier_init",),
    "lambda_lr": ("multiplier_lr",),
    "tensorboard_log": ("tensorboard",),
    "verbose": ("progress",),
    "cost_limits": ("limits",),
}
"""Names in other libraries → ours, the first that the algorithm has."""
OF_LEARN = ("total_steps", "tensorboard", "progress")


def _right_name(name: str, known: Mapping[str, object], algorithm: str) -> str:
    """The end of a sentence on an unknown setting: its one right name, if that is known."""
    for ours in ELSEWHERE.get(name, ()):
        if ours in known:
            return f"; it is '{ours}' here."
        if ours in OF_LEARN:
            return f"; it is '{ours}' here, an argument of learn."
    return nearest(name, sorted(known), f"`holdfast list {algorithm}` shows its settings.")


def registered_name(algorithm: Algorithm) -> str:
    """The name of the entry that makes this very value, else of one that makes its type."""
    same_type = [n for n, e in ALGORITHMS.items() if type(e.make()) is type(algorithm)]
    for name in same_type:
        if ALGORITHMS[name].make() == algorithm and not ALGORITHMS[name].settings:
            return name
    return same_type[0] if same_type else type(algorithm).__name__.lower()


def to_json(run: Run) -> dict[str, object]:
    """Plain data for run.json."""
    return asdict(run)


def from_json(given: object) -> Run:
    """The run of a run.json, every key and type checked."""
    if not isinstance(given, Mapping):
        raise ValueError(f"a run is a table of settings, not {shown(given)}.")
    data = cast(Mapping[str, object], given)
    name = find(str(data.get("name", "")))
    kind = cast(type[Settings], type(ALGORITHMS[name].make()))
    algorithm = converted(data.get("algorithm", {}), kind, "algorithm")
    rest = {key: value for key, value in data.items() if key != "algorithm"}
    rest.setdefault("noise_time", 0.0)  # runs of versions without this setting were white
    return built(Run, rest, "run", algorithm=algorithm)


def default_settings(algorithm: str) -> dict[str, object]:
    """What a run.json means that names an algorithm and nothing else; empty for an unknown one."""
    return to_json(from_json({"name": algorithm})) if algorithm in ALGORITHMS else {}
