# SPDX-License-Identifier: Apache-2.0
"""Run folders: training that can be killed at any instant and resumed to the same bits.

The order of writing is what makes it so: run.json first, then for each epoch its row of
progress.csv, then its checkpoint; done.json last. A resumed run starts from the newest whole
checkpoint and drops the rows after it.
"""

from __future__ import annotations

import importlib.metadata
import platform
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from holdfast import checkpoint, sinks
from holdfast.checkpoint import CheckpointError, flatten, unflatten
from holdfast.core.episodes import Episodes
from holdfast.core.estimate import Normaliser
from holdfast.envs.base import VecEnv
from holdfast.run import Run, from_json, to_json
from holdfast.train import Epoch, State, TrainingError, first_state, resolve_limits, train

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
    if state.env is not None:
        arrays |= {f"env.{name}": value for name, value in state.env.items()}
    return arrays


REGRETS = ("cost_regret_raw", "cost_regret")
"""The headline, then the smoothed one that compares with published logs."""
EPISODE_ARRAYS = ("running", "window", "smooth", "raw", "smooth_error", "raw_error")


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


def drive(
    folder: Folder,
    env: VecEnv,
    extra_sinks: Iterable[sinks.Sink] = (),
    state: State | None = None,
    watch: Callable[[int], None] | None = None,
) -> Iterator[Epoch]:
    """Train in a folder: rows, checkpoints, sinks, done.json; yields each epoch when it is safe."""
    run = folder.run
    record = sinks.CSV(folder.path / "progress.csv", state.epoch if state else 0)
    all_sinks = [record, *extra_sinks]
    last = state.epoch if state else 0

    def within(steps: int) -> None:
        if watch is not None:
            watch(last * run.epoch_steps + steps)

    try:
        with naming(folder):
            for epoch in train(run, env, state, within):
                for sink in all_sinks:
                    sink.write(epoch.env_steps, epoch.metrics)
                if epoch.index % run.save_every == 0 or epoch.index == run.epochs:
                    arrays = state_arrays(epoch.state)
                    checkpoint.save(folder.path, epoch.index, arrays, run.keep)
                last = epoch.index
                yield epoch
    finally:
        for sink in all_sinks:
            sink.close()
    # From the record, not from memory: a kill may have come between the last checkpoint and here.
    row = sinks.read_rows(folder.path / "progress.csv")[-1]
    counts = {name: int(row[name]) for name in ("epoch", "env_steps")}
    values = {name: float(row[name]) for name in ("ep_return", "ep_cost", *REGRETS)}
    checkpoint.write_json(folder.path / "done.json", counts | values)


@contextmanager
def naming(folder: Folder) -> Generator[None]:
    """Errors of training say which checkpoint is the last good one and how to go on."""
    try:
        yield
    except TrainingError as error:
        good = checkpoint.epochs(folder.path)
        kept = f"the last good checkpoint is epoch {good[-1]}" if good else "there is no checkpoint"
        raise TrainingError(
            f"{error}; {kept} in '{folder.path}': `holdfast resume {folder.path}` continues there."
        ) from None
    except OSError as error:
        raise TrainingError(
            f"'{folder.path}' cannot be written ({error.strerror or error}); mend that, then "
            f"`holdfast resume {folder.path}` continues from the last checkpoint."
        ) from error


def extended(folder: Folder, steps: int | None) -> Folder:
    """The folder with a new total, if one is asked for; done.json is withdrawn."""
    if steps is None or steps == folder.run.steps:
        return folder
    longer = replace(folder, run=replace(folder.run, steps=steps))
    write_config(longer)
    if longer.run.epochs > folder.run.epochs:
        (folder.path / "done.json").unlink(missing_ok=True)
    return longer
