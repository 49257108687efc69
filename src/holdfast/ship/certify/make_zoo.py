# SPDX-License-Identifier: Apache-2.0
"""Make the zoo from run folders: one policy of each task, judged, with its model card."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from holdfast.agent import Agent
from holdfast.files import MALFORMED, read_json, write_json
from holdfast.records.zoo import FORMAT, INDEX, PREFIX, digests, entries
from holdfast.runs import checkpoint
from holdfast.runs.folder import Folder, open_folder, state_arrays
from holdfast.runs.progress import write_rows
from holdfast.ship.certify import certify


def make_zoo(
    dirs: Iterable[Path], to: Path, episodes: int = 200, report: Callable[[str], None] = print
) -> dict[str, dict[str, Any]]:
    """Add a policy for each task of the runs under `dirs`: of the finished ones, the lowest seed.

    No run is selected by its results, so the zoo is representative of the algorithm.
    """
    if episodes < 1:
        raise ValueError(f"--episodes {episodes} must be at least 1; 200 is usual.")
    found: dict[str, Folder] = {}
    for path in sorted(p.parent for root in dirs for p in _records(root)):
        folder = open_folder(path)
        if not checkpoint.saved_epochs(path) or not folder.finished:
            report(f"{path}: it is not finished or has no checkpoint, so it is left out")
            continue
        rival = found.get(folder.run.env)
        if rival is None or folder.run.seed < rival.run.seed:
            found[folder.run.env] = folder
    if not found:
        raise ValueError("none of these folders has a finished run: name trained runs.")
    made = entries(to)
    for task, folder in sorted(found.items()):
        made[task] = add_policy(folder, to, _plain(task), episodes)
        write_json(to / INDEX, {"format": FORMAT, "policies": dict(sorted(made.items()))})
        report(f"zoo/{task}: {sentence(made[task])}")
    return made


def _records(root: Path) -> list[Path]:
    if not root.exists():
        raise ValueError(f"'{root}' does not exist: name run folders or their parents.")
    return [root / "run.json"] if (root / "run.json").exists() else list(root.rglob("run.json"))


def _plain(task: str) -> str:
    if Path(task).name != task or task.startswith("."):
        raise ValueError(
            f"'{task}' is not a native task, and the zoo has only those: name runs on native tasks."
        )
    return task


def add_policy(folder: Folder, to: Path, task: str, episodes: int) -> dict[str, Any]:
    """Write a run folder with the newest policy, without the environments' state, and its card."""
    agent = Agent.load(folder.path)
    state = agent.state
    assert state is not None
    draft = to / f".{task}"
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    for name in ("run.json", "done.json"):  # as they are: run.json has the versions of training
        shutil.copyfile(folder.path / name, draft / name)
    write_rows(draft / "progress.csv", agent.metrics)
    checkpoint.save(draft, state.epoch, state_arrays(replace(state, env=None)), 1)
    card = read_json(certify(draft, episodes=episodes, film=False, name=f"{PREFIX}{task}")[1])
    judged = card["verdict"]
    shutil.rmtree(to / task, ignore_errors=True)
    draft.rename(to / task)
    return {
        "algorithm": agent.run.name,
        "seed": agent.run.seed,
        "env_steps": state.epoch * agent.run.epoch_steps,
        "episodes": episodes,
        "return": judged["return"]["mean"],
        "cost": {name: cost["mean"] for name, cost in judged["cost"].items()},
        "limits": card["task"]["limits"],
        "safe_at_95": judged["safe_at_95"],
        "sha256": digests(to / task),
    }


def sentence(entry: dict[str, Any]) -> str:
    """Return, costs against limits and verdict of an entry."""
    try:
        costs = ", ".join(
            f"{name} {float(mean):.1f} of {float(entry['limits'][name]):g}"
            for name, mean in entry["cost"].items()
        )
        return f"return {float(entry['return']):.1f}, {costs}, proved safe: {entry['safe_at_95']}"
    except MALFORMED:
        return "its entry in the index is damaged"
