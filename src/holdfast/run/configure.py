# SPDX-License-Identifier: Apache-2.0
"""A run from an algorithm, a preset and settings by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import cast

from holdfast.algorithms import ALGORITHMS, Algorithm, find
from holdfast.core.limits import plain_limits
from holdfast.register import PRESETS, PresetName, preset_values
from holdfast.run.fields import Run
from holdfast.settings import changed, converted, leaves, nearest


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
