# SPDX-License-Identifier: Apache-2.0
"""Run folders: what a run leaves behind, and how it is read back; `drive` trains in one."""

from __future__ import annotations

import importlib.metadata
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from holdfast import checkpoint
from holdfast.checkpoint import CheckpointError, flatten, unflatten
from holdfast.core.episodes import Episodes
from holdfast.core.estimate import Normaliser
from holdfast.core.forecast import Forecast
from holdfast.envs.base import VecEnv
from holdfast.run import Run, from_json, to_json
from holdfast.train import State, first_state, refuse_biased, resolve_limits

PACKAGES = ("holdfast", "jax", "jaxlib", "optax", "numpy", "mujoco", "gymnasium")


@dataclass(frozen=True)
class Spaces:
    """What a policy needs to know of its environment."""

    observation: gym.spaces.Box
    action: gym.spaces.Box | gym.spaces.Discrete | gym.spaces.MultiDiscrete
    limits: dict[str, float]
    """Limit of each constraint, in the environment's order."""

    @classmethod
    def of(cls, run: Run, env: VecEnv) -> Spaces:
        limits = dict(zip(env.cost_names, resolve_limits(run, env).tolist(), strict=True))
        return cls(env.observation_space, env.action_space, limits)


@dataclass(frozen=True)
class Folder:
    """A run folder on disk."""

    path: Path
    run: Run
    spaces: Spaces

    @property
    def finished(self) -> bool:
        return (self.path / "done.json").exists()


def create(path: Path, run: Run, env: VecEnv) -> Folder:
    """A new folder with its run.json; an existing run is never overwritten."""
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise ValueError(
            f"'{path}' exists and is not empty: continue it with `holdfast resume {path}`, or "
            "choose another folder with --out."
        )
    refuse_biased(run, env)
    path.mkdir(parents=True, exist_ok=True)
    folder = Folder(path, run, Spaces.of(run, env))
    write_config(folder)
    return folder


def write_config(folder: Folder) -> None:
    spaces = folder.spaces
    config = {
        "run": to_json(folder.run),
        "preset": folder.run.preset,
        "limits": spaces.limits,
        "observation": {"shape": list(spaces.observation.shape)},
        "action": describe_space(spaces.action),
        "versions": versions(),
    }
    checkpoint.write_json(folder.path / "run.json", config)


def open_folder(path: Path) -> Folder:
    """An existing folder, its run.json checked."""
    data = checkpoint.read_json(path / "run.json")
    try:
        shape = tuple(int(n) for n in data["observation"]["shape"])
        spaces = Spaces(
            gym.spaces.Box(-np.inf, np.inf, shape, np.float64),
            parse_space(data["action"]),
            {str(name): float(limit) for name, limit in data["limits"].items()},
        )
        return Folder(path, from_json(data["run"]), spaces)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise CheckpointError(
            f"'{path / 'run.json'}' is not a valid run configuration ({error}); restore it from "
            "a copy or train anew."
        ) from None


def versions() -> dict[str, str]:
    found = {"python": platform.python_version(), "platform": platform.platform()}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def describe_space(space: gym.Space[Any]) -> dict[str, Any]:
    if isinstance(space, gym.spaces.Box):
        bounds = {"low": space.low.tolist(), "high": space.high.tolist()}
        return {"type": "box", "dtype": str(space.dtype), **bounds}
    if isinstance(space, gym.spaces.Discrete):
        return {"type": "discrete", "n": int(space.n), "start": int(space.start)}
    assert isinstance(space, gym.spaces.MultiDiscrete)
    return {"type": "multi-discrete", "sizes": space.nvec.tolist()}


def parse_space(data: Mapping[str, Any]) -> Any:
    if data["type"] == "box":
        low, high = np.array(data["low"], np.float64), np.array(data["high"], np.float64)
        dtype = np.dtype(data["dtype"])
        if dtype.kind != "f" or low.shape != high.shape or low.ndim != 1:
            raise ValueError("a Box action space needs a float type and two flat bounds")
        return gym.spaces.Box(low.astype(dtype), high.astype(dtype), dtype=dtype.type)
    if data["type"] == "discrete":
        return gym.spaces.Discrete(int(data["n"]), start=int(data["start"]))
    if data["type"] == "multi-discrete":
        return gym.spaces.MultiDiscrete([int(n) for n in data["sizes"]])
    raise ValueError(f"unknown action space {data['type']!r}")


def state_arrays(state: State) -> dict[str, NDArray[Any]]:
    """A state as named arrays, for a checkpoint."""
    arrays = flatten(state.learner, "learner")
    arrays |= {
        "normaliser.mean": state.normaliser.mean,
        "normaliser.var": state.normaliser.var,
        "normaliser.count": np.float64(state.normaliser.count).reshape(1),
        "regret": state.regret,
        "obs": state.obs,
        "episodes.ended": np.array([state.episodes.ended], np.int64),
    }
    for name in EPISODE_ARRAYS:
        arrays[f"episodes.{name}"] = getattr(state.episodes, name)
    for name in FORECAST_ARRAYS:
        arrays[f"forecast.{name}"] = getattr(state.forecast, name)
    if state.env is not None:
        arrays |= {f"env.{name}": value for name, value in state.env.items()}
    return arrays


EPISODE_ARRAYS = ("running", "window", "smooth", "raw", "smooth_error", "raw_error")
FORECAST_ARRAYS = ("cost", "spent", "cross", "square")


def state_from(template: State, epoch: int, arrays: Mapping[str, NDArray[Any]]) -> State:
    """The state of a checkpoint; the template (a fresh state) gives shapes and types."""

    def plain(name: str, like: NDArray[Any], rows_vary: bool = False) -> NDArray[Any]:
        value = arrays.get(name)
        if value is None or value.dtype.kind != "f" or value.ndim != like.ndim:
            raise CheckpointError(f"the checkpoint lacks a valid '{name}'; it is of another run")
        same = value.shape[1:] == like.shape[1:] if rows_vary else value.shape == like.shape
        if not same:
            raise CheckpointError(
                f"'{name}' in the checkpoint has shape {list(value.shape)}, this run needs "
                f"{list(like.shape)}; it is of another run"
            )
        return value

    fresh = template.episodes
    episodes = Episodes(
        ended=int(arrays["episodes.ended"][0]) if "episodes.ended" in arrays else 0,
        **{n: plain(f"episodes.{n}", getattr(fresh, n), n == "window") for n in EPISODE_ARRAYS},
    )
    mean, var = template.normaliser.mean, template.normaliser.var
    env = {n[4:]: v for n, v in arrays.items() if n.startswith("env.")}
    return State(
        epoch=epoch,
        learner=unflatten(template.learner, arrays, "learner"),
        normaliser=Normaliser(
            plain("normaliser.mean", mean),
            plain("normaliser.var", var),
            float(plain("normaliser.count", np.zeros(1))[0]),
        ),
        episodes=episodes,
        regret=plain("regret", template.regret),
        forecast=Forecast(
            **{n: plain(f"forecast.{n}", getattr(template.forecast, n)) for n in FORECAST_ARRAYS}
        ),
        obs=plain("obs", template.obs),
        env=env or None,
    )


@dataclass(frozen=True)
class Blank:
    """The shape of an environment without one: enough to rebuild a state from a checkpoint."""

    num_envs: int
    observation_space: gym.spaces.Box
    action_space: Any
    cost_names: tuple[str, ...]


def load_state(folder: Folder) -> tuple[State | None, list[str]]:
    """(newest whole state or None before the first checkpoint, warnings)."""
    if not checkpoint.epochs(folder.path):
        return None, []
    epoch, arrays, complaints = checkpoint.load(folder.path)
    spaces = folder.spaces
    blank = Blank(folder.run.num_envs, spaces.observation, spaces.action, tuple(spaces.limits))
    template = first_state(folder.run, blank)  # pyright: ignore[reportArgumentType]
    return state_from(template, epoch, arrays), complaints
