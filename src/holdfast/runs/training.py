# SPDX-License-Identifier: Apache-2.0
"""Training in a run folder: it can be killed at any instant and resumed to the same bits.

This rests on the order of writing. run.json is first. Each epoch writes its row of progress.csv,
its evaluation if one is due, and its checkpoint. done.json is last. A resumed run starts from the
newest whole checkpoint and drops the rows after it.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import jax

from holdfast.envs.base import OnProgress, VecEnv
from holdfast.envs.foreign.references import is_unnamed
from holdfast.files import Busy, locked, write_json
from holdfast.records.rows import EVALUATIONS, Row, read_rows
from holdfast.run import to_json
from holdfast.runs import checkpoint
from holdfast.runs.consent import remember
from holdfast.runs.evaluator import open_evaluator
from holdfast.runs.folder import Folder, open_folder, state_arrays, write_config
from holdfast.runs.progress import ProgressFile, write_rows
from holdfast.runs.sinks import Sink
from holdfast.train import Epoch, train
from holdfast.train.environment import Given
from holdfast.train.epoch import TrainingError
from holdfast.train.state import State, first_state


def train_in_folder(
    folder: Folder,
    env: VecEnv,
    extra_sinks: Sequence[Sink] = (),
    state: State | None = None,
    on_progress: OnProgress | None = None,
    given: Given = (None, None),
) -> Generator[Epoch]:
    """Train in a folder: rows, checkpoints, sinks, done.json; yields each epoch once it is saved.

    However the loop ends, the last whole epoch is saved; only after a kill a run restarts from its
    last regular checkpoint (`save_every`). The caller closes the sinks. `given` are the environment
    and cost function, if they differ from those that the run names: evaluations while training open
    them again.
    """
    run = folder.run
    unsaved: Epoch | None = None
    with owned(folder.path), explain_errors(folder), ExitStack() as opened:
        settle_config(folder)
        remember(folder.path, run)  # the environment is open, so its code was named or allowed
        judge = open_evaluator(run, folder.spaces, given, folder.path)
        if judge is not None:
            opened.callback(judge.close)
            judge.resume(state)
        rows = ProgressFile(folder.path / "progress.csv", state.epoch if state else 0)
        try:
            for epoch in train(run, env, state, on_progress):
                unsaved = epoch
                for sink in (rows, *extra_sinks):
                    sink.write(epoch.env_steps, epoch.metrics)
                if judge is not None:
                    judge(epoch)
                if epoch.index % run.save_every == 0 or epoch.index == run.epochs:
                    checkpoint.save(folder.path, epoch.index, state_arrays(epoch.state), run.keep)
                    unsaved = None
                yield epoch
        finally:
            if unsaved is not None:  # the row again: the stop may have come in its middle
                rows = ProgressFile(rows.path, unsaved.index - 1)
                rows.write(unsaved.env_steps, unsaved.metrics)
                arrays = state_arrays(unsaved.state)
                checkpoint.save(folder.path, unsaved.index, arrays, run.keep)
        conclude(folder)


def conclude(folder: Folder) -> None:
    """Write done.json from progress.csv, as a kill may have come after the last checkpoint."""
    names = ("epoch", "env_steps", "ep_return", "ep_cost", "cost_regret_raw", "cost_regret")
    rows = read_rows(folder.path / "progress.csv")
    row = {name: rows[-1][name] for name in names if name in rows[-1]} if rows else {}
    write_json(folder.path / "done.json", row)


@contextmanager
def owned(path: Path) -> Generator[None]:
    """Lock a folder against other training processes; the lock ends with this process."""
    with locked(path / ".lock") as mine:
        if not mine:
            raise Busy(
                f"'{path}' is being trained by another process; wait for it or stop it first, as "
                "two would overwrite each other's files."
            )
        yield


def settle_config(folder: Folder) -> None:
    """Write run.json; if the settings changed, remove done.json."""
    if to_json(open_folder(folder.path).run) != to_json(folder.run):
        (folder.path / "done.json").unlink(missing_ok=True)
        write_config(folder)


@contextmanager
def explain_errors(folder: Folder) -> Generator[None]:
    """Add the last good checkpoint and the command that continues to errors of training."""
    try:
        yield
    except TrainingError as error:
        raise TrainingError(
            f"{error}; {checkpoint.newest(folder.path)} in '{folder.path}': "
            f"`{folder.command('resume')}` continues there."
        ) from None
    except OSError as error:
        raise TrainingError(
            f"'{folder.path}' cannot be written ({error.strerror or error}); correct that, then "
            f"`{folder.command('resume')}` continues from the last checkpoint."
        ) from error


def begin_with(folder: Folder, state: State) -> State:
    """The first state of a new run with the networks and statistics of another, saved as epoch
    0.
    """
    fresh = first_state(folder.run, folder.spaces)
    shapes = lambda tree: [(leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(tree)]
    kinds = [jax.tree.structure(one.learner) for one in (fresh, state)]
    if kinds[0] != kinds[1] or shapes(fresh.learner) != shapes(state.learner):
        raise ValueError(
            f"'{folder.run.origin}' has other networks, constraints or states than this run: leave "
            "encoder, hidden, activation, limits by name and the algorithm as they were."
        )
    begun = replace(fresh, learner=state.learner, normaliser=state.normaliser)
    checkpoint.save(folder.path, 0, state_arrays(begun), folder.run.keep)
    return begun


def extended(folder: Folder, state: State | None, steps: int | None) -> Folder:
    """The folder with a new total of steps, if one is given; nothing is written before training."""
    made = state.epoch * folder.run.epoch_steps if state else 0
    if steps is None:
        if folder.finished:
            raise ValueError(
                f"'{folder.path}' is finished; evaluate it with `{folder.command('evaluate')}`, or "
                f"train further with `{folder.command('resume')} --steps N`."
            )
        return folder
    if steps <= made:
        raise ValueError(
            f"'{folder.path}' has made {made} steps already, and --steps {steps} is the new "
            f"total, not an addition; give more than {made}."
        )
    return replace(folder, run=replace(folder.run, steps=steps))


def write_run(
    folder: Folder, state: State, rows: Sequence[Row], evaluations: Sequence[Row] = ()
) -> None:
    """Write a state with its history as if it had been trained in the folder.

    Only an earlier epoch of the same run is overwritten.
    """
    folder.path.mkdir(parents=True, exist_ok=True)
    with owned(folder.path):
        refuse_other(folder, state.epoch)
        (folder.path / "done.json").unlink(missing_ok=True)
        write_config(folder)
        write_rows(folder.path / "progress.csv", rows)
        if evaluations:
            write_rows(folder.path / EVALUATIONS, evaluations)
        checkpoint.save(folder.path, state.epoch, state_arrays(state), folder.run.keep)
        if state.epoch >= folder.run.epochs:
            conclude(folder)


def refuse_other(folder: Folder, epoch: int) -> None:
    """Refuse to replace anything but an earlier state of the same run."""
    later = [found for found in checkpoint.saved_epochs(folder.path) if found > epoch]
    held = f"epoch {later[-1]}" if later else ""
    if (folder.path / "run.json").exists():
        before = replace(open_folder(folder.path).run, steps=folder.run.steps)
        if is_unnamed(before.env):  # it had no name, and may have one now
            before = replace(before, env=folder.run.env, env_args=folder.run.env_args)
        if to_json(before) != to_json(folder.run):
            held = "a run with other settings"
    if held:
        raise ValueError(
            f"'{folder.path}' contains {held}, which saving epoch {epoch} there would replace; "
            "choose "
            "another folder, or remove that one first."
        )
