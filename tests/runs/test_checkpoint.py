# SPDX-License-Identifier: Apache-2.0
"""What is on disk: no folder overwritten, checkpoints kept, refused, or fallen back from."""

import json
import resource
import shutil

import numpy as np
import pytest

from holdfast import make_env
from holdfast.files import CheckpointError, locked
from holdfast.records.rows import read_rows
from holdfast.runs import checkpoint
from holdfast.runs.folder import create, load_state, open_folder, state_arrays
from holdfast.runs.progress import ProgressFile
from holdfast.runs.training import train_in_folder
from small_runs import finish, rows_without_clock, same, small


def test_existing_folder_is_never_overwritten(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ValueError, match=r"exists and is not empty: choose another.*out="):
        create(tmp_path, small(), make_env("probe/Speed-v0", 4))
    assert (tmp_path / "notes.txt").read_text() == "mine"
    env, path = make_env("probe/Speed-v0", 4), tmp_path / "run"
    finish(create(path, small(), env), env)
    with pytest.raises(ValueError, match=r"exists and is not empty.*holdfast resume.*out="):
        create(path, small(), env)


def test_a_run_that_ended_before_its_first_epoch_is_begun_anew(tmp_path):
    """A remedy may need other settings. Unless it is in that epoch right now."""
    env, path = make_env("probe/Speed-v0", 4), tmp_path / "run"
    create(path, small(seed=1), env)
    with locked(path / ".lock"), pytest.raises(ValueError, match="is not empty"):
        create(path, small(seed=2), env)
    assert open_folder(path).run.seed == 1
    finish(create(path, small(seed=2), env), env)
    assert open_folder(path).run.seed == 2 and (path / "done.json").exists()


def trained(tmp_path, epochs=3):
    env = make_env("probe/Speed-v0", 4)
    folder = create(tmp_path / "run", small(epochs=epochs), env)
    for _ in train_in_folder(folder, env):
        pass
    return folder


def test_a_truncated_checkpoint_falls_back_to_the_one_before(tmp_path):
    folder = trained(tmp_path)
    newest = folder.path / "checkpoint" / "epoch-000003" / "state.safetensors"
    newest.write_bytes(newest.read_bytes()[:-100])
    state, complaints = load_state(folder)
    assert state.epoch == 2 and "truncated or altered" in complaints[0]
    older = folder.path / "checkpoint" / "epoch-000002" / "state.json"
    older.write_text("{")
    with pytest.raises(CheckpointError, match=r"no checkpoint .* is whole.*train anew"):
        load_state(folder)


@pytest.mark.parametrize(
    ("save_every", "keep", "left"), [(1, 2, [4, 5]), (2, 2, [4, 5]), (2, 1, [5]), (3, 9, [3, 5])]
)
def test_checkpoints_come_and_go_as_asked(save_every, keep, left, tmp_path):
    """Every so many epochs and at the end; a run killed between two goes on from the older."""
    run = small(epochs=5, save_every=save_every, keep=keep, critic_passes=1)
    whole = create(tmp_path / "whole", run, make_env(run.env, run.num_envs))
    for epoch in train_in_folder(whole, make_env(run.env, run.num_envs)):
        if epoch.index == 4:  # what a kill would leave
            shutil.copytree(whole.path, tmp_path / "killed")
    killed = open_folder(tmp_path / "killed")
    state, _ = load_state(killed)
    assert state.epoch == 4 - 4 % save_every
    finish(killed, make_env(run.env, run.num_envs))
    assert checkpoint.saved_epochs(whole.path) == checkpoint.saved_epochs(killed.path) == left
    same(*(state_arrays(load_state(folder)[0]) for folder in (whole, killed)))
    rows = [rows_without_clock(folder.path / "progress.csv") for folder in (whole, killed)]
    assert rows[0] == rows[1] and len(rows[0]) == 5


def test_hostile_checkpoints_are_refused(tmp_path):
    """A valid digest does not make foreign content welcome: names, shapes, types are checked."""
    import hashlib

    from safetensors.numpy import save

    folder = trained(tmp_path, epochs=1)
    place = folder.path / "checkpoint" / "epoch-000001"
    honest = (place / "state.safetensors").read_bytes()
    arrays = state_arrays(load_state(folder)[0])

    def plant(content):
        (place / "state.safetensors").write_bytes(content)
        digest = hashlib.sha256(content).hexdigest()
        (place / "state.json").write_text(json.dumps({"format": 1, "epoch": 1, "sha256": digest}))

    huge = (2**40).to_bytes(8, "little") + b"{}"
    wrong_shape = arrays | {"regret": np.zeros((2, 7))}
    wrong_policy = arrays | {"learner.policy.layers[0][0]": np.zeros((3, 3), np.float32)}
    missing = {k: v for k, v in arrays.items() if k != "obs"}
    for content in (
        b"",
        b"not a checkpoint",
        huge,
        honest[:50],
        *map(save, (wrong_shape, wrong_policy, missing)),
    ):
        plant(content)
        with pytest.raises(CheckpointError):
            load_state(folder)
    plant(honest)
    assert load_state(folder)[0].epoch == 1
    (folder.path / "run.json").write_text('{"run": {"name": "c-trpo", "evil": 1}}')
    with pytest.raises(CheckpointError, match="not a valid run configuration"):
        open_folder(folder.path)


def test_a_full_disk_while_saving_loses_nothing(tmp_path):
    """The file-size limit of a process stands in for the disk: the write itself fails."""
    env = make_env("probe/Speed-v0", 4)
    folder = create(tmp_path / "run", small(epochs=3, hidden=(64, 64)), env)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    size = None
    with pytest.raises(CheckpointError, match=r"epoch 2 could not be saved.*epoch 1 is saved"):
        try:
            for epoch in train_in_folder(folder, env):
                place = folder.path / "checkpoint" / f"epoch-{epoch.index:06d}"
                size = (place / "state.safetensors").stat().st_size
                resource.setrlimit(resource.RLIMIT_FSIZE, (size // 2, limits[1]))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert size is not None
    assert [p.name for p in (folder.path / "checkpoint").iterdir()] == ["epoch-000001"]
    finish(folder, make_env("probe/Speed-v0", 4))
    assert folder.finished and len(read_rows(folder.path / "progress.csv")) == 3


def test_csv_drops_a_half_written_line_and_later_rows(tmp_path):
    path = tmp_path / "progress.csv"
    path.write_text("epoch,value\n1,0.1\n2,0.2\n3,0.")
    sink = ProgressFile(path, epoch=1)
    sink.write(0, {"epoch": 2, "value": 1 / 3})
    assert path.read_text() == f"epoch,value\n1,0.1\n2,{1 / 3!r}\n"
