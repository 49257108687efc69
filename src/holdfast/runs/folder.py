# SPDX-License-Identifier: Apache-2.0
"""Run folders: the files of a run, written and read back."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, TypeVar, cast

import gymnasium as gym
import jax
import numpy as np
from numpy.typing import NDArray

from holdfast.cluster.places import here
from holdfast.envs.base import VecEnv
from holdfast.envs.foreign.references import needs_consent
from holdfast.files import (
    MALFORMED,
    CheckpointError,
    locked,
    read_json,
    reason,
    refuse_links,
    write_json,
)
from holdfast.judge.evaluate import Evaluation
from holdfast.process import versions
from holdfast.records.evaluations import evaluation_file
from holdfast.records.log import read_limits
from holdfast.records.rows import EVALUATIONS, read_rows
from holdfast.run import Run, from_json, to_json
from holdfast.runs import checkpoint
from holdfast.runs.checkpoint import BEST, Which
from holdfast.runs.consent import is_remembered
from holdfast.runs.space_json import describe_space, parse_shape, parse_space
from holdfast.train.environment import Spaces, refuse_biased, refuse_untestable
from holdfast.train.state import State, first_state

Tree = TypeVar("Tree")
OURS = (
    "run.json progress.csv done.json checkpoint .lock tensorboard wandb wandb.json card "
    "progress.png evaluation_sampled.json evaluation_greedy.json evaluations.csv best"
).split()
"""Names that are read and written in a run folder, and must not be links out of it."""


@dataclass(frozen=True)
class Folder:
    """A run folder on disk."""

    path: Path
    run: Run
    spaces: Spaces

    @property
    def finished(self) -> bool:
        return (self.path / "done.json").exists()

    def command(self, name: str, code: bool = True) -> str:
        """A command such as `holdfast evaluate RUN`, with the option of consent if the run names
        code.

        `code`: whether the command uses the environment at all.
        """
        consent = self.consent if code else ""
        return f"holdfast {name} {shlex.quote(str(self.path))}{consent}"

    @property
    def consent(self) -> str:
        """The option that a command needs which imports the run's code; else nothing."""
        run = self.run
        asks = needs_consent((run.env, run.cost), run.env_args) and not is_remembered(self.path)
        return " --trust-env" if asks else ""


def plain_word(value: object) -> str:
    """A text as a part of a folder's name."""
    return re.sub(
        r"[^A-Za-z0-9.+-]+", "-", f"{value:g}" if isinstance(value, float) else str(value)
    )


def create(path: Path, run: Run, env: VecEnv) -> Folder:
    """A new folder with its run.json; trained runs are never overwritten."""
    path = here(path)
    if path.exists() and not is_free(path):
        begun = (path / "run.json").exists()
        quoted = shlex.quote(str(path))
        go_on = f"continue it with `holdfast resume {quoted}`, or " if begun else ""
        raise ValueError(
            f"'{path}' exists and is not empty: {go_on}choose another folder with out=."
        )
    refuse_biased(run, env)
    refuse_untestable(run, env)
    folder = Folder(path, run, Spaces.of(run, env))
    first_state(run, folder.spaces, shapes_only=True)  # refuses what could not be trained
    path.mkdir(parents=True, exist_ok=True)
    write_config(folder)
    return folder


def is_free(path: Path) -> bool:
    """Whether a run may start there: in an empty folder, or in one of a run without a saved
    epoch.
    """
    if not path.is_dir() or not {file.name for file in path.iterdir()} <= {"run.json", ".lock"}:
        return False
    if not (path / ".lock").exists():
        return True
    with locked(path / ".lock") as mine:
        return mine


def write_config(folder: Folder) -> None:
    spaces = folder.spaces
    config: dict[str, object] = {
        "run": to_json(folder.run),
        "limits": spaces.limits,
        "observation": {"shape": list(spaces.observation.shape)},
        "action": describe_space(spaces.action),
        "native": {
            "observation": _own(spaces.native_observation, spaces.observation),
            "action": _own(spaces.native_action, spaces.action),
        },
        "versions": versions(),
    }
    if before := _earlier_totals(folder):
        config["extended_from"] = before
    write_json(folder.path / "run.json", config)


def _earlier_totals(folder: Folder) -> list[int]:
    """Totals of steps that the run had before it was extended."""
    file = folder.path / "run.json"
    if not file.exists():
        return []
    data = read_json(file)
    run, before = data.get("run"), data.get("extended_from", [])
    total = cast(dict[str, Any], run).get("steps") if isinstance(run, dict) else None
    totals: list[Any] = [*cast(list[Any], before), total] if isinstance(before, list) else [None]
    if any(type(steps) is not int for steps in totals):
        raise CheckpointError(
            f"'{file}' is damaged (run.steps and extended_from must be whole numbers); restore it "
            "from a copy."
        )
    return totals[:-1] if total == folder.run.steps else totals


def _own(native: gym.Space[Any], plain: gym.Space[Any]) -> dict[str, Any] | None:
    """The environment's own space, if it differs from the policy's."""
    return None if native is plain else describe_space(native)


def open_folder(path: Path) -> Folder:
    """An existing folder, its run.json checked."""
    refuse_links(path, OURS)
    data = read_json(path / "run.json")
    try:
        flat = gym.spaces.Box(-np.inf, np.inf, (_flat_size(data["observation"]),), np.float64)
        action = parse_space(data["action"])
        _refuse_action(action)
        limits, run = read_limits(data["limits"]), from_json(data["run"])
        native = data.get("native", {})
        seen, done = native.get("observation"), native.get("action")
        spaces = Spaces(
            flat,
            action,
            limits,
            (parse_space(seen) if seen else None) or flat,
            (parse_space(done) if done else None) or action,
            tuple(name for name, limit in run.kinds.items() if limit.kind != "mean"),
        )
        return Folder(path, run, spaces)
    except MALFORMED as error:
        raise CheckpointError(
            f"'{path / 'run.json'}' is not a valid run configuration ({reason(error)}); restore it "
            "from a copy or train anew."
        ) from None


def _flat_size(data: Any) -> int:
    (size,) = parse_shape(data["shape"])
    return size


def _refuse_action(space: Any) -> None:
    kinds = (gym.spaces.Box, gym.spaces.Discrete, gym.spaces.MultiDiscrete)
    axes = 0 if isinstance(space, gym.spaces.Discrete) else 1
    if not isinstance(space, kinds) or len(space.shape or ()) != axes:
        raise ValueError(f"no policy supports the action space {str(space)[:80]}")


def flatten(tree: Any, prefix: str) -> dict[str, NDArray[Any]]:
    """Arrays of a pytree by their paths."""
    leaves = jax.tree_util.tree_flatten_with_path(tree)[0]
    return {prefix + jax.tree_util.keystr(path): np.asarray(leaf) for path, leaf in leaves}


def unflatten(template: Tree, arrays: Mapping[str, NDArray[Any]], prefix: str) -> Tree:
    """The template with its leaves from `arrays`; names, shapes and types must agree."""
    leaves, structure = jax.tree_util.tree_flatten_with_path(template)
    filled: list[Any] = []
    for path, leaf in leaves:
        name = prefix + jax.tree_util.keystr(path)
        if name not in arrays:
            raise CheckpointError(f"the checkpoint lacks '{name}'; it belongs to another run")
        value = arrays[name]
        if value.shape != leaf.shape or value.dtype != leaf.dtype:
            raise CheckpointError(
                f"'{name}' in the checkpoint is {value.dtype}{list(value.shape)}, this run needs "
                f"{leaf.dtype}{list(leaf.shape)}; it belongs to another run"
            )
        filled.append(jax.numpy.asarray(value))
    return jax.tree_util.tree_unflatten(structure, filled)


PARTS = ("normaliser", "episodes", "forecast", "noise")
"""Fields of a state that are dataclasses of arrays and single numbers."""
TALLY = ("recent", "epochs", "level", "found")
"""Arrays of the tally, stored if a limit is beyond the mean."""


def state_arrays(state: State) -> dict[str, NDArray[Any]]:
    """A state as named arrays, for a checkpoint."""
    arrays = flatten(state.learner, "learner") | {"regret": state.regret, "obs": state.obs}
    for name in PARTS:
        part = getattr(state, name)
        arrays |= {f"{name}.{f.name}": np.atleast_1d(getattr(part, f.name)) for f in fields(part)}
    if state.memory.size:
        arrays["memory"] = state.memory
    if state.tally.beyond:
        arrays |= {f"tally.{name}": getattr(state.tally, name) for name in TALLY}
    if state.env is not None:
        arrays |= {f"env.{name}": value for name, value in state.env.items()}
    return arrays


def state_from(template: State, epoch: int, arrays: Mapping[str, NDArray[Any]]) -> State:
    """The state of a checkpoint; the template (a fresh state) defines shapes and types."""

    def read(name: str, like: Any) -> Any:
        """An array like another, or one number; the window of episodes has any number of rows."""
        wanted, value = np.atleast_1d(like), arrays.get(name)
        if value is None or value.dtype.kind != wanted.dtype.kind or value.ndim != wanted.ndim:
            raise CheckpointError(
                f"the checkpoint lacks a valid '{name}'; it belongs to another run"
            )
        first = 1 if name == "episodes.window" else 0
        if value.shape[first:] != wanted.shape[first:]:
            raise CheckpointError(
                f"'{name}' in the checkpoint has shape {list(value.shape)}, this run needs "
                f"{list(wanted.shape)}; it is of another run"
            )
        return value if isinstance(like, np.ndarray) else value[0].item()

    parts: dict[str, Any] = {}
    for name in PARTS:
        like = getattr(template, name)
        found = {f.name: read(f"{name}.{f.name}", getattr(like, f.name)) for f in fields(like)}
        parts[name] = replace(like, **found)
    tally = template.tally
    if tally.beyond:
        found = {name: read(f"tally.{name}", getattr(tally, name)) for name in TALLY}
        tally = replace(tally, **found)
    env = {n[4:]: v for n, v in arrays.items() if n.startswith("env.")}
    return State(
        epoch=epoch,
        learner=unflatten(template.learner, arrays, "learner"),
        regret=read("regret", template.regret),
        obs=read("obs", template.obs),
        memory=read("memory", template.memory) if template.memory.size else template.memory,
        tally=tally,
        env=env or None,
        **parts,
    )


def load_state(folder: Folder, which: Which = "newest") -> tuple[State | None, list[str]]:
    """(state, warnings) of the newest whole checkpoint, or of the one that `which` names; the state
    is None before the first checkpoint.
    """
    path = folder.path
    if which == BEST:
        refuse_no_best(path)
        epoch, arrays, complaints = checkpoint.load(path, BEST)
    elif isinstance(which, int):
        epoch, arrays, complaints = checkpoint.load(path, wanted=which)
    elif not checkpoint.saved_epochs(path):
        return None, []
    else:
        epoch, arrays, complaints = checkpoint.load(path)
    template = first_state(folder.run, folder.spaces, shapes_only=True)
    state = state_from(template, epoch, arrays)
    acting = [*jax.tree.leaves(state.learner.policy), state.normaliser.mean, state.normaliser.var]
    if not all(np.isfinite(values).all() for values in acting):
        raise CheckpointError(
            f"the policy of epoch {epoch} in '{folder.path}' is not finite, so it cannot act; "
            "restore the folder from a copy or train anew."
        )
    return state, complaints


def refuse_no_best(path: Path) -> None:
    """Refuse a run without a best policy; the error contains the cause and the remedy."""
    if checkpoint.saved_epochs(path, BEST):
        return
    judged = len(read_rows(path / EVALUATIONS))
    if judged:
        raise CheckpointError(
            f"'{path}' has no best policy, as none of its {judged} evaluations was safe: train "
            "further, or take the newest policy."
        )
    raise CheckpointError(
        f"'{path}' has no best policy, as it was not evaluated while it trained: train with "
        "--evaluate-every 5, or take the newest policy."
    )


def save_evaluation(folder: Path, result: Evaluation) -> Path:
    """Keep the numbers of the newest policy's evaluation; an earlier one is replaced.

    The sampled and the greedy policy have a file each: `Evaluation.summary` and the epoch.
    """
    file = evaluation_file(folder, "greedy" if result.deterministic else "sampled")
    write_json(file, {"epoch": checkpoint.saved_epochs(folder)[-1]} | result.summary())
    return file
