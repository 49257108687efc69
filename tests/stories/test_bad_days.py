# SPDX-License-Identifier: Apache-2.0
"""Environments that raise, hang or answer nonsense: where, when, and what is left of the run."""

import resource
import sys
import time
import traceback
from pathlib import Path

import moody_env
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from moody_env import Moody

from holdfast import cli
from holdfast.cli import main
from holdfast.envs.failure import EnvFailure
from holdfast.envs.foreign.env import open_foreign
from holdfast.envs.foreign.vector import ForeignVectorEnv
from holdfast.envs.make import make_env
from holdfast.process import Stuck, deadline, optional
from holdfast.runs import checkpoint
from holdfast.runs.folder import create, load_state
from holdfast.runs.training import train_in_folder
from holdfast.train.environment import open_env
from holdfast.train.epoch import TrainingError
from small_runs import rows_without_clock, small


def batch(fault, **options):
    """Three environments of which the second is faulty after five steps."""
    made = iter(["", fault, ""])
    if options.get("vectorise") == "process":
        return open_foreign(lambda: Moody(fault, 5), 2, **options)
    return open_foreign(lambda: Moody(next(made), 5), 3, **options)


def until_it_fails(env, count):
    env.reset(0)
    for _ in range(20):
        env.step(np.zeros((count, 1)))


@pytest.mark.parametrize("fault", ["sleep", "spin"])
def test_one_that_hangs_is_named_with_its_step(fault):
    env = batch(fault, timeout=0.5)
    with pytest.raises(Stuck, match=r"no answer for 0\.5 s") as caught:
        until_it_fails(env, 3)
    assert (
        "environment 1 of Env 'Moody', after 5 steps of its episode 1" in caught.value.__notes__[0]
    )


def test_one_that_hangs_in_a_worker_is_named_too():
    env = batch("sleep", vectorise="process", workers=2, timeout=0.5)
    with pytest.raises(RuntimeError, match=r"Stuck: no answer .*environment 0 .*after 5 steps"):
        until_it_fails(env, 2)


def test_a_batch_that_hangs_is_named_with_its_step():
    env = SyncVectorEnv(
        [lambda: Moody("sleep", 7)], autoreset_mode=AutoresetMode.SAME_STEP
    )  # one step of it is made to look at it
    with pytest.raises(Stuck) as caught:
        until_it_fails(ForeignVectorEnv(env, timeout=0.5), 1)
    assert "step 8 of the batch" in caught.value.__notes__[0]


def test_a_deadline_disturbs_nobody_who_is_in_time():
    """The control: neither inside, nor afterwards, nor without one."""
    until_it_fails(batch("", timeout=0.2), 3)
    with deadline(0.05):
        pass
    with deadline(0.0):
        time.sleep(0.1)


@pytest.mark.parametrize(
    ("fault", "kind", "told"),
    [
        ("shape", ValueError, "observation has 5 numbers, observation_space has 2"),
        ("values", ValueError, "returned 3 values, expected"),
    ],
)
def test_a_fault_is_named_with_its_environment_and_step(fault, kind, told):
    with pytest.raises(kind, match=told) as caught:
        until_it_fails(batch(fault), 3)
    assert (
        "environment 1 of Env 'Moody', after 5 steps of its episode 1" in caught.value.__notes__[0]
    )


@pytest.mark.parametrize("where", ["here", "in a worker"])
@pytest.mark.parametrize(
    ("fault", "words"), [("raise", "KeyError: 'valve'"), ("mute", "KeyError without a message")]
)
def test_an_error_of_the_environment_has_one_form(where, fault, words):
    env = batch(fault, **({"vectorise": "process", "workers": 1} if where != "here" else {}))
    number, count = (1, 3) if where == "here" else (0, 2)
    with pytest.raises(EnvFailure) as caught:
        until_it_fails(env, count)
    line = next(
        i
        for i, text in enumerate(Path(moody_env.__file__).read_text().splitlines(), 1)
        if f"# {fault}" in text
    )
    told = str(caught.value)
    assert told.startswith(words)
    assert f"moody_env.py, line {line}, in step), in environment {number} of Env 'Moody'" in told
    assert "after 5 steps of its episode 1" in told
    whole = "".join(traceback.format_exception(caught.value))
    assert "raise KeyError" in whole, "the full traceback is there"


def test_the_command_line_prints_that_form_and_how_to_see_more(monkeypatch, capsys):
    def run(args):
        until_it_fails(batch("mute"), 3)

    monkeypatch.setattr(cli, "run", run)
    with pytest.raises(SystemExit) as stop:
        cli.main(["train"])
    err = capsys.readouterr().err
    assert stop.value.code == 2 and "Traceback" not in err
    assert "holdfast: KeyError without a message (" in err
    assert "HOLDFAST_DEBUG=1 shows the full traceback." in err
    monkeypatch.setenv("HOLDFAST_DEBUG", "1")
    with pytest.raises(EnvFailure):
        cli.main(["train"])


def test_what_holdfast_itself_refuses_is_not_called_an_error_of_the_environment():
    """The control: a wrong shape is a sentence of ours, with a note on the place."""
    with pytest.raises(ValueError, match="observation has 5 numbers"):
        until_it_fails(batch("shape"), 3)


def test_after_a_fault_the_run_goes_on_where_it_was(tmp_path):
    """Four environments, 40 steps an epoch: the fault comes in the second."""
    run = small("moody", epochs=2, num_envs=4, epoch_steps=40, workers=1)
    env = open_env(run, lambda: Moody("raise", 12))
    folder = create(tmp_path / "run", run, env)
    with pytest.raises(EnvFailure, match="valve"):
        for _ in train_in_folder(folder, env):
            pass
    assert checkpoint.saved_epochs(folder.path) == [1] and not folder.finished
    state, _ = load_state(folder)
    for _ in train_in_folder(folder, open_env(run, Moody), state=state):
        pass
    assert folder.finished


@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX limits")
def test_a_disk_that_is_full_for_a_row_loses_nothing(tmp_path):
    """The file-size limit of a process stands in for the disk: a row of progress.csv is cut."""
    run = small(epochs=3)
    folder = create(tmp_path / "run", run, make_env("probe/Speed-v0", 4))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    record = folder.path / "progress.csv"
    with pytest.raises(TrainingError, match=r"cannot be written.*holdfast resume"):
        try:
            for _ in train_in_folder(folder, make_env("probe/Speed-v0", 4)):
                half = record.stat().st_size + 20
                resource.setrlimit(resource.RLIMIT_FSIZE, (half, limits[1]))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    state, _ = load_state(folder)
    assert state.epoch == 1
    for _ in train_in_folder(folder, make_env("probe/Speed-v0", 4), state=state):
        pass
    undisturbed = create(tmp_path / "other", run, make_env("probe/Speed-v0", 4))
    for _ in train_in_folder(undisturbed, make_env("probe/Speed-v0", 4)):
        pass
    assert rows_without_clock(record) == rows_without_clock(undisturbed.path / "progress.csv")


def test_too_little_memory_is_one_sentence(monkeypatch, capsys):
    def hungry(self, args):
        raise MemoryError("Unable to allocate 8.0 TiB")

    monkeypatch.setattr(cli.Command, "call", hungry)
    with pytest.raises(SystemExit) as stop:
        main(["list"])
    assert stop.value.code == 2
    assert "not enough memory for this (Unable to allocate" in capsys.readouterr().err


def test_a_missing_onnx_is_named_whole(monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(RuntimeError, match=r"pip install 'holdfast-rl\[onnx\]'"):
        optional("onnx", "onnx", "an ONNX export")


FILE = """
from moody_env import Moody

class Late(Moody):
    def __init__(self):
        super().__init__("sleep", 5)
"""


def test_on_the_command_line_it_is_one_sentence(tmp_path, monkeypatch, capsys):
    (tmp_path / "late.py").write_text(FILE)
    monkeypatch.chdir(tmp_path)
    words = "train c-trpo late.py:Late --cost-limit 5 --num-envs 2 --epoch-steps 40 --workers 1"
    with pytest.raises(SystemExit) as stop:
        main([*words.split(), "--step-timeout", "0.5", "--quiet", "--out", "run"])
    told = " ".join(capsys.readouterr().err.split())
    assert stop.value.code == 2 and "no answer for 0.5 s" in told and "after 4 steps" in told
