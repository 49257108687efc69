# SPDX-License-Identifier: Apache-2.0
"""Small things that a new user meets in the first hour."""

import io
import sys
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from holdfast import Agent, cli
from holdfast.bars.training_bar import Bar
from holdfast.envs.check import Finding, print_findings
from holdfast.envs.make import make_env
from holdfast.runs.folder import open_folder

SMALL = dict(num_envs=4, epoch_steps=200, hidden=(8,), critic_passes=1, cg_steps=3)
FLAGS = "--steps 200 --epoch-steps 200 --num-envs 4 --hidden 8 --quiet".split()


def test_a_missing_extra_is_named_whole_and_leaves_no_folder(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "wandb", None)
    out = tmp_path / "run"
    with pytest.raises(SystemExit) as stop:
        cli.main(["train", "c-trpo", "probe/Speed-v0", *FLAGS, "--out", str(out), "--wandb", "p"])
    assert stop.value.code == 2 and not out.exists()
    assert "pip install 'holdfast-rl[wandb]'" in capsys.readouterr().err


def test_a_remedy_is_never_cut():
    words = [f"word{i}" for i in range(60)]
    findings = [Finding("error", "cost", "a problem [of lists].", " ".join(words))]
    for width in (40, 80):
        out = io.StringIO()
        print_findings(findings, Console(file=out, width=width))
        told = out.getvalue()
        assert "…" not in told and "[of" in told
        assert all(word[:5] in told for word in words)


def test_an_agent_says_what_it_is():
    agent = Agent("c-trpo", **SMALL)
    assert repr(agent) == "Agent('c-trpo', has not learned yet)"
    agent.learn("probe/Machines-v0", 200, progress=False)
    told = repr(agent)
    assert told.startswith("Agent('c-trpo' on probe/Machines-v0, 200 steps, limits: heat 9, noise")
    assert f"return {agent.metrics[-1]['ep_return']:.4g}" in told


def test_learn_takes_tensorboard_and_a_callback_that_can_stop(tmp_path):
    seen = []
    stop = lambda epoch: seen.append(epoch.index) or epoch.index < 2
    agent = Agent("c-trpo", **SMALL)
    how = dict(progress=False, tensorboard=tmp_path / "events", callback=stop)
    agent.learn("probe/Speed-v0", 1000, out=tmp_path / "run", **how)
    assert seen == [1, 2] and agent.state.epoch == 2 and not open_folder(tmp_path / "run").finished
    assert any(Path(tmp_path / "events").iterdir())
    cli.main(["resume", str(tmp_path / "run"), "--quiet"])  # it ended in order
    whole = Agent("c-trpo", **SMALL).learn("probe/Speed-v0", 1000, progress=False, callback=len_of)
    again = Agent.load(tmp_path / "run")
    assert again.state.epoch == whole.state.epoch == 5
    one, other = (a.state.learner.policy.layers[0][0] for a in (again, whole))
    assert np.array_equal(one, other)


class Shown:
    """A bar that only remembers."""

    def __init__(self, *_):
        self.told = []

    def advance(self, env_steps):
        self.told.append(("within", env_steps))

    def write(self, env_steps, metrics):
        self.told.append(("epoch", env_steps))

    def close(self):
        self.told.append("closed")


@pytest.mark.parametrize("kept", [True, False])
def test_a_bar_moves_within_epochs_and_is_closed_once(kept, tmp_path, monkeypatch):
    bars = []
    shown = lambda *_: bars.append(Shown()) or bars[-1]
    monkeypatch.setattr("holdfast.agent.learning.training_bar", shown)
    sizes = SMALL | {"num_envs": 1}  # it is told every 64 steps of each
    out = tmp_path / "run" if kept else None
    agent = Agent("c-trpo", **sizes).learn("probe/Speed-v0", 400, out=out)
    first = [("within", 64), ("within", 128), ("within", 192), ("epoch", 200)]
    second = [(what, steps + 200) for what, steps in first]
    assert bars[0].told == [*first, *second, "closed"]
    agent.learn(total_steps=200, out=out)
    assert bars[1].told == [(what, steps + 200) for what, steps in second] + ["closed"]


def test_a_bar_is_closed_where_the_folder_is_refused(tmp_path, monkeypatch):
    (tmp_path / "mine").touch()
    bar = Shown()
    monkeypatch.setattr("holdfast.agent.learning.training_bar", lambda *_: bar)
    with pytest.raises(ValueError, match="not empty"):
        Agent("c-trpo", **SMALL).learn("probe/Speed-v0", 200, out=tmp_path)
    assert bar.told == ["closed"]


def test_a_callback_that_fails_leaves_the_last_epoch_saved_and_the_folder_free(tmp_path):
    """Also while its traceback is still held, as in a notebook."""
    agent = Agent("c-trpo", **SMALL, save_every=100)
    wrong = lambda epoch: epoch.index < 2 or 1 / 0
    with pytest.raises(ZeroDivisionError) as held:
        agent.learn("probe/Speed-v0", 1000, out=tmp_path / "run", progress=False, callback=wrong)
    assert Agent.load(tmp_path / "run").state.epoch == 2
    agent.learn(total_steps=200, out=tmp_path / "run", progress=False)
    assert agent.state.epoch == 3 and held.tb is not None


def len_of(epoch):
    """A callback that says nothing goes on."""
    return None


def test_an_unstable_simulation_leaves_no_file(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    env = make_env("SafetyHopperVelocity-v1", 1)
    env.reset(0)
    env.simulation.datas[0].qpos[:] = 1e12
    env.step(np.zeros((1, 3), np.float32))
    assert "MuJoCo: Nan, Inf or huge value" in capfd.readouterr().err
    assert list(tmp_path.iterdir()) == []


def a_run(clock, epochs=10, steps=20_000, pace=1e-3, update=3.0, compiling=(25.0, 40.0)):
    """(what is reported, seconds that are left in truth) of a run whose clock is ours."""
    whole = epochs * (steps * pace + update) + sum(compiling)
    clock.now += compiling[0]
    for epoch in range(epochs):
        for done in range(640, steps, 640):
            clock.now += 640 * pace
            yield "advance", epoch * steps + done, whole - clock.now
        clock.now += (steps - done) * pace + update + (compiling[1] if epoch == 0 else 0)
        yield "write", (epoch + 1) * steps, whole - clock.now


class Clock:
    now = 0.0

    def monotonic(self):
        return self.now


def test_the_time_left_is_sane_from_the_first_seconds(monkeypatch):
    """Compilation is no pace: it comes before the first step and in the first update."""
    clock, row = (
        Clock(),
        dict.fromkeys("ep_return ep_cost cost_regret_raw steps_per_second".split(), 1),
    )
    monkeypatch.setattr("holdfast.bars.training_bar.time", clock)
    bar = Bar(200_000, {"cost": 1.0}, "run", every=1e9, console=Console(file=io.StringIO()))
    assert bar.left(0) is None
    told, naive = [], []
    for what, steps, truth in a_run(clock):
        bar.advance(steps) if what == "advance" else bar.write(steps, row)
        left = bar.left(steps)
        if left is not None:
            told.append(abs(left - truth) <= 0.35 * truth + 3.0)  # and an update is one piece
            naive.append((clock.now * (200_000 - steps) / steps) / max(truth, 3.0))
    assert len(told) > 300, "from the second report on"
    # The first epoch cannot know the updates to come, nor its own compilation.
    assert all(told)
    assert max(naive) > 5, "the control: elapsed time would say six times too much"


def test_the_readme_says_how_to_begin_and_whose_work_it_is():
    said = (Path(__file__).parents[2] / "README.md").read_text()
    for words in ("pip install", "make demo", ".venv/bin/holdfast", "OmniSafe", "SafePO"):
        assert words in said, words
    assert "https://arxiv.org/abs/2411.02957" in said and "cite" in said
