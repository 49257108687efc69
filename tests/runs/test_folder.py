# SPDX-License-Identifier: Apache-2.0
"""Run folders lose nothing: refused commands, used folders, two at once, a polite stop."""

import json
import os
import signal
import subprocess
import sys
import threading
import time

import jax
import numpy as np
import pytest

from holdfast import Agent, cli, make_env, make_run
from holdfast.files import Busy, locked
from holdfast.records.rows import read_rows
from holdfast.runs import folder as folders
from holdfast.runs.checkpoint import saved_epochs
from holdfast.runs.folder import create, load_state, open_folder
from holdfast.runs.training import train_in_folder
from holdfast.train.state import first_state
from small_runs import rows_without_clock

SMALL = dict(num_envs=4, epoch_steps=200, hidden=(8,), critic_passes=1, cg_steps=3)
FLAGS = "--num-envs 4 --epoch-steps 200 --hidden 8 --critic-passes 1 --cg-steps 3".split()
CLI = "from holdfast.cli import main; import sys; main(sys.argv[1:])"


def trained(path, epochs=2, **settings):
    run = make_run("c-trpo", env="probe/Speed-v0", steps=200 * epochs, **(SMALL | settings))
    env = make_env(run.env, run.num_envs)
    folder = create(path, run, env)
    for _ in train_in_folder(folder, env):
        pass
    return folder


def learner(steps=400, **settings):
    agent = Agent("c-trpo", **(SMALL | settings))
    return agent.learn("probe/Speed-v0", steps, progress=False, cost_limit=6.0)


def content(path):
    files = sorted(p for p in path.rglob("*") if p.is_file() and p.name != ".lock")
    return {str(p.relative_to(path)): p.read_bytes() for p in files}


def refused(capsys, *args):
    with pytest.raises(SystemExit) as stop:
        cli.main([str(arg) for arg in args])
    assert stop.value.code == 2
    return capsys.readouterr().err


def rows(path):
    return rows_without_clock(path / "progress.csv")


@pytest.mark.parametrize("steps", [100, 400, 0, -5])
def test_a_refused_resume_changes_nothing(steps, tmp_path, capsys):
    trained(tmp_path / "run")
    before = content(tmp_path / "run")
    told = refused(capsys, "resume", tmp_path / "run", "--steps", steps, "--quiet")
    assert "has made 400 steps already" in told and "more than 400" in told
    assert content(tmp_path / "run") == before


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("c-trpo probe/Machines-v0 --beta 1 2 3", "beta has 3 values for 2 constraint(s)"),
        ("cpo probe/Machines-v0 --preset published", "--dual flipped"),
        ("c-trpo probe/Speed-v0 --encoder cnn", "--encoder cnn reads images"),
    ],
)
def test_a_refused_training_leaves_no_folder(words, told, tmp_path, capsys):
    assert told in refused(capsys, "train", *words.split(), "--out", tmp_path / "run", "--quiet")
    assert not (tmp_path / "run").exists()


def test_a_resume_whose_environment_is_gone_changes_nothing(tmp_path, capsys):
    folder = trained(tmp_path / "run")
    config = json.loads((folder.path / "run.json").read_text())
    config["run"]["env"] = "probe/Gone-v0"
    (folder.path / "run.json").write_text(json.dumps(config))
    before = content(folder.path)
    assert "probe/Gone-v0" in refused(capsys, "resume", folder.path, "--steps", 800, "--quiet")
    assert content(folder.path) == before


def test_a_longer_run_equals_one_that_was_long_from_the_start(tmp_path):
    trained(tmp_path / "short")
    cli.main(["resume", str(tmp_path / "short"), "--steps", "800", "--quiet"])
    trained(tmp_path / "long", epochs=4)
    assert rows(tmp_path / "short") == rows(tmp_path / "long")
    assert open_folder(tmp_path / "short").run.steps == 800
    assert json.loads((tmp_path / "short" / "done.json").read_text())["epoch"] == 4


def test_saving_never_replaces_later_epochs_or_another_run(tmp_path):
    long, short = learner(800), learner(400)
    long.save(tmp_path / "kept")
    before = content(tmp_path / "kept")
    with pytest.raises(ValueError, match=r"contains epoch 4.*saving epoch 2.*another folder"):
        short.save(tmp_path / "kept")
    with pytest.raises(ValueError, match=r"a run with other settings.*another folder"):
        learner(800, beta=0.5).save(tmp_path / "kept")
    assert content(tmp_path / "kept") == before
    short.save(tmp_path / "grows")
    short.learn("probe/Speed-v0", 400, progress=False).save(tmp_path / "grows")
    again = Agent.load(tmp_path / "grows")
    obs = np.linspace(0, 1, 5)[:, None]
    np.testing.assert_array_equal(again.predict(obs), long.predict(obs))
    np.testing.assert_equal(again.metrics, short.metrics)  # NaN, what is not known yet, included
    assert [r["epoch"] for r in again.metrics] == [1, 2, 3, 4]


def test_a_saved_agent_is_a_run_folder(tmp_path, capsys):
    """It is finished, can be trained further, and then equals a run that was never saved."""
    learner(400).save(tmp_path / "saved")
    assert "is finished" in refused(capsys, "resume", tmp_path / "saved")
    cli.main(["resume", str(tmp_path / "saved"), "--steps", "800", "--quiet"])
    learner(800).save(tmp_path / "whole")
    assert rows(tmp_path / "saved") == rows(tmp_path / "whole")
    one, other = (content(tmp_path / name / "checkpoint") for name in ("saved", "whole"))
    name = "epoch-000004/state.safetensors"
    assert one[name] == other[name]


def test_a_folder_without_a_record_can_be_resumed(tmp_path):
    folder = trained(tmp_path / "run")
    for name in ("progress.csv", "done.json"):
        (folder.path / name).unlink()
    cli.main(["resume", str(folder.path), "--quiet"])
    assert open_folder(folder.path).finished
    cli.main(["resume", str(folder.path), "--steps", "600", "--quiet"])
    assert [row["epoch"] for row in rows(folder.path)] == ["3"]


def test_a_loaded_agent_takes_its_past_into_a_new_folder(tmp_path):
    learner(400).save(tmp_path / "half")
    agent = Agent.load(tmp_path / "half")
    agent.learn("probe/Speed-v0", 400, progress=False, out=tmp_path / "on")
    learner(800).save(tmp_path / "whole")
    assert rows(tmp_path / "on") == rows(tmp_path / "whole")


def test_one_process_trains_in_a_folder(tmp_path, capsys):
    folder = trained(tmp_path / "run")
    before = content(folder.path)
    with locked(folder.path / ".lock") as mine:
        assert mine
        told = refused(capsys, "resume", folder.path, "--steps", 800, "--quiet")
        assert "is being trained by another process" in told
        with pytest.raises(Busy):
            learner().save(folder.path)
        assert content(folder.path) == before
    cli.main(["resume", str(folder.path), "--steps", "600", "--quiet"])
    assert len(rows(folder.path)) == 3


HOLD = """
import sys, time
from pathlib import Path
from holdfast.files import locked
with locked(Path(sys.argv[1])) as mine:
    print(mine, flush=True)
    time.sleep(60)
"""


def test_a_lock_dies_with_its_owner(tmp_path):
    file = tmp_path / ".lock"
    owner = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(file)], stdout=subprocess.PIPE, text=True
    )
    assert owner.stdout.readline() == "True\n"
    with locked(file) as mine:
        assert not mine
    owner.kill()
    owner.communicate()
    with locked(file) as mine:
        assert mine


@pytest.mark.parametrize("stop", [KeyboardInterrupt, GeneratorExit])
def test_the_last_whole_epoch_is_saved_however_the_loop_ends(stop, tmp_path):
    """Also between two checkpoints, and even while the row is being written."""
    run = make_run("c-trpo", env="probe/Speed-v0", steps=2000, save_every=100, **SMALL)
    env = make_env(run.env, run.num_envs)
    folder = create(tmp_path / "run", run, env)

    class Half:
        def write(self, env_steps, metrics):
            if stop is KeyboardInterrupt and metrics["epoch"] == 3:
                file = tmp_path / "run" / "progress.csv"
                file.write_bytes(file.read_bytes()[:-20])
                raise KeyboardInterrupt

        def close(self):
            pass

    loop = train_in_folder(folder, env, [Half()])
    if stop is KeyboardInterrupt:
        with pytest.raises(KeyboardInterrupt):
            list(loop)
    else:
        assert [next(loop).index for _ in range(3)] == [1, 2, 3]
        loop.close()
    assert saved_epochs(folder.path) == [3] and load_state(folder)[0].epoch == 3
    whole = trained(tmp_path / "whole", epochs=3)
    assert rows(folder.path) == rows(whole.path)


def read_all(terminal, told):
    try:
        while piece := os.read(terminal, 65536):
            told += piece
    except OSError:
        pass  # the other end of a terminal is closed


@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX signals")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stopped_run_says_how_to_go_on(number, tmp_path):
    """On a terminal: the epoch is saved, the cursor is back, the code is the shell's."""
    out, (outer, inner) = tmp_path / "run", os.openpty()
    command = ["train", "c-trpo", "probe/Speed-v0", *FLAGS, "--steps", "1e9", "--save-every", "7"]
    process = subprocess.Popen(
        [sys.executable, "-c", CLI, *command, "--out", str(out)],
        stderr=inner, stdout=inner, env=os.environ | {"TERM": "xterm", "COLUMNS": "300"},
    )  # fmt: skip
    os.close(inner)
    told = bytearray()
    reader = threading.Thread(target=read_all, args=(outer, told))
    reader.start()  # a terminal that nobody reads is full after 4 kB, and the run would wait for it
    deadline = time.monotonic() + 120
    while len(read_rows(out / "progress.csv")) < 3 and time.monotonic() < deadline:
        time.sleep(0.02)
    assert len(read_rows(out / "progress.csv")) >= 3
    process.send_signal(number)
    assert process.wait(30) == 128 + number
    reader.join(30)
    os.close(outer)
    hide, show = b"\x1b[?25l", b"\x1b[?25h"
    assert told.count(hide) >= 1 and told.rfind(show) > told.rfind(hide)
    last = saved_epochs(out)[-1]
    assert [int(row["epoch"]) for row in read_rows(out / "progress.csv")] == [*range(1, last + 1)]
    word = "terminated" if number == signal.SIGTERM else "interrupted"
    said = told.decode().replace("\r\n", "")
    assert f"{word}; epoch {last} is saved, `holdfast resume {out}` continues." in said
    assert "Traceback" not in said


def test_a_checkpoint_is_read_by_shapes_alone(tmp_path, monkeypatch):
    """No network is initialised to be thrown away, and the state is that of the last epoch."""
    folder = trained(tmp_path / "run")
    run, spaces = folder.run, folder.spaces
    shapes, fresh = (first_state(run, spaces, shapes_only=s).learner for s in (True, False))
    described = lambda tree: [(leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(tree)]
    assert described(shapes) == described(fresh)
    assert jax.tree.structure(shapes) == jax.tree.structure(fresh)

    only_shapes = lambda tree: {type(x) for x in jax.tree.leaves(tree)} == {jax.ShapeDtypeStruct}
    assert only_shapes(shapes) and not only_shapes(fresh)
    asked, make = [], folders.first_state

    def counted(*given, **how):
        asked.append(how)
        return make(*given, **how)

    monkeypatch.setattr(folders, "first_state", counted)
    state, _ = load_state(folder)
    assert state is not None and state.epoch == 2
    assert asked == [{"shapes_only": True}]
