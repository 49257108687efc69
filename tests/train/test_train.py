# SPDX-License-Identifier: Apache-2.0
"""Training: same seed, same bits; killed and resumed, the same bits; bad input, one sentence."""

import itertools
import signal
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest

import holdfast.train as loop
from full import repeats
from holdfast import Agent, make_env, make_run
from holdfast.core.policies import Categorical, Gaussian
from holdfast.envs.base import Step
from holdfast.records.rows import read_rows
from holdfast.runs.folder import create, load_state, open_folder, state_arrays
from holdfast.runs.training import train_in_folder
from holdfast.train import train
from holdfast.train.environment import Spaces, describe_acting, open_env
from holdfast.train.epoch import TrainingError
from holdfast.train.state import first_state
from small_runs import SMALL, finish, rows_without_clock, same, small


@pytest.mark.parametrize("normalise", ["running", "epoch", "none"])
@pytest.mark.parametrize("env", ["probe/Speed-v0", "probe/Machines-v0"])
def test_same_seed_same_bits_and_another_seed_another_run(env, normalise):
    results = []
    for seed in (0, 0, 1):
        run = small(env, epochs=2, seed=seed, normalise=normalise)
        *_, last = train(run, make_env(env, run.num_envs))
        results.append(state_arrays(last.state))
    same(results[0], results[1])
    name = "learner.policy.layers[0][0]"
    assert not np.array_equal(results[0][name], results[2][name])


@pytest.mark.parametrize("env", ["probe/Shortcut-v0", "SafetyHopperVelocity-v1"])
def test_resumed_run_ends_with_the_same_bytes(env, tmp_path):
    """Stopped after any epoch and loaded from disk: identical state and rows."""
    run = small(env, epochs=4, cost_estimate="window")  # 50 steps are no episode of Hopper's
    whole = create(tmp_path / "whole", run, make_env(env, run.num_envs))
    for epoch in train_in_folder(whole, make_env(env, run.num_envs)):
        final = state_arrays(epoch.state)
    stopped = create(tmp_path / "stopped", run, make_env(env, run.num_envs))
    for stop in (1, 2, 3):
        state, _ = load_state(open_folder(tmp_path / "stopped"))
        for epoch in train_in_folder(stopped, make_env(env, run.num_envs), state=state):
            if epoch.index == stop:
                break
    finish(open_folder(tmp_path / "stopped"), make_env(env, run.num_envs))
    again, _ = load_state(stopped)
    same(state_arrays(again), final)
    rows = rows_without_clock(tmp_path / "whole" / "progress.csv")
    assert rows == rows_without_clock(tmp_path / "stopped" / "progress.csv")
    assert len(rows) == 4 and stopped.finished


KILLED = """
import sys
from pathlib import Path
from holdfast.train.environment import open_env
from holdfast.runs.training import train_in_folder
from holdfast.runs.folder import load_state, open_folder
folder = open_folder(Path(sys.argv[1]))
state, _ = load_state(folder)
for _ in train_in_folder(folder, open_env(folder.run, folder.run.env), state=state):
    pass
"""


@pytest.mark.repeats
def test_sigkill_at_random_instants(tmp_path):
    """The short version of benchmarks/kill_resume.py: a few kills, then byte-identical."""
    run = small(epochs=30, critic_passes=1)
    env = make_env(run.env, run.num_envs)
    whole = create(tmp_path / "whole", run, env)
    for epoch in train_in_folder(whole, env):
        final = state_arrays(epoch.state)
    create(tmp_path / "killed", run, env)
    rng = np.random.default_rng(0)
    for _ in range(repeats(1, 3)):
        process = subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path / "killed")])
        before = len(progress(tmp_path))
        while process.poll() is None and len(progress(tmp_path)) < before + 5:
            time.sleep(0.005)
        assert process.poll() is None, "the kill comes while it is at work"
        time.sleep(rng.uniform(0, 0.05))
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert not (tmp_path / "killed" / "done.json").exists()
    finish(open_folder(tmp_path / "killed"), env)
    same(state_arrays(load_state(open_folder(tmp_path / "killed"))[0]), final)
    rows = rows_without_clock(tmp_path / "whole" / "progress.csv")
    assert rows == rows_without_clock(tmp_path / "killed" / "progress.csv")


def progress(tmp_path):
    path = tmp_path / "killed" / "progress.csv"
    return path.read_bytes().splitlines() if path.exists() else []


def test_results_do_not_depend_on_the_number_of_workers():
    ends = []
    for workers in (1, 2, 3):
        run = small("SafetyHopperVelocity-v1", epochs=2, cost_estimate="window")
        env = make_env(run.env, run.num_envs, workers=workers)
        try:
            *_, last = train(run, env)
        finally:
            env.close()
        ends.append(state_arrays(last.state))
    same(ends[0], ends[1])
    same(ends[0], ends[2])


def test_slow_noise_is_the_same_in_any_number_of_workers_and_after_a_resume(tmp_path):
    """Of a fixed time and of the rule's own; the control: white noise learns something else."""
    for steps in ("auto", 5.0):
        run = small("SafetyHopperVelocity-v1", epochs=2, noise_time=steps, cost_estimate="window")
        ends = []
        for workers in (1, 2):
            env = make_env(run.env, run.num_envs, workers=workers)
            folder = create(tmp_path / f"{steps}-{workers}", run, env)
            try:
                next(iter(train_in_folder(folder, env)))
            finally:
                env.close()
            again = make_env(run.env, run.num_envs, workers=3 - workers)
            try:
                *_, last = train(run, again, load_state(folder)[0])
            finally:
                again.close()
            ends.append(state_arrays(last.state))
        same(*ends)
        *_, white = train(replace(run, noise_time=0.0), make_env(run.env, run.num_envs))
        name = "learner.policy.layers[0][0]"
        assert not np.array_equal(ends[0][name], state_arrays(white.state)[name])


def test_one_compilation_for_a_run(monkeypatch):
    run = small(epochs=3)
    update = loop.make_update.__wrapped__(run.algorithm)
    monkeypatch.setattr(loop, "make_update", lambda *_: update)
    estimate = loop.compiled_estimate(run)
    monkeypatch.setattr(loop, "compiled_estimate", lambda _: estimate)
    before, counts = estimate._cache_size(), []
    for _ in train(run, make_env(run.env, run.num_envs)):
        counts.append(
            [part._cache_size() for part in (estimate, update.improve, update.fit.fit_one)]
        )
    assert counts == [[max(before, 1), 1, 1]] * 3


def test_policies_follow_the_action_space():
    def kind(env):
        run = small()
        return first_state(run, Spaces.of(run, env)).learner.policy

    assert isinstance(kind(make_env("probe/Speed-v0", 4)), Gaussian)
    assert isinstance(kind(make_env("probe/Shortcut-v0", 4)), Categorical)
    multi = kind(make_env("probe/Machines-v0", 4))
    assert isinstance(multi, Categorical) and multi.sizes == (2, 2)


@pytest.mark.parametrize("algorithm", ["p3o", "c3po", "c-trpo"])
def test_a_run_is_the_beginning_of_a_longer_one_by_its_schedule(algorithm):
    """To the last bit: what decays, grows or lands does so by `schedule_steps`."""
    ends = {}
    sizes = {"num_envs": 4, "epoch_steps": 200, "hidden": (8,), "cost_limit": 0.5}
    for name, epochs, schedule in (("long", 8, 0), ("part", 2, 8 * 200), ("short", 2, 0)):
        given = sizes | {"env": "probe/Speed-v0", "schedule_steps": schedule}
        run = make_run(algorithm, steps=epochs * 200, **given)
        epoch = next(itertools.islice(train(run, make_env("probe/Speed-v0", 4)), 1, None))
        ends[name] = state_arrays(epoch.state)
    same(ends["part"], ends["long"])
    if algorithm != "c-trpo":  # which knows its end only where it lands
        assert any((ends["short"][k] != v).any() for k, v in ends["long"].items())


def test_a_schedule_is_no_shorter_than_its_run():
    with pytest.raises(ValueError, match=r"schedule_steps=300 must be 0 or at least steps=400"):
        make_run("p3o", env="probe/Speed-v0", steps=400, schedule_steps=300)


class Faulty:
    """A probe whose environment 2 gives NaN in one place after a while."""

    def __init__(self, what, after=130):
        self.inner = make_env("probe/Speed-v0", 4)
        self.what, self.left = what, after

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def step(self, action):
        step = self.inner.step(action)
        self.left -= 1
        if self.left == 0:
            value = getattr(step, self.what).copy()
            value[2] = np.nan
            fields = {"next_obs": value} if self.what == "obs" else {}
            return Step(**(step.__dict__ | {self.what: value} | fields))
        return step


@pytest.mark.parametrize("what", ["reward", "cost", "obs"])
def test_nan_stops_with_epoch_env_and_last_good_checkpoint(what, tmp_path):
    env = Faulty(what)
    folder = create(tmp_path / "run", small(), env)
    with pytest.raises(TrainingError) as error:
        for _ in train_in_folder(folder, env):
            pass
    message = str(error.value)
    assert "epoch 3" in message and "environment 2" in message
    assert "epoch 2 is saved in" in message and "holdfast resume" in message
    finish(folder, make_env("probe/Speed-v0", 4))  # nothing was lost
    assert len(read_rows(tmp_path / "run" / "progress.csv")) == 4


def test_an_epoch_without_a_finished_episode_is_refused():
    run = small("SafetyHalfCheetahVelocity-v1", epochs=1, cost_estimate="window")
    with pytest.raises(TrainingError, match=r"no episode has ended.*raise epoch_steps"):
        list(train(run, make_env(run.env, run.num_envs)))


def test_limits_are_matched_by_name():
    run = small("probe/Machines-v0", limits={"heat": 9.0, "noise": 9.75})
    with pytest.raises(ValueError, match=r"no constraint is called 'hazards'.*heat, noise"):
        list(train(replace(run, limits={"hazards": 1.0}), make_env("probe/Machines-v0", 4)))


def test_agent_in_ten_lines(tmp_path):
    agent = Agent("c-trpo", beta=0.5, **SMALL)
    agent.learn("probe/Speed-v0", total_steps=400, progress=False, cost_limit=6.0)
    assert len(agent.metrics) == 2 and agent.run.algorithm.beta == 0.5
    env = make_env("probe/Speed-v0", 4)
    obs = env.reset(0)
    action = agent.predict(obs)
    assert action.shape == (4, 1)
    np.testing.assert_allclose(agent.predict(obs[0]), action[0], rtol=1e-5)
    assert not np.array_equal(agent.predict(obs, deterministic=False, seed=1), action)
    agent.save(tmp_path / "kept")
    again = Agent.load(tmp_path / "kept")
    np.testing.assert_array_equal(again.predict(obs), action)
    result = again.evaluate(episodes=20)
    assert result.summary()["episodes"] == 20 and result.verdict.safe in ("yes", "no", "undecided")
    with pytest.raises(ValueError, match="has not learned yet"):
        Agent("trpo").predict(obs)
    with pytest.raises(ValueError, match=r"unknown setting 'betta'; did you mean 'beta'"):
        Agent("c-trpo", betta=1)
    with pytest.raises(ValueError, match="is not an observation of the training environment"):
        agent.predict(np.zeros(99))


def test_learning_in_two_pieces_is_learning_in_one(tmp_path):
    """Also through a folder on disk: `learn` again means `learn` more."""
    once = Agent("c-trpo", **SMALL).learn("probe/Speed-v0", 800, progress=False, cost_limit=6.0)
    first = Agent("c-trpo", **SMALL).learn("probe/Speed-v0", 400, progress=False, cost_limit=6.0)
    first.save(tmp_path / "half")
    twice = Agent.load(tmp_path / "half").learn("probe/Speed-v0", 400, progress=False)
    same(state_arrays(once.state), state_arrays(twice.state))
    assert [row["epoch"] for row in twice.metrics] == [1, 2, 3, 4]
    with pytest.raises(ValueError, match="other spaces"):
        twice.learn("probe/Shortcut-v0", 200, progress=False)


def test_evaluation_is_seeded_and_counts_every_environment_equally():
    agent = Agent("c-trpo", **SMALL).learn("probe/Shortcut-v0", 200, progress=False, cost_limit=1.5)
    first, second = (agent.evaluate(episodes=30, seed=5) for _ in range(2))
    np.testing.assert_array_equal(first.costs, second.costs)
    assert not np.array_equal(first.costs, agent.evaluate(episodes=30, seed=6).costs)
    assert len(first.returns) == 30


@pytest.mark.parametrize(
    ("cores", "settings", "workers"),
    [
        ("2", {}, 2),
        ("1", {}, 1),
        ("2", {"workers": 1}, 1),
        ("1", {"workers": 2}, 2),
        ("9", {"num_envs": 3, "epoch_steps": 3000}, 3),
        ("2", {"preset": "published"}, 1),  # moving statistics need a hand-over at every step
        ("2", {"env": "probe/Speed-v0"}, 1),  # too cheap to split
    ],
)
def test_runs_use_all_cores_where_that_pays(monkeypatch, cores, settings, workers):
    monkeypatch.setenv("HOLDFAST_CORES", cores)
    chosen = {"env": "SafetyHopperVelocity-v1", "preset": None} | settings
    run = make_run("c-trpo", **chosen)
    env = open_env(run, run.env)
    try:
        assert env.facts.workers == workers
        where = f"{workers} worker processes" if workers > 1 else "this process"
        assert where in describe_acting(run, env)
    finally:
        env.close()
    judged = open_env(run, run.env, to_evaluate=True)  # by whole episodes, whatever the statistics
    try:
        assert judged.facts.workers == (2 if "preset" in settings else workers)
    finally:
        judged.close()


@pytest.mark.parametrize(
    ("workers", "said"), [(0, ""), (1, ""), (3, "; not in 3 workers: probe tasks need no workers")]
)
def test_the_first_line_says_how_a_run_acts(workers, said, capsys):
    small = dict(num_envs=4, epoch_steps=200, hidden=(8,), cg_steps=3, critic_passes=1)
    Agent("c-trpo", workers=workers, **small).learn("probe/Speed-v0", 200, cost_limit=6.0)
    first, *rest = capsys.readouterr().err.splitlines()
    assert first == (
        "c-trpo on probe/Speed-v0 (Holdfast's default): 200 steps in one epoch, 4 environments in "
        f"this process, observation statistics frozen for each epoch{said}"
    )
    assert not any(line.startswith("c-trpo on") for line in rest)
