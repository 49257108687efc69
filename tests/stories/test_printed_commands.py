# SPDX-License-Identifier: Apache-2.0
"""Every command that the tool prints runs as it is printed, also where paths have spaces.

The commands of a card are run by ship/test_certify.py, the winner of a study is parsed by
tune/test_tune.py.
"""

import re
import shlex
import shutil
import sys

import pytest

from holdfast import cli, make_run
from holdfast.bench.suite import Cell
from holdfast.cli import bench
from holdfast.cli.tune import conclude
from holdfast.console import plain_console
from holdfast.tune.space import Dimension
from holdfast.tune.study import Study, begin, read_trials, write

CAR = """
import gymnasium as gym
import numpy as np


class Car(gym.Env):
    observation_space = gym.spaces.Box(-1.0, 1.0, (2,), np.float32)
    action_space = gym.spaces.Box(0.0, 1.0, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.time += 1
        gone = float(action[0])
        costs = {"cost_heat": gone, "cost_speed": gone / 2}
        return np.zeros(2, np.float32), gone, False, self.time == 10, costs
"""
SIZES = "--num-envs 2 --epoch-steps 100 --hidden 4 --steps 200 --workers 1".split()
ENV = "my car/car.py:Car"


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path[:])
    (tmp_path / "my car").mkdir()
    (tmp_path / "my car" / "car.py").write_text(CAR)
    return tmp_path


def said(capsys, *words, codes=(0,)):
    """What a command prints, on one line where it is one."""
    code = 0
    try:
        cli.main([*words])
    except SystemExit as stop:
        code = stop.code or 0
    told = capsys.readouterr()
    assert code in codes, (words, told.err)
    return told.out + told.err


def commands(text):
    """In backquotes, or to the end of a line."""
    quoted = re.findall(r"`(holdfast [^`]+)`", text)
    return quoted + re.findall(r"^[A-Z][\w ]*: +(holdfast .*)$", text, re.M)


ANY = (0, 1, 3)
"""What `evaluate` ends with says what it found."""


def run_as_printed(capsys, line, codes=ANY):
    words = shlex.split(line)
    assert words[0] == "holdfast"
    return said(capsys, *words[1:], codes=codes)


@pytest.mark.skipif(sys.platform == "win32", reason="paths with a drive are no references")
def test_the_end_of_training_and_what_its_commands_print(here, capsys):
    limits = ("--limit", "heat=5", "--limit", "speed=5")
    told = said(capsys, "train", "c-trpo", ENV, *limits, *SIZES, "--out", "runs/my run")
    found = commands(told)
    verbs = [shlex.split(line)[1] for line in found]
    assert verbs == ["evaluate", "plot", "watch", "export"]
    more = [run_as_printed(capsys, line) for line in found]
    assert (here / "policy.onnx").exists() and list(here.glob("*.png"))
    greedy = f"holdfast {more[-1].partition('sampled ones: holdfast ')[2]}".strip()
    assert "most likely actions" in run_as_printed(capsys, greedy)
    shutil.copytree("runs/my run", "copied run")  # a folder that this user did not make here
    (here / "copied run" / "run.json").write_bytes(
        (here / "runs/my run/run.json").read_bytes() + b" "
    )
    judge = said(capsys, "export", "copied run", "-o", "copy.npz").partition("ones: ")[2].strip()
    assert judge.endswith(" --trust-env")
    assert "most likely actions" in run_as_printed(capsys, judge)


def test_errors_name_commands_that_run(here, capsys):
    told = said(capsys, "train", "c-trpo", ENV, *SIZES, "--out", "a b", codes=(2,))
    (check,) = commands(told)
    assert "Random actions cost" in run_as_printed(capsys, check)
    first = ("train", "c-trpo", "probe/Speed-v0", *SIZES, "--out", "a b", "--quiet")
    said(capsys, *first)
    (resume,) = commands(said(capsys, *first, codes=(2,)))
    assert "is finished" in run_as_printed(capsys, resume, (0, 2))
    (there,) = commands(said(capsys, "envs", "my car/x y.py:Car", codes=(2,)))[1:]
    assert shlex.split(there) == ["holdfast", "check", "my car/x y.py:Car"]


def test_bench_and_tune(here, capsys):
    out = here / "my runs"
    said(capsys, "train", "trpo", "probe/Speed-v0", *SIZES, "--out", str(out / "one"), "--quiet")
    bench.conclude(plain_console(), [Cell("one", make_run("trpo"))], out, {})
    (report,) = commands(capsys.readouterr().out)
    assert "report.html" in run_as_printed(capsys, f"{report} --no-figures")
    run = make_run("trpo", env="probe/Speed-v0", steps=200, epoch_steps=100, num_envs=2)
    study, asked = begin(
        here / "my study", Study(run, (Dimension("radius", 0.01, 0.1),), allow=9.0)
    )
    write(here / "my study", study, [{"radius": 0.05}])
    (out / "one").rename(here / "my study" / "trial-000")
    trials = read_trials(here / "my study", study, [{"radius": 0.05}])
    assert not asked and trials[0].state == "complete"
    conclude(study, trials, here / "my study", {})
    train, prove = commands(capsys.readouterr().out)
    run_as_printed(capsys, f"{train} --quiet --out 'the winner'")
    assert "10 runs" in run_as_printed(capsys, f"{prove} --dry-run")


def test_the_zoo(here, capsys, monkeypatch):
    """Made of a real run; its commands are executed, also the one that an empty zoo prints."""
    monkeypatch.setenv("HOLDFAST_ZOO", str(here / "my zoo"))
    (make,) = commands(said(capsys, "zoo"))
    assert make == "holdfast zoo --make RUNS"
    sizes = "--num-envs 4 --epoch-steps 4000 --hidden 8 --steps 4000 --workers 1 --quiet".split()
    said(capsys, "train", "trpo", "SafetyHopperVelocity-v1", *sizes, "--out", "RUNS/one")
    assert "zoo/SafetyHopperVelocity-v1: return" in run_as_printed(capsys, f"{make} --episodes 10")
    found = commands(said(capsys, "zoo"))
    assert [shlex.split(line)[1] for line in found] == ["watch", "evaluate", "export"]
    told = [run_as_printed(capsys, line) for line in found]
    assert "Safe, proved at 95%" in told[1]
    assert (here / "policy.onnx").exists() and list(here.glob("film.*"))
    greedy = f"holdfast {told[-1].partition('sampled ones: holdfast ')[2]}".strip()
    assert "most likely actions" in run_as_printed(capsys, greedy)
