# SPDX-License-Identifier: Apache-2.0
"""Files of strangers: links, pipes, bombs and wrong values end in one sentence."""

import hashlib
import json
import os

import numpy as np
import pytest
from safetensors.numpy import save

from holdfast.bench.suite import cells, load_suite
from holdfast.cli import main
from holdfast.envs.make import make_env
from holdfast.files import CheckpointError
from holdfast.records.find import load, not_started
from holdfast.records.rows import read_progress, read_rows
from holdfast.run import make_run
from holdfast.runs import checkpoint
from holdfast.runs.folder import create, load_state, open_folder, state_arrays
from holdfast.runs.progress import ProgressFile
from holdfast.ship.export.numpy_policy import Policy
from holdfast.tabular import read_cmdp
from holdfast.train.state import first_state


@pytest.fixture
def folder(tmp_path):
    """A run folder with the checkpoint of an untrained policy."""
    run = make_run("c-trpo", env="probe/Speed-v0", hidden=[4], num_envs=2, epoch_steps=40)
    made = create(tmp_path / "run", run, make_env("probe/Speed-v0", 2))
    checkpoint.save(made.path, 1, state_arrays(first_state(run, made.spaces)), 2)
    return made


def rewrite(folder, change):
    data = json.loads((folder.path / "run.json").read_text())
    change(data)
    (folder.path / "run.json").write_text(json.dumps(data))


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data["observation"].update(shape=[10**12]),
        lambda data: data["observation"].update(shape=[float("inf")]),
        lambda data: data["observation"].update(shape=[2, 2]),
        lambda data: data["action"].update(shape=[10**6, 10**6]),
        lambda data: data["action"].update(dtype="(1000000,)f8,i4"),
        lambda data: data.update(action={"type": "discrete", "n": 10**30, "start": 0}),
        lambda data: data.update(action={"type": "tuple", "parts": [data["action"]]}),
        lambda data: data.update(action={"type": "box", "dtype": "float32", "low": 0, "high": 1}),
        lambda data: data.update(limits={"cost": float("nan")}),
        lambda data: data.update(limits=[1]),
        lambda data: data.update(run=[]),
        lambda data: data["run"].update(gamma=10**400),
        lambda data: data["run"].update(hidden=[10**12]),
        lambda data: data["run"].update(seed=2**32),
        lambda data: data["run"].update(workers=10**9),
        lambda data: data["run"].update(env_args=nested(150)),
        lambda data: data.update(native={"observation": nested(150), "action": None}),
        lambda data: data.update(native=[1]),
    ],
)
def test_what_no_machine_can_hold_is_refused_before_it_is_made(folder, change):
    open_folder(folder.path)
    rewrite(folder, change)
    with pytest.raises(CheckpointError, match=r"run\.json"):
        open_folder(folder.path)


def nested(levels):
    return {"type": "dict", "parts": [["a", nested(levels - 1)]]} if levels else {"type": "other"}


def test_a_network_larger_than_memory_is_refused(folder):
    rewrite(folder, lambda data: data["run"].update(hidden=[10**6, 10**6]))
    with pytest.raises(ValueError, match="weights"):
        load_state(open_folder(folder.path))


@pytest.mark.parametrize("name", ["progress.csv", "checkpoint", ".lock", "done.json", "card"])
def test_a_link_out_of_the_folder_is_refused(folder, tmp_path, name):
    """Also a dangling one: a writer would make the file that it points to."""
    place = folder.path / name
    if place.is_dir():
        place.rename(tmp_path / "elsewhere")
    place.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ValueError, match="outside of its folder"):
        open_folder(folder.path)
    if name == "progress.csv":
        runs, skipped = load([tmp_path])
        assert not runs and "outside of its folder" in skipped[0]


def test_a_link_within_the_folder_is_followed(folder):
    """The control: it is the way out that is closed."""
    (folder.path / "checkpoint").rename(folder.path / "kept")
    (folder.path / "checkpoint").symlink_to(folder.path / "kept")
    assert load_state(open_folder(folder.path))[0].epoch == 1


def test_a_checkpoint_that_lies_elsewhere_is_not_read(folder, tmp_path):
    place = folder.path / "checkpoint" / "epoch-000001"
    place.rename(tmp_path / "elsewhere")
    place.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(CheckpointError, match="outside of its folder"):
        load_state(folder)


READ = {
    "run.json": lambda file: open_folder(file.parent),
    "mine.toml": load_suite,
    "progress.csv": read_rows,
    "mine.json": read_cmdp,
}


def every_reader_refuses(folder, words):
    for name, read in READ.items():
        with pytest.raises(ValueError, match=words):
            read(folder / name)


def test_a_pipe_is_no_file(tmp_path):
    """Opening it would wait for ever."""
    for name in READ:
        os.mkfifo(tmp_path / name)
    every_reader_refuses(tmp_path, "not a plain file")


def test_a_file_that_is_too_large_is_not_read(tmp_path):
    """Sparse files: a terabyte on paper, nothing on the disk."""
    for name in READ:
        with (tmp_path / name).open("wb") as file:
            file.truncate(10**12)
    every_reader_refuses(tmp_path, "larger than")


def test_a_policy_that_is_not_finite_is_not_loaded(folder):
    """A right digest says that a file is whole, not that it is good."""
    arrays = state_arrays(load_state(folder)[0])
    name = next(name for name in arrays if name.startswith("learner.policy"))
    for value in (np.nan, np.inf):
        content = save(arrays | {name: np.full_like(arrays[name], value)})
        place = folder.path / "checkpoint" / "epoch-000001"
        (place / "state.safetensors").write_bytes(content)
        meta = {"format": 1, "epoch": 1, "sha256": hashlib.sha256(content).hexdigest()}
        (place / "state.json").write_text(json.dumps(meta))
        with pytest.raises(CheckpointError, match="not finite"):
            load_state(folder)


def test_odd_names_beside_checkpoints_are_not_taken_for_one(folder):
    for name in ("epoch-²", "epoch-", "epoch-1e3", "epoch-" + "9" * 200):
        (folder.path / "checkpoint" / name).mkdir()
    assert checkpoint.saved_epochs(folder.path) == [1]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("epoch,value\n1,²\n", "not a number"),
        ("epoch,value\n--1,2\n", "not a number"),
        ('"' + "x" * 200_000 + '"\n1\n', "not a list of names"),
        ("value,value\n1,2\n", "twice"),
        ("epoch,value\n1\n", "line 2 of progress.csv has 1 fields, its header 2"),
        ("epoch,value\n1,2\n2\n3,4\n", "line 3 of progress.csv has 1 fields"),
    ],
)
def test_a_record_that_is_none_is_one_sentence(tmp_path, text, told):
    file = tmp_path / "progress.csv"
    file.write_text(text)
    for read in (read_progress, read_rows):
        with pytest.raises(ValueError, match=told):
            read(file)


def test_a_record_without_epochs_is_not_gone_on_with(tmp_path):
    file = tmp_path / "progress.csv"
    file.write_text("value\n1\n")
    with pytest.raises(ValueError, match="no column 'epoch'"):
        ProgressFile(file, 1)


def test_a_column_that_nobody_fills_any_more_stays_empty(tmp_path):
    file = tmp_path / "progress.csv"
    file.write_text("epoch,old\n1,2\n")
    ProgressFile(file, 1).write(0, {"epoch": 2, "new": 3})
    assert file.read_text().splitlines() == ["epoch,old", "1,2", "2,nan"]


@pytest.mark.parametrize(
    "record",
    [
        {"run": [1]},
        {"run": {"name": "cpo", "env": "x", "seed": float("inf")}, "limits": {"cost": 1}},
        {"run": {"name": "cpo", "env": "x"}, "limits": {"cost": -1}},
        {"run": {"name": "cpo", "env": "x"}, "limits": {}, "versions": 3},
        [],
    ],
)
def test_one_bad_folder_does_not_stop_a_report(folder, tmp_path, record):
    (folder.path / "progress.csv").write_text("epoch,env_steps,ep_return,ep_cost\n1,20,1,2\n")
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "run.json").write_text(json.dumps(record))
    (tmp_path / "bad" / "progress.csv").write_text("env_steps,ep_return,ep_cost\n1,2,3\n")
    runs, skipped = load([tmp_path])
    assert [run.path for run in runs] == [str(folder.path)]
    assert len(skipped) == 1 and str(tmp_path / "bad") in skipped[0]


@pytest.mark.parametrize("rows", ["1,nan,1,2", "1,inf,1,2", "1,-5,1,2", "1,20,1,2\n2,10,1,2"])
def test_steps_that_do_not_count_up_are_no_run(folder, tmp_path, rows):
    (folder.path / "progress.csv").write_text(f"epoch,env_steps,ep_return,ep_cost\n{rows}\n")
    _, skipped = load([tmp_path])
    assert "do not increase" in skipped[0]


def test_the_cells_of_a_suite_are_names_and_no_paths(tmp_path):
    listed = ["../../etc", "/etc", "a/b", "x" * 400, "a\0b", "c"]
    (tmp_path / "suite.json").write_text(json.dumps({"cells": listed}))
    assert not_started(tmp_path) == ["c: not started"]
    for wrong in ({"cells": 3}, {"cells": [1]}, [1]):
        (tmp_path / "suite.json").write_text(json.dumps(wrong))
        with pytest.raises(ValueError, match=r"suite\.json"):
            not_started(tmp_path)


SUITE = "steps = 100\ntasks = ['probe/Speed-v0']\nalgorithms = ['cpo']\n"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (SUITE + "seeds = 1000000000000", "seeds"),
        (SUITE.replace("'cpo'", "{name='c-trpo',sweep={%s}}")
         % ",".join(f"{n}={list(range(1, 900))}" for n in ("beta", "save_every", "keep")), "runs"),
        (SUITE + "x = " + "[" * 5000 + "]" * 5000, "deep"),
        (SUITE + "x" + ".x" * 5000 + " = 1", "deep"),
        (SUITE.replace("100", "1" + "0" * 400), "steps"),
        (SUITE.replace("'cpo'", "{name='cpo',settings={env_args={a='%s'}}}" % ("x" * 300)), "long"),
        ("\xff", "UTF-8"),
    ],
)  # fmt: skip
def test_a_suite_that_no_machine_could_run_is_one_sentence(tmp_path, text, told):
    file = tmp_path / "mine.toml"
    file.write_text(text, encoding="latin-1")
    with pytest.raises(ValueError, match=told):
        cells(load_suite(file))


CMDP = {
    "gamma": 0.9, "initial": [1.0], "reward": [[1.0]], "cost": [[[0.1]]], "cost_limit": [0.2],
    "transition": [[[1.0]]],
}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"gamma": "x"}, "gamma"),
        ({"gamma": []}, "gamma"),
        ({"reward": {}}, "reward"),
        ({"reward": [1.0]}, "reward"),
        ({"reward": [[10**400]]}, "reward"),
        ({"cost_limit": 3}, "cost_limit"),
        ({"cost_limit": [{}]}, "cost_limit"),
        ({"transition": None}, "transition"),
        ({"initial": nested(300)}, "deep"),
    ],
)
def test_a_cmdp_file_with_wrong_values_names_them(tmp_path, change, told):
    file = tmp_path / "mine.json"
    file.write_text(json.dumps(CMDP))
    read_cmdp(file)
    file.write_text(json.dumps(CMDP | change))
    with pytest.raises(ValueError, match=told):
        read_cmdp(file)


def test_a_table_of_other_things_is_skipped(tmp_path):
    import pyarrow as pa
    from pyarrow import parquet

    good = {
        "algorithm": ["cpo"], "task": ["T"], "seed": [0], "env_steps": [10], "ep_return": [1.0],
        "ep_cost": [2.0], "beta": [[1, 2]],
    }  # fmt: skip
    parquet.write_table(pa.table(good), tmp_path / "good.parquet")
    for name, change in {
        "words": {"env_steps": ["many"]}, "negative": {"cost_limit": [-1.0]},
        "empty": {"seed": [None]}, "lists": {"ep_cost": [[1.0]]},
    }.items():  # fmt: skip
        parquet.write_table(pa.table(good | change), tmp_path / f"{name}.parquet")
    (tmp_path / "broken.parquet").write_bytes(b"PAR1" + b"\xff" * 100 + b"PAR1")
    runs, skipped = load([tmp_path])
    assert [run.source for run in runs] == ["good"] and runs[0].config["beta"] == "[1 2]"
    assert len(skipped) == 5


def test_a_table_that_unpacks_into_too_much_is_skipped(tmp_path, monkeypatch):
    import pyarrow as pa
    from pyarrow import parquet

    from holdfast.records import formats

    columns = {name: np.zeros(1000) for name in formats.REQUIRED}
    parquet.write_table(pa.table(columns), tmp_path / "runs.parquet")  # compressed to little
    assert load([tmp_path])[0]
    monkeypatch.setattr(formats, "LARGEST", 10_000)
    assert "its size is more than" in load([tmp_path])[1][0]


def test_an_export_that_is_none_is_one_sentence(tmp_path):
    file = tmp_path / "policy.npz"
    for content in (b"", b"PK\x03\x04junk", b"\x93NUMPY\x01\x00junk"):
        file.write_bytes(content)
        with pytest.raises(ValueError, match="not a policy"):
            Policy(file)
    plain = {"activation": "tanh", "image": [], "channels": [], "memory": 0, "colours_first": False}
    part = {"path": [], "shape": [3], "sizes": [], "starts": []}
    texts = {"network": plain, "parts": [part], "action": {"shape": [1], "dtype": "int64"}}
    known = {name: np.array(json.dumps(text)) for name, text in texts.items()}
    known |= {"about": np.array("{}"), "sizes": [2], "starts": [0]}
    np.savez(file, weight0=np.zeros((3, 2)), bias0=np.zeros(5), **known)
    with pytest.raises(ValueError, match="not a policy"):
        Policy(file)
    np.savez(file, weight0=np.array([{}], object), **known)
    with pytest.raises(ValueError, match="not a policy"):
        Policy(file)
    good = {"weight0": np.zeros((3, 2)), "bias0": np.zeros(2)}
    for wrong in (
        [],
        [part | {"shape": [4]}],
        [part | {"shape": [10**12]}],
        [part | {"sizes": [10**12], "starts": [0]}],
        [part | {"shape": [2], "sizes": [5, -2], "starts": [0, 0]}],
        [part | {"sizes": [3]}],
        [part | {"sizes": [3], "starts": ["0"]}],
        [part | {"path": 3}],
        [part | {"path": [[]]}],
        [{}],
        7,
    ):
        np.savez(file, **good, **known | {"parts": np.array(json.dumps(wrong))})
        with pytest.raises(ValueError, match="not a policy"):
            Policy(file)
    for wrong in ({"dtype": "object"}, {"dtype": "no"}, {"shape": [2]}, {"shape": "1"}):
        action = np.array(json.dumps(texts["action"] | wrong))
        np.savez(file, **good, **known | {"action": action})
        with pytest.raises(ValueError, match="not a policy"):
            Policy(file)
    np.savez(file, **good, **known)
    assert Policy(file)(np.zeros(3)).tolist() == [0]


def test_words_of_a_file_do_not_steer_the_terminal(folder, capsys):
    """Neither escape sequences nor markup, nor a message as long as the file."""
    rewrite(folder, lambda data: data["run"].update(preset="\x1b]0;owned\x07[/bold]" + "x" * 10**5))
    with pytest.raises(SystemExit):
        main(["resume", str(folder.path)])
    told = capsys.readouterr().err
    assert "\x1b]0" not in told and "\x07" not in told and "preset" in told and len(told) < 6000
